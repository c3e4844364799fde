"""One file of points with what belongs to each row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tellmost.records.columns import as_array, check_named, is_number
from tellmost.rows.sources import File
from tellmost.shapes import Float, Int, Shaped


@runtime_checkable
class Table(Protocol):
    """What a file holds beside its vectors: columns, and rows as they stand in it."""

    @property
    def file(self) -> File: ...

    @property
    def names(self) -> Sequence[str]: ...

    def column(self, name: str) -> list[Any]:
        """The values of a column that there is."""

    def take(self, indices: Int[np.ndarray, " k"]) -> Any:
        """Rows as they stand in the file, in the order asked for."""

    def write(self, path: Path, indices: Int[np.ndarray, " k"]) -> None:
        """The same rows to a file of the same format."""


@dataclass(frozen=True, eq=False)
class Records:
    """Rows of a file: their vectors, their ids, and the rest when it is asked for.

    ``vectors`` is what ``tellmost.select`` takes: the path where it can be streamed, else a float
    array. ``ids`` are those of ``id_column``; without one the lines of a text file from 1, as an
    editor shows them, or the row numbers of an array from 0.
    """

    vectors: Any
    ids: Shaped[np.ndarray, " n"]
    table: Table = field(repr=False)
    id_column: str | None = None
    text_field: str | None = None
    features: Sequence[str] = ()  # the columns that the vectors were made of
    lines: Int[np.ndarray, " n"] | None = field(default=None, repr=False)
    kept: Mapping[str, list[Any]] = field(default_factory=dict, repr=False)  # read on the way

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def path(self) -> Path:
        return self.table.file.path

    @property
    def has_own_ids(self) -> bool:
        return self.id_column is not None

    @property
    def columns(self) -> Sequence[str]:
        return self.table.names

    def column(self, name: str) -> Shaped[np.ndarray, " n"]:
        """A column, such as costs or labels: numbers where all are, else text."""
        return as_array(self.values(name))

    def numbers(self, name: str) -> Float[np.ndarray, " n"]:
        """A column of numbers, such as costs; an error names the row that has none."""
        values = self.values(name)
        for row, value in enumerate(values):
            if not is_number(value):
                raise ValueError(
                    f"{self.table.file.label}, {self.line(row)}: column {name!r} must hold "
                    f"numbers; got {value!r}."
                )
        return np.array([float(value) for value in values])

    def values(self, name: str) -> list[Any]:
        """A column as the file has it."""
        check_named(name, self.columns, self.table.file)
        return self.kept[name] if name in self.kept else self.table.column(name)

    def items(self, indices: Int[np.ndarray, " k"] | None = None) -> list[Any]:
        """Something to show for these rows, or for all: their texts, or else their ids."""
        shown = self.ids.tolist() if self.text_field is None else self.values(self.text_field)
        return shown if indices is None else [shown[index] for index in indices.tolist()]

    def records(self, indices: Int[np.ndarray, " k"]) -> Any:
        """The file's own records: lines of text, a pyarrow table, or a tensor of rows."""
        return self.table.take(indices)

    def line(self, index: int) -> str:
        """The row in words, for errors."""
        place = name_place(index, self.lines)
        return f"{place} (id {self.ids[index]!r})" if self.has_own_ids else place


def name_place(index: int, lines: Sequence[int] | Int[np.ndarray, " n"] | None) -> str:
    return f"row {index}" if lines is None else f"line {lines[index]}"
