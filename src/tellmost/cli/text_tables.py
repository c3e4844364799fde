"""Text files of rows, plain or gzipped, whatever their format.

A file is read once for its vectors and once more for whatever else is asked. Lines have the
numbers that an editor shows.
"""

import gzip
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tellmost.rows.files import File
from tellmost.shapes import Float, Int

MARK = b"\xef\xbb\xbf"  # some programs write it at the beginning of UTF-8 files

Line = tuple[int, str]
"""The number of a line, from 1, and its text with the end of line."""


def suffix_of(path: Path) -> str:
    """The ending that says the format. It is .jsonl for ``a.jsonl.gz``."""
    return path.with_suffix("").suffix if is_gzipped(path) else path.suffix


def is_gzipped(path: Path) -> bool:
    return path.suffix == ".gz"


def read_lines(file: File) -> Iterator[Line]:
    """All lines. Errors name the file and the line. The file must be as it was at first."""
    for number, line in enumerate(_byte_lines(file), start=1):
        content = line.removeprefix(MARK) if number == 1 else line
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{file.label} must be text in UTF-8; line {number} is not: {error.reason} at its "
                f"byte {error.start}. Convert the file first, for example with iconv."
            ) from error
        yield number, text


def _byte_lines(file: File) -> Iterator[bytes]:
    with file.opened():  # an error, where the file has changed
        pass
    open_bytes = gzip.open if is_gzipped(file.path) else open
    with open_bytes(file.path, "rb") as opened:
        try:
            yield from opened
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            message = str(error).rstrip(".")
            raise ValueError(f"{file.label} is not a complete .gz file: {message}.") from error


BLOCK_ROWS = 4_096

Where = Callable[[int], str]
"""Says in words which row is meant."""


class VectorBlocks:
    """Collects rows of one length in blocks of float32."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._blocks: list[np.ndarray] = []
        self._count = 0  # rows in the last block
        self._first = ""  # where the first row is
        self._d = 0

    def add(self, values: Sequence[Any], place: str) -> None:
        """Add a row. ``place`` says where it stands, for errors."""
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
            self._blocks.append(np.empty((BLOCK_ROWS, self._d), np.float32))
            self._count = 0
        with np.errstate(over="ignore"):  # what is too large becomes inf, which `joined` refuses
            self._blocks[-1][self._count] = row
        self._count += 1

    def joined(self, where: Where) -> Float[np.ndarray, "n d"]:
        """All rows as one array. An error names the first row that is not finite."""
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


ReadVector = Callable[[Any, int], Sequence[Any]]
"""Takes the vector out of a row with its line. Its entries are not checked yet."""


@runtime_checkable
class TextFormat(Protocol):
    """The format of a text file: how rows stand in it."""

    file: File
    names: Sequence[str]
    header: str
    has_rows: bool

    def rows(self) -> Iterator[tuple[int, Any]]:
        """Each row after its line."""

    def raw(self) -> Iterator[str]:
        """Each row as it stands in the file."""

    def value(self, row: Any, name: str, line: int) -> Any:
        """The entry of a row in a column."""

    def vectors(self, wanted: str | None, others: Iterable[str]) -> tuple[list[str], ReadVector]:
        """The columns of the vectors, none of which is in ``others``, and how to read a vector."""


@dataclass(frozen=True)
class TextTable:
    """A text file as a table of records."""

    format: TextFormat

    @property
    def file(self) -> File:
        return self.format.file

    @property
    def names(self) -> Sequence[str]:
        return self.format.names

    def column(self, name: str) -> list[Any]:
        return [self.format.value(row, name, line) for line, row in self.format.rows()]

    def take(self, indices: Int[np.ndarray, " k"]) -> list[str]:
        """Rows as they stand in the file, each with an end of line."""
        wanted = set(indices.tolist())
        found = {row: text for row, text in enumerate(self.format.raw()) if row in wanted}
        return [_ended(found[row]) for row in indices.tolist()]

    def write(self, path: Path, indices: Int[np.ndarray, " k"]) -> None:
        """Write rows as they stand in the file, gzipped where the file is."""
        text = "".join([self.format.header, *self.take(indices)]).encode()
        path.write_bytes(gzip.compress(text) if is_gzipped(self.file.path) else text)


@dataclass(frozen=True)
class Body:
    """What one pass over a text file collects."""

    lines: Int[np.ndarray, " n"]
    kept: dict[str, list[Any]]
    vectors: VectorBlocks | None


def read_body(source: TextFormat, keep: Sequence[str], read_vector: ReadVector | None) -> Body:
    """Read the columns to keep, and vectors where there is a way to read them."""
    lines = array("q")
    kept: dict[str, list[Any]] = {name: [] for name in keep}
    vectors = None if read_vector is None else VectorBlocks(source.file)
    for line, row in source.rows():
        lines.append(line)
        for name, values in kept.items():
            values.append(source.value(row, name, line))
        if vectors is not None and read_vector is not None:
            vectors.add(read_vector(row, line), f"line {line}")
    return Body(np.array(lines, dtype=np.int64), kept, vectors)


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"
