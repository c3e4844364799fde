"""A .csv, .tsv or .jsonl file: read once for its vectors, and again for what else is asked.

Lines of a text file, plain or gzipped, with their numbers as an editor shows them.

Vectors of a text file, collected row by row into one array.
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

MARK = b"\xef\xbb\xbf"  # some programs begin UTF-8 files with it

Line = tuple[int, str]
"""(number from 1, text with its end of line)."""


def suffix_of(path: Path) -> str:
    """The ending that says the format: of ``a.jsonl.gz`` it is .jsonl."""
    return path.with_suffix("").suffix if is_gzipped(path) else path.suffix


def is_gzipped(path: Path) -> bool:
    return path.suffix == ".gz"


def read_lines(file: File) -> Iterator[Line]:
    """All lines; errors name the file and the line. The file must be as it was at first."""
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
    with file.opened():  # it has to be the same as before
        pass
    open_bytes = gzip.open if is_gzipped(file.path) else open
    with open_bytes(file.path, "rb") as opened:
        try:
            yield from opened
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            message = str(error).rstrip(".")
            raise ValueError(f"{file.label} is no whole .gz file: {message}.") from error


BLOCK_ROWS = 4_096

Where = Callable[[int], str]
"""A row in words."""


class VectorBlocks:
    """Rows as they come, in blocks of float32; the rows must be of one length."""

    def __init__(self, file: File) -> None:
        self._file = file
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
            self._blocks.append(np.empty((BLOCK_ROWS, self._d), np.float32))
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


ReadVector = Callable[[Any, int], Sequence[Any]]
"""From a row and its line to its vector, whose entries are not checked yet."""


@runtime_checkable
class TextFormat(Protocol):
    """How rows stand in a text file."""

    file: File
    names: Sequence[str]
    header: str
    has_rows: bool

    def rows(self) -> Iterator[tuple[int, Any]]:
        """(line, row)."""

    def raw(self) -> Iterator[str]:
        """Each row as it stands in the file."""

    def value(self, row: Any, name: str, line: int) -> Any:
        """The entry of a row in a column."""

    def vectors(self, wanted: str | None, others: Iterable[str]) -> tuple[list[str], ReadVector]:
        """The columns that the vectors are made of, and how to read one; ``others`` are not."""


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
        """Gzipped where the file it comes from is."""
        text = "".join([self.format.header, *self.take(indices)]).encode()
        path.write_bytes(gzip.compress(text) if is_gzipped(self.file.path) else text)


@dataclass(frozen=True)
class Body:
    """What one pass over a text file brings together."""

    lines: Int[np.ndarray, " n"]
    kept: dict[str, list[Any]]
    vectors: VectorBlocks | None


def read_body(source: TextFormat, keep: Sequence[str], read_vector: ReadVector | None) -> Body:
    """Vectors, unless there are none to read, and the columns to keep."""
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
