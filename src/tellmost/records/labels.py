"""Labels: one per row, by id where there are ids, else by order."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tellmost.records.columns import as_array
from tellmost.records.ids import SHOWN_IDS, key_of
from tellmost.records.reading import OWN_ID
from tellmost.records.records import Records
from tellmost.records.small_files import SmallFile, open_small
from tellmost.rows.sources import check_there, open_filled
from tellmost.shapes import Shaped

LABEL = "label"  # the column of labels where none is named


def read_labels(
    path: str | os.PathLike[str], argument: str, records: Records, *, column: str | None = None
) -> Shaped[np.ndarray, " n"]:
    """A label for each row: numbers stay numbers, for regression; words stay words.

    A .csv, .tsv, .jsonl, .parquet, .txt or .npy file. Rows are matched by id where the file has a
    column of ids that can be the pool's, else they must be as many, in the same order.
    """
    path = Path(path)
    check_there(path, argument, "Name one file in it.")
    if path.suffix == ".npy":
        return _check_all(_load_vector(path, argument), path.name, argument, records)
    small = open_small(path, argument, (".npy",))
    ids = _find_ids(small, records)
    values = _find_labels(small, records, column)
    if ids is not None:
        values = _ordered(ids, values, small, records)
    return _check_all(as_array(values), path.name, argument, records)


def _load_vector(path: Path, argument: str) -> np.ndarray:
    file = open_filled(path, argument)
    try:
        values = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        message = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"{file.label} is no whole .npy file of labels: {message}.") from error
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.dtype.kind not in "fiubU":
        raise ValueError(
            f"{file.label} must hold one label per row, (n,); got {values.dtype} of shape "
            f"{values.shape}."
        )
    return values


def _find_ids(small: SmallFile, records: Records) -> list[Any] | None:
    """Ids that say which row a label belongs to; None where order has to say it."""
    name = next((n for n in (records.id_column, OWN_ID) if n in small.names), None)
    if name is None:
        return None
    ids = small.column(name)
    if records.has_own_ids or set(map(key_of, ids)) == set(map(key_of, records.ids.tolist())):
        return ids
    return None


def _find_labels(small: SmallFile, records: Records, column: str | None) -> list[Any]:
    if column is not None:
        return small.column(column)
    others = [name for name in small.names if name not in (records.id_column, OWN_ID)]
    names = [LABEL, *(others if len(others) == 1 else [])]
    return small.find(names, "labels", "Name one of them.")


def _ordered(
    ids: Sequence[Any], values: Sequence[Any], small: SmallFile, records: Records
) -> list[Any]:
    """The labels of the pool's rows; the file may have others as well."""
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
