"""One file of points with what belongs to each row.

Columns by name: which there are, which is meant, and their values as an array.

Ids of rows: the file's own, and how two of them are compared.

Columns of numbers mean the same in two files only if they have the same names.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tellmost.cli.text_embeddings import is_whole_text
from tellmost.cli.text_tables import Where
from tellmost.rows.files import File
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


def match_features(targets: Records, pool: Records) -> Records:
    """The targets with their columns of numbers in the pool's order.

    Only where both are made of several named columns; else their widths alone are compared.
    """
    names, own = list(pool.features), list(targets.features)
    if len(names) < 2 or len(own) < 2 or names == own:
        return targets
    only = [
        f"{listed(sorted(some))} only in {records.path.name}"
        for some, records in (
            (set(names) - set(own), pool),
            (set(own) - set(names), targets),
        )
        if some
    ]
    if only:
        raise ValueError(
            f"pool and targets must have the same columns of numbers; there is "
            f"{', and '.join(only)}. Leave a column out with ignore_column, or say what it is for."
        )
    return replace(
        targets, vectors=targets.vectors[:, [own.index(name) for name in names]], features=names
    )
