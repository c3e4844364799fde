"""A .csv, .tsv or .jsonl file: read once for its vectors, and again for what else is asked."""

import gzip
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tellmost.records.text_files import is_gzipped
from tellmost.records.vectors import VectorBlocks
from tellmost.rows.sources import File
from tellmost.shapes import Int

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


def read_body(
    source: TextFormat, keep: Sequence[str], read_vector: ReadVector | None, dtype: np.dtype
) -> Body:
    """Vectors, unless there are none to read, and the columns to keep."""
    lines = array("q")
    kept: dict[str, list[Any]] = {name: [] for name in keep}
    vectors = None if read_vector is None else VectorBlocks(source.file, dtype)
    for line, row in source.rows():
        lines.append(line)
        for name, values in kept.items():
            values.append(source.value(row, name, line))
        if vectors is not None and read_vector is not None:
            vectors.add(read_vector(row, line), f"line {line}")
    return Body(np.array(lines, dtype=np.int64), kept, vectors)


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"
