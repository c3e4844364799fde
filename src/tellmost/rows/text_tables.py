"""Text files of rows, plain or gzipped, whatever their format.

A file is read once for its vectors and once more for whatever else is asked. Lines have the
numbers that an editor shows.
"""

import gzip
import zlib
from array import array
from collections.abc import Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tellmost.rows.files import Readable
from tellmost.rows.sources import spans
from tellmost.rows.text_embeddings import Where
from tellmost.running.memory import available, in_words
from tellmost.running.reading import reason_of
from tellmost.shapes import Float

SUFFIXES = (".csv", ".tsv", ".jsonl", ".json")
BUFFER_BYTES = 2**20  # so much is asked of a store at once

MARK = b"\xef\xbb\xbf"  # some programs write it at the beginning of UTF-8 files

LONGEST_LINE = 2**28
"""So many bytes of a line are read at most: a million features take a tenth. A small gzipped file
can hold a line that fills the memory."""

Line = tuple[int, str]
"""The number of a line, from 1, and its text with the end of line."""


def suffix_of(name: str | Path) -> str:
    """The ending that says the format. It is .jsonl for ``a.jsonl.gz``."""
    path = Path(name)
    inner = Path(path.stem).suffix
    return inner if path.suffix == ".gz" and inner in SUFFIXES else path.suffix


def read_lines(file: Readable) -> Iterator[Line]:
    """All lines. Errors name the file and the line. The file must be as it was at first."""
    for number, line in enumerate(_byte_lines(file), start=1):
        if len(line) == LONGEST_LINE:
            raise ValueError(
                f"{file.label}: a line must be shorter than {in_words(LONGEST_LINE)}; line "
                f"{number} is not. Write a row on each line."
            )
        content = line.removeprefix(MARK) if number == 1 else line
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{file.label} must be text in UTF-8; line {number} is not: {error.reason} at its "
                f"byte {error.start}. Convert the file first, for example with iconv."
            ) from error
        yield number, text


def _byte_lines(file: Readable) -> Iterator[bytes]:
    with file.opened():  # an error, where the file has changed
        pass
    with BufferedReader(file.stream(), BUFFER_BYTES) as plain:
        opened = gzip.GzipFile(fileobj=plain) if file.suffix == ".gz" else plain
        try:
            while line := opened.readline(LONGEST_LINE):
                yield line
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            reason = reason_of(error)
            raise ValueError(f"{file.label} is not a complete .gz file: {reason}.") from error


BLOCK_ROWS = 4_096
BLOCK_NUMBERS = 2**20

ROOM_PER_NUMBER = 16  # bytes: a float64, and as much beside it


class VectorRows:
    """Collects rows of one length, in float32 where it holds every number of the text.

    With gaps a number may be missing or not finite. It is NaN where it is missing.
    """

    def __init__(
        self, file: Readable, *, has_gaps: bool = False, memory: int | None = None
    ) -> None:
        self._file, self._has_gaps = file, has_gaps
        self._values = array("d")
        self._first = ""  # where the first row is
        self._d = 0
        room = available(torch.device("cpu")) if memory is None else memory
        self._room = room // ROOM_PER_NUMBER

    def add(self, values: Sequence[Any], place: str) -> None:
        """Add a row. ``place`` says where it stands, for errors."""
        if self._has_gaps:
            values = [np.nan if value is None else value for value in values]
        if not self._first:
            self._first, self._d = place, len(values)
            if self._d == 0:
                raise ValueError(f"{self._file.label}: the vector of {place} is empty.")
        if len(values) != self._d:
            raise ValueError(
                f"{self._file.label}: all vectors must have the same length; that of "
                f"{self._first} has {self._d}, that of {place} has {len(values)}."
            )
        if len(self._values) > self._room:
            raise ValueError(
                f"{self._file.label}: the numbers up to {place} take half of the memory. Give "
                f"more, or keep the rows as .npy or .parquet, which are streamed."
            )
        row = _numbers(values, f"{self._file.label}, {place}")
        self._values.frombytes(row.astype(np.float64).tobytes())

    def joined(self, where: Where) -> Float[np.ndarray, "n d"]:
        """All rows as one array. Unless it has gaps, an error names a row that is not finite."""
        if not self._values:
            raise ValueError(f"{self._file.label} has no rows.")
        rows = np.frombuffer(self._values).reshape(-1, self._d)
        if not self._has_gaps:
            check_finite(rows, self._file, where)
        if not _is_float32(rows):
            return rows
        del rows
        return self._narrowed()

    def _narrowed(self) -> Float[np.ndarray, "n d"]:
        """The rows as float32, in the first half of the memory. The rest is given back."""
        count = len(self._values)
        wide, narrow = np.frombuffer(self._values), np.frombuffer(self._values, np.float32)
        for start, stop in spans(count, BLOCK_NUMBERS):
            narrow[start:stop] = wide[start:stop]
        del wide, narrow
        del self._values[(count + 1) // 2 :]
        return np.frombuffer(self._values, np.float32)[:count].reshape(-1, self._d)


def _is_float32(rows: Float[np.ndarray, "n d"]) -> bool:
    """Say if every number is the same in float32."""
    parts = (rows[start:stop] for start, stop in spans(len(rows), BLOCK_ROWS))
    with np.errstate(over="ignore"):  # what is too large becomes inf, which is another number
        return all(np.array_equal(p, p.astype(np.float32), equal_nan=True) for p in parts)


def check_finite(rows: Float[np.ndarray, "n d"], file: Readable, where: Where) -> None:
    for start, stop in spans(len(rows), BLOCK_ROWS):
        is_bad = ~np.isfinite(rows[start:stop]).all(axis=1)
        if is_bad.any():
            row = start + int(np.flatnonzero(is_bad)[0])
            raise ValueError(
                f"{file.argument} must be finite; {where(row)} of {file.name} has a NaN, an "
                f"infinity or a number too large for {rows.dtype}. Repair or drop such rows."
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
