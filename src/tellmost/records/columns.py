"""Columns by name: which there are, which is meant, and their values as an array."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tellmost.rows.sources import File
from tellmost.shapes import Shaped

SHOWN_NAMES = 20  # a file of 384 features has many more


def check_named(name: str, names: Sequence[str], file: File) -> str:
    """The name, or an error that lists the columns there are."""
    if name in names:
        return name
    if not names:
        raise ValueError(
            f"{file.label} has no column {name!r}: it holds rows of numbers, without names. Drop "
            f"the name, or keep such columns in a file that has them."
        )
    raise ValueError(f"{file.label} has no column {name!r}; it has {listed(names)}.")


def listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN_NAMES])
    more = len(names) - SHOWN_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def as_array(values: Sequence[Any]) -> Shaped[np.ndarray, " n"]:
    """Numbers as numbers, also those that a csv file holds as text; anything else as text."""
    if all(map(is_number, values)):
        kind = float if any(isinstance(value, float) for value in values) else int
        for convert in (kind, float):
            try:
                return np.array([convert(value) for value in values])
            except ValueError:  # decimals in texts
                continue
    return np.array([_text(value) for value in values], dtype=object)


def is_number(value: Any) -> bool:
    """Also as text; a truth value is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    if isinstance(value, str) and "_" in value:  # Python reads 1_0 as ten; nobody else does
        return False
    try:
        float(value)
    except (ValueError, OverflowError):
        return False
    return True


def _text(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else str(value)
