"""Vectors of a text file, collected row by row into one array."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tellmost.rows.sources import File
from tellmost.shapes import Float

BLOCK_ROWS = 4_096

Where = Callable[[int], str]
"""A row in words."""


class VectorBlocks:
    """Rows as they come, in blocks of the final dtype; the rows must be of one length."""

    def __init__(self, file: File, dtype: np.dtype) -> None:
        self._file, self._dtype = file, dtype
        self._blocks: list[np.ndarray] = []
        self._count = 0  # rows in the last block
        self._first = ""  # where the first row is
        self._d = 0

    def add(self, values: Sequence[Any], place: str) -> None:
        """One row; ``place`` says where it stands, for errors."""
        if not self._first:
            self._first, self._d = place, len(values)
            self._check_filled(place)
        if len(values) != self._d:
            raise ValueError(
                f"{self._file.label}: all vectors must have the same length; that of "
                f"{self._first} has {self._d}, that of {place} has {len(values)}."
            )
        row = _numbers(values, f"{self._file.label}, {place}")
        if self._count == (len(self._blocks[-1]) if self._blocks else 0):
            self._blocks.append(np.empty((BLOCK_ROWS, self._d), self._dtype))
            self._count = 0
        with np.errstate(over="ignore"):  # what is too large becomes inf, and is named below
            self._blocks[-1][self._count] = row
        self._count += 1

    def joined(self, where: Where) -> Float[np.ndarray, "n d"]:
        """The array; an error names the first row that is not finite."""
        if not self._blocks:
            raise ValueError(f"{self._file.label} has no rows.")
        blocks = [*self._blocks[:-1], self._blocks[-1][: self._count]]
        self._blocks = []
        array = blocks[0].copy() if len(blocks) == 1 else np.concatenate(blocks)
        check_finite(array, self._file, where)
        return array

    def _check_filled(self, place: str) -> None:
        if self._d == 0:
            raise ValueError(f"{self._file.label}: the vector of {place} is empty.")


def check_finite(array: Float[np.ndarray, "n d"], file: File, where: Where) -> None:
    for start in range(0, len(array), BLOCK_ROWS):
        is_bad = ~np.isfinite(array[start : start + BLOCK_ROWS]).all(axis=1)
        if is_bad.any():
            row = start + int(np.flatnonzero(is_bad)[0])
            raise ValueError(
                f"{file.argument} must be finite; {where(row)} of {file.path.name} has a NaN, an "
                f"infinity or a number too large for {array.dtype}. Drop or repair such "
                f"rows first."
            )


def _numbers(values: Sequence[Any], place: str) -> np.ndarray:
    try:
        row = np.array(values)
    except ValueError:  # lists inside, of several lengths
        row = np.empty(0, dtype=object)
    if row.dtype.kind in "fiu" and row.ndim == 1:
        return row
    for entry, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{place}: entry {entry} of the vector is no number; got {value!r}.")
    return np.array([_float(value) for value in values])


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond all floats
        return float("inf")
