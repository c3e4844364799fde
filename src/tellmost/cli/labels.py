"""Files that say something about rows of another file: labels and values, or which rows are meant.

Rows are matched by id where both files have ids, else by order.
"""

import warnings
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tellmost import numerics
from tellmost.integrations.labelling import ANNOTATION, POOL_ID, find_answered, read_answers
from tellmost.rows.checks import check_indices
from tellmost.rows.files import File, check_there, open_filled
from tellmost.rows.parquet import ParquetTable
from tellmost.rows.pool import Pool
from tellmost.rows.record_files import OWN_ID
from tellmost.rows.records import (
    SHOWN_IDS,
    Records,
    as_array,
    check_named,
    find_rows,
    key_of,
    listed,
)
from tellmost.rows.sources import open_source, read_array
from tellmost.rows.text_formats import Delimited, JsonLines, TextTable
from tellmost.rows.text_tables import read_lines, suffix_of
from tellmost.running.reading import refusing_damage
from tellmost.selecting.selection import Selection
from tellmost.shapes import Int, Shaped

FORMATS = (".csv", ".tsv", ".jsonl", ".json", ".parquet", ".txt")


@dataclass(frozen=True)
class SmallFile:
    """A file of columns with names, or of one column without a name, ``only``."""

    file: File
    names: Sequence[str]
    read: Callable[[str], list[Any]]
    only: list[Any] | None = None
    is_flat: bool = True  # False for tasks and records of a tool, of which the labelled are here

    def column(self, name: str) -> list[Any]:
        return self.read(check_named(name, self.names, self.file))

    def find(self, names: Sequence[str | None], what: str, way_out: str) -> list[Any]:
        """The first of these columns that exists, or else the only column."""
        if self.only is not None:
            return self.only
        for name in names:
            if name is not None and name in self.names:
                return self.column(name)
        if len(self.names) == 1:
            return self.column(self.names[0])
        raise ValueError(
            f"{self.file.label} must have a column of {what}; it has {listed(self.names)}. "
            f"{way_out}"
        )


def open_small(
    path: Path,
    argument: str,
    others: Sequence[str] = (),
    headers: Collection[str | None] | None = None,
) -> SmallFile:
    """Open a file of one of the formats. ``others`` are those that the caller reads itself.

    The first cell of a lone column is its name if it is one of ``headers``, or if it is any word
    where they are None.
    """
    check_there(path, argument)
    file = open_filled(path, argument)
    match suffix_of(path):
        case ".txt":
            lines = [text.strip() for _, text in read_lines(file)]
            return SmallFile(file, (), list, [text for text in lines if text])
        case ".csv" | ".tsv":
            return _open_delimited(file, headers)
        case ".jsonl" | ".json":
            return _open_json(file)
        case ".parquet":
            parquet = ParquetTable(file)
            return SmallFile(file, parquet.names, parquet.column)
    raise ValueError(
        f"{argument}: cannot read {path.name}; the formats are {', '.join([*others, *FORMATS])}."
    )


def _open_json(file: File) -> SmallFile:
    """Records of any kind, or what a tool for labelling exports, of which the labelled count."""
    rows = [row for _, row in JsonLines(file).rows()]
    records, open_count = read_answers(rows)
    _note_open(open_count, len(rows), file)
    names = list(dict.fromkeys(name for record in records for name in record))

    def read(name: str) -> list[Any]:
        return [record.get(name) for record in records]

    return SmallFile(file, names, read, is_flat=records == rows)


def _note_open(count: int, total: int, file: File) -> None:
    if count:
        warnings.warn(
            f"{count:,} of the {total:,} records of {file.path.name} are not labelled and do not "
            f"count.",
            stacklevel=2,
        )


def _open_delimited(file: File, headers: Collection[str | None] | None) -> SmallFile:
    source = Delimited(file)
    if source.width == 1 and headers is not None and source.names:
        source = Delimited(file, has_header=source.names[0] in headers)
    if source.names:
        table = TextTable(source)
        return SmallFile(file, table.names, table.column)
    if source.width > 1:
        raise ValueError(
            f"{file.label} has {source.width} columns without names. Add a header, or keep one."
        )
    return SmallFile(file, (), list, [row[0] for _, row in source.rows()])


LABEL = "label"  # the column of labels where the user names none


def read_labels(
    path: Path, argument: str, records: Records, *, column: str | None = None
) -> Shaped[np.ndarray, " n"]:
    """A label for each row. Numbers stay numbers, for regression, and words stay words.

    The file is .csv, .tsv, .jsonl, .parquet, .txt or .npy. Rows are matched by id where the file
    has a column of ids that can be the pool's. Otherwise there must be as many, in the same order.
    """
    if path.suffix == ".npy":
        return _check_all(_load_vector(path, argument), path.name, argument, records)
    small = open_small(path, argument, (".npy",))
    ids = _find_ids(small, records)
    others = [name for name in small.names if name not in (POOL_ID, records.id_column, OWN_ID)]
    names = [LABEL, *(others if len(others) == 1 else [])]
    if column is not None:
        values = small.column(column)
    else:
        values = small.find(names, "labels", "Name one of them.")
    values = values if ids is None else _ordered(ids, values, small, records)
    return _check_all(as_array(values), path.name, argument, records)


def _load_vector(path: Path, argument: str) -> np.ndarray:
    check_there(path, argument)
    file = open_filled(path, argument)
    with refusing_damage(f"{file.label} is not a complete .npy file of labels"):
        values = np.load(path, allow_pickle=False)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.dtype.kind not in "fiubU":
        raise ValueError(
            f"{file.label} must hold one label per row, (n,); got {values.dtype} of shape "
            f"{values.shape}."
        )
    return values


