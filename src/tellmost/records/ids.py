"""Ids of rows: the file's own, and how two of them are compared."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tellmost.embeddings import is_whole_text
from tellmost.records.vectors import Where
from tellmost.rows.sources import File
from tellmost.shapes import Int, Shaped

SHOWN_IDS = 5


def key_of(value: Any) -> str:
    """What ids are compared by: 7, "7" and 7.0, as a table with gaps has it, are the same."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def check_ids(
    values: Sequence[Any], name: str, file: File, where: Where
) -> Shaped[np.ndarray, " n"]:
    """Own ids: there for every row, and no two alike; ``where`` names a row without its id."""
    seen: dict[str, int] = {}
    for row, value in enumerate(values):
        if (came := _fault(value)) is not None:
            raise ValueError(
                f"{file.label}: every row must have an id in {name!r}; {where(row)} has {came}. "
                f"Fill it in, or name another id_column."
            )
        first = seen.setdefault(key_of(value), row)
        if first != row:
            raise ValueError(
                f"{file.label}: ids must differ; {where(first)} and {where(row)} both have "
                f"{name} {value!r}. Make them unique, or name another id_column."
            )
    ids = np.empty(len(values), dtype=object)
    ids[:] = values
    return ids


def _fault(value: Any) -> str | None:
    """Why a value can be no id; None where it can."""
    if value is None or value == "" or value != value:
        return "none"
    if isinstance(value, list | dict):
        return f"a {type(value).__name__}"
    if isinstance(value, str) and not is_whole_text(value):
        return f"{value!r}, which has half a character in it"
    return None


def find_rows(
    wanted: Iterable[Any], known: Iterable[Any], argument: str, pool: str
) -> Int[np.ndarray, " k"]:
    """Row numbers of ids, in the order they are given."""
    rows = {key_of(value): row for row, value in enumerate(known)}
    values = list(wanted)
    unknown = [value for value in values if key_of(value) not in rows]
    if unknown:
        shown = ", ".join(repr(value) for value in unknown[:SHOWN_IDS])
        more = f" and {len(unknown) - SHOWN_IDS:,} more" if len(unknown) > SHOWN_IDS else ""
        raise ValueError(
            f"{argument} must name ids of {pool}; {len(unknown):,} of {len(values):,} are unknown "
            f"there: {shown}{more}. Is it a file for another pool, or another id_column?"
        )
    return np.array([rows[key_of(value)] for value in values], dtype=np.int64)
