"""Which pool rows a file names: by their ids, as a saved selection, or as row numbers."""

import os
from pathlib import Path

import numpy as np
import torch

from tellmost import numerics
from tellmost.records.ids import find_rows, key_of
from tellmost.records.reading import OWN_ID
from tellmost.records.records import Records
from tellmost.records.small_files import SmallFile, open_small
from tellmost.rows.opening import check_indices, open_source, read_array
from tellmost.rows.pool import Pool
from tellmost.rows.sources import check_there
from tellmost.selecting.selection import Selection
from tellmost.shapes import Int

SAVED = ".tellmost"


def match_ids(
    path: str | os.PathLike[str], records: Records, argument: str
) -> Int[np.ndarray, " k"]:
    """Numbers of the pool rows that a file names, in its order.

    A .csv, .tsv, .jsonl or .parquet file with a column of ids, called as the pool's or "id"; ids
    in a lone column or a .txt file; a saved Selection; an .npy file of row numbers.
    """
    path = Path(path)
    check_there(path, argument, "Name one file in it.")
    if path.suffix == SAVED:
        return _rows_of(Selection.load(path), records, argument)
    if path.suffix == ".npy":
        return check_indices(read_array(path, argument), argument, len(records)).numpy()
    names = (records.id_column, OWN_ID)
    small = open_small(path, argument, (SAVED, ".npy"), headers=names)
    ids = small.find(names, "ids", f"Name it {records.id_column or OWN_ID!r}.")
    rows = find_rows(ids, records.ids.tolist(), small.file.label, records.path.name)
    if {"rank", "index"} <= set(small.names):
        _check_same_rows(rows, small, records)
    return rows


def _check_same_rows(rows: Int[np.ndarray, " k"], small: SmallFile, records: Records) -> None:
    """Picks were written with both; ids that are mere line numbers fit any pool."""
    for row, index in zip(rows.tolist(), small.column("index"), strict=True):
        if key_of(index) != str(row):
            raise ValueError(
                f"{small.file.label} has picks of another pool: its row {index} has an id that is "
                f"row {row} of {records.path.name}. If only the ids are meant, give them alone, "
                f"in a .txt file."
            )


def read_observed(
    path: str | os.PathLike[str], records: Records, argument: str = "observed"
) -> Selection | torch.Tensor | Int[np.ndarray, " k"]:
    """What ``select`` takes as observed: a saved Selection, points of an .npy file, or rows."""
    path = Path(path)
    check_there(path, argument, "Name one file in it.")
    if path.suffix == SAVED:
        return Selection.load(path)  # select checks that it belongs to the pool
    if path.suffix == ".npy":
        return read_array(path, argument)
    return match_ids(path, records, argument)


def _rows_of(chosen: Selection, records: Records, argument: str) -> Int[np.ndarray, " k"]:
    source = open_source(records.vectors, "pool")
    try:
        pool = Pool(source, source.device, numerics.BLOCK_BYTES)
        is_same = pool.fingerprint() == chosen.fingerprint.split("+")[0]
    finally:
        source.close()
    if not is_same:
        raise ValueError(
            f"{argument} is a Selection from another pool than {records.path.name}: its row "
            f"numbers mean other points here. Pass a file of ids."
        )
    return chosen.indices