def _find_ids(small: SmallFile, records: Records) -> list[Any] | None:
    """Ids that say which row a label belongs to. None where the order says it."""
    name = next((n for n in (POOL_ID, records.id_column, OWN_ID) if n in small.names), None)
    if name is None:
        return None
    ids = small.column(name)
    is_same = set(map(key_of, ids)) == set(map(key_of, records.ids.tolist()))
    return ids if records.has_own_ids or is_same else None


def _ordered(
    ids: Sequence[Any], values: Sequence[Any], small: SmallFile, records: Records
) -> list[Any]:
    """The labels of the pool's rows. The file may have further rows."""
    known: dict[str, Any] = {}
    for identifier, value in zip(ids, values, strict=True):
        key = key_of(identifier)
        if key in known:
            raise ValueError(f"{small.file.label} has two labels for id {identifier!r}. Keep one.")
        known[key] = value
    lacking = [i for i in records.ids.tolist() if key_of(i) not in known]
    if lacking:
        shown = ", ".join(repr(i) for i in lacking[:SHOWN_IDS])
        raise ValueError(
            f"{small.file.label} must have a label for every row of {records.path.name}; "
            f"{len(lacking):,} ids have none: {shown}{' and more' * (len(lacking) > SHOWN_IDS)}."
        )
    return [known[key_of(i)] for i in records.ids.tolist()]


def _check_all(
    labels: Shaped[np.ndarray, " l"], name: str, argument: str, records: Records
) -> Shaped[np.ndarray, " l"]:
    n = len(records)
    if len(labels) != n:
        raise ValueError(
            f"{argument}: {name} must have one label per row of {records.path.name}, {n:,}; it "
            f"has {len(labels):,}. The first line of a .csv file is a header if it is no number; "
            f"a .txt file has none."
        )
    is_float = labels.dtype.kind == "f"
    is_gap = [label is None or label == "" for label in labels.tolist()]
    is_bad = ~np.isfinite(labels) if is_float else np.array(is_gap)
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        raise ValueError(
            f"{argument}: {name} must have a label for every row; that of {records.line(row)} of "
            f"{records.path.name} is {str(labels[row]) or 'empty'}. Leave such rows out of both "
            f"files."
        )
    return labels


SAVED = ".tellmost"


def match_ids(
    path: Path, records: Records, argument: str, *, only_labelled: bool = False
) -> Int[np.ndarray, " k"]:
    """The numbers of the pool rows that a file names, in its order.

    With only_labelled, rows of a table with labels that have none are left out, with a note.

    The file has a column of ids, called as the pool's or "id" (.csv, .tsv, .jsonl, .json,
    .parquet), or ids alone (.txt, or one column), or row numbers (.npy), or it is a saved
    Selection. What Label Studio and Argilla export is read as such.
    """
    if path.suffix == SAVED:
        return _rows_of(Selection.load(path), records, argument)
    if path.suffix == ".npy":
        return check_indices(read_array(path, argument), argument, len(records)).numpy()
    names = (POOL_ID, records.id_column, OWN_ID)
    small = open_small(path, argument, (SAVED, ".npy"), headers=names)
    ids = small.find(names, "ids", f"Name it {records.id_column or OWN_ID!r}.")
    rows = find_rows(ids, records.ids.tolist(), small.file.label, records.path.name)
    if {"rank", "index"} <= set(small.names):
        _check_same_rows(rows, small, records)
    if only_labelled and small.is_flat and (answered := find_answered(small.names, small.column)):
        _note_open(answered.count(False), len(answered), small.file)
        rows = rows[np.array(answered)]
        if ANNOTATION in small.names:  # a row for each person who labelled it
            rows = np.array(list(dict.fromkeys(rows.tolist())), dtype=np.int64)
    return rows


def _check_same_rows(rows: Int[np.ndarray, " k"], small: SmallFile, records: Records) -> None:
    """Compare row numbers with ids, since ids that are numbers from 0 would fit any pool."""
    for row, index in zip(rows.tolist(), small.column("index"), strict=True):
        if key_of(index) != str(row):
            raise ValueError(
                f"{small.file.label} has picks of another pool: its row {index} has an id that is "
                f"row {row} of {records.path.name}. If only the ids are meant, give them alone, "
                f"in a .txt file."
            )


def read_observed(
    path: Path, records: Records, argument: str = "observed"
) -> Selection | torch.Tensor | Int[np.ndarray, " k"]:
    """Read what ``select`` takes: a saved Selection, points from an .npy file, or rows."""
    if path.suffix == SAVED:
        return Selection.load(path)  # `select` checks that it belongs to the pool
    if path.suffix == ".npy":
        return read_array(path, argument)
    return match_ids(path, records, argument, only_labelled=True)


def _rows_of(chosen: Selection, records: Records, argument: str) -> Int[np.ndarray, " k"]:
    with closing(open_source(records.vectors, "pool")) as source:
        pool = Pool(source, source.device, numerics.BLOCK_BYTES)
        is_same = pool.fingerprint() == chosen.fingerprint.split("+")[0]
    if not is_same:
        raise ValueError(
            f"{argument} is a Selection from another pool than {records.path.name}: its row "
            f"numbers mean other points here. Pass a file of ids."
        )
    return records.in_file(chosen.indices)
