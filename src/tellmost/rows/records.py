"""The rows of a file: their vectors, their ids, and columns by name."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tellmost.rows.files import File, Readable
from tellmost.rows.frames import plain_values
from tellmost.rows.sources import NamedArray
from tellmost.rows.text_embeddings import Where, is_whole_text
from tellmost.shapes import Float, Int, Shaped


@runtime_checkable
class Table(Protocol):
    """A file as a table: its columns, and its rows as they stand in it."""

    @property
    def file(self) -> Readable: ...

    @property
    def names(self) -> Sequence[str]: ...

    def column(self, name: str) -> list[Any]:
        """The values of a column. It must exist."""

    def some(
        self, indices: Int[np.ndarray, " k"], without: Collection[str | None]
    ) -> dict[str, Any]:
        """The columns of some rows in the order asked for, but for those that are left out."""


@dataclass(frozen=True, eq=False)
class Records:
    """The rows of a file: their vectors, their ids, and their columns, read when asked for.

    ``vectors`` is what ``tellmost.select`` takes: the path of a file that can be streamed, else a
    float array. ``ids`` are those of ``id_column``, as the file has them. Without one they are the
    numbers of the rows, from 0. ``place`` says where a row is: by its line, from 1, in a text
    file, as an editor shows it. ``rows`` are those that the vectors are of, where some were
    skipped. Everything else is about all rows of the file.
    """

    vectors: Any
    ids: Shaped[np.ndarray, " n"]
    table: Table = field(repr=False)
    id_column: str | None = None
    text_field: str | None = None
    features: Sequence[str] = ()  # the columns that the vectors were made of
    vector_column: str | None = None  # the column that holds them, if it is one of lists
    place: Where = field(default="row {}".format, repr=False)
    kept: Mapping[str, list[Any]] = field(default_factory=dict, repr=False)  # read on the way
    rows: Int[np.ndarray, " v"] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def skipped(self) -> list[int]:
        """The rows of the file that have no vector here."""
        return [] if self.rows is None else sorted({*range(len(self))} - {*self.rows.tolist()})

    def of_vectors(self, values: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, " v"]:
        """The values of the rows that the vectors are of, from those of all rows."""
        return values if self.rows is None else values[self.rows]

    def in_file(self, indices: Int[np.ndarray, " k"]) -> Int[np.ndarray, " k"]:
        """The rows of the file that rows of the vectors are."""
        return indices if self.rows is None else self.rows[indices]

    @property
    def path(self) -> Path:
        return Path(self.table.file.place)

    @property
    def has_own_ids(self) -> bool:
        return self.id_column is not None

    def column(self, name: str) -> Shaped[np.ndarray, " n"]:
        """A column, such as costs or labels: numbers where all values are numbers, else text."""
        return as_array(self.values(name))

    def numbers(self, name: str) -> Float[np.ndarray, " n"]:
        """A column of numbers, such as costs. An error names the first row without a number."""
        values = self.values(name)
        for row, value in enumerate(values):
            if not is_number(value):
                raise ValueError(
                    f"{self.table.file.label}, {self.line(row)}: column {name!r} must hold "
                    f"numbers; got {value!r}."
                )
        return np.array([float(value) for value in values])

    def values(self, name: str) -> list[Any]:
        """The values of a column as they stand in the file."""
        check_named(name, self.table.names, self.table.file)
        return self.kept[name] if name in self.kept else self.table.column(name)

    def items(self, indices: Int[np.ndarray, " k"] | None = None) -> list[Any]:
        """The texts of these rows, or of all, to be shown; without texts their ids."""
        shown = self.ids.tolist() if self.text_field is None else self.values(self.text_field)
        return shown if indices is None else [shown[index] for index in indices.tolist()]

    def line(self, index: int) -> str:
        """Say in words which row is meant, for errors."""
        place = self.place(index)
        return f"{place} (id {self.ids[index]!r})" if self.has_own_ids else place


@dataclass(frozen=True)
class JoinedTable:
    """The rows of several files, one file after the other, with the columns that all have."""

    tables: Sequence[Table]
    starts: Sequence[int]

    @property
    def file(self) -> Readable:
        first = Path(self.tables[0].file.place)
        name = f"{first.name} and {len(self.tables) - 1} more"
        return File(first.with_name(name), self.tables[0].file.argument, size=0, changed=0)

    @property
    def names(self) -> Sequence[str]:
        others = [set(table.names) for table in self.tables]
        return [name for name in self.tables[0].names if all(name in some for some in others)]

    def column(self, name: str) -> list[Any]:
        return [value for table in self.tables for value in table.column(name)]

    def some(
        self, indices: Int[np.ndarray, " k"], without: Collection[str | None]
    ) -> dict[str, Any]:
        numbers = np.searchsorted(self.starts, indices, side="right") - 1
        found: dict[str, list[Any]] = {}
        for number in np.unique(numbers).tolist():
            here = np.flatnonzero(numbers == number)
            part = self.tables[number].some(indices[here] - self.starts[number], without)
            for name, values in part.items():
                column = found.setdefault(name, [None] * len(indices))
                for place, value in zip(here.tolist(), plain_values(values), strict=True):
                    column[place] = value
        return found


def join_records(parts: Sequence[Records]) -> Records:
    """The records of several files, one file after the other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    parts = [match_features(part, first) for part in parts]
    starts = [0, *accumulate(len(part) for part in parts)]
    table = JoinedTable([part.table for part in parts], starts[:-1])

    def place(row: int) -> str:
        number = bisect_right(starts, row) - 1
        return f"{parts[number].place(row - starts[number])} of {parts[number].path.name}"

    ids: Shaped[np.ndarray, " n"] = np.arange(starts[-1])
    if (name := first.id_column) is not None:
        for part in parts:
            check_named(name, part.table.names, part.table.file)
        ids = check_ids(
            [some for part in parts for some in part.ids.tolist()], name, table.file.label, place
        )
    vectors = _join_vectors(parts)
    kept = {name: [value for part in parts for value in part.kept[name]] for name in first.kept}
    return replace(first, vectors=vectors, ids=ids, table=table, place=place, kept=kept)


def _join_vectors(parts: Sequence[Records]) -> Any:
    """One array of those in memory, or the places of those that are streamed."""
    given = [part.vectors for part in parts]
    if all(some is None for some in given):
        return None
    is_held = [isinstance(some, np.ndarray) for some in given]
    if any(is_held) and not all(is_held):
        one, other = parts[is_held.index(True)].path.name, parts[is_held.index(False)].path.name
        raise ValueError(
            f"{parts[0].table.file.argument}: files that are streamed cannot be joined with "
            f"others; {other} is streamed, {one} is not. Convert them alike first."
        )
    if not all(is_held):
        named = [some if isinstance(some, NamedArray) else NamedArray(some) for some in given]
        return replace(named[0], given=[some.given for some in named])
    widths = [some.shape[1] for some in given]
    odd = next((number for number, d in enumerate(widths) if d != widths[0]), None)
    if odd is None:
        return np.concatenate(given)
    raise ValueError(
        f"{parts[0].table.file.argument}: all files must have the same number of features; "
        f"{parts[0].path.name} has {widths[0]}, {parts[odd].path.name} has {widths[odd]}."
    )


SHOWN_NAMES = 20  # a file of 384 features has too many to list


def check_named(name: str, names: Sequence[str], file: Readable) -> str:
    """Return the name. An error lists the columns where none has it."""
    if name in names:
        return name
    if not names:
        raise ValueError(
            f"{file.label} has no column {name!r}: it holds rows of numbers, without names. Drop "
            f"the name, or keep such columns in a file that has them."
        )
    raise ValueError(f"{file.label} has no column {name!r}; it has {listed(names)}.")


def only_vectors(found: Sequence[str], names: Sequence[str], file: Readable, what: str) -> str:
    """The one column that holds vectors. The error for none or several says what there is."""
    if len(found) == 1:
        return found[0]
    came = f"{len(found)} do: {listed(found)}" if found else "none does"
    raise ValueError(
        f"{file.label}: one {what}; {came}, of the {what.split()[0]}s {listed(names)}. Name one, "
        f"column='{found[0] if found else 'emb'}', or embed a column of texts, text='text', "
        f"embed='all-minilm'."
    )


def find_columns(texts: Sequence[str], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The columns that texts such as "a", "a,b" and "a:h" name, and what names none."""
    found: dict[str, None] = {}
    unknown = []
    for text in texts:
        for part in [text] if text in names else text.split(","):
            ends = [part, part] if part in names else part.split(":")
            is_range = len(ends) == 2 and set(ends) <= set(names)
            start, stop = map(names.index, ends) if is_range else (0, -1)
            found |= dict.fromkeys(names[start : stop + 1])
            unknown += [part] if stop < start else []
    return list(found), unknown


def as_ranges(chosen: Sequence[str], names: Sequence[str]) -> list[str]:
    """Columns as ``find_columns`` reads them: those that stand together as a range."""
    places = {name: place for place, name in enumerate(names or chosen)}
    runs: list[list[str]] = []
    for name in chosen:
        if runs and places[name] == places[runs[-1][-1]] + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    return [run[0] if len(run) == 1 else f"{run[0]}:{run[-1]}" for run in runs]


def listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN_NAMES])
    more = len(names) - SHOWN_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def as_array(values: Sequence[Any]) -> Shaped[np.ndarray, " n"]:
    """Numbers as numbers, also those that a csv file holds as text. Anything else is text."""
    if all(map(is_number, values)):
        kind = float if any(isinstance(value, float) for value in values) else int
        for convert in (kind, float):
            try:
                return np.array([convert(value) for value in values])
            except ValueError:  # decimals in texts
                continue
    texts = (value if value is None or isinstance(value, str) else str(value) for value in values)
    return np.array(list(texts), dtype=object)


def is_number(value: Any) -> bool:
    """Say if a value is a number, perhaps as text. A truth value is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    if isinstance(value, str) and not has_plain_digits(value):
        return False
    try:
        float(value)
    except (ValueError, OverflowError):
        return False
    return True


def has_plain_digits(text: str) -> bool:
    """Say if a number in the text means the same everywhere. Python alone reads 1_0 as ten."""
    return text.isascii() and "_" not in text


SHOWN_IDS = 5


def key_of(value: Any) -> str:
    """Ids are compared by this text: 7, "7" and 7.0 are the same. A table with gaps has 7.0."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def check_ids(
    values: Sequence[Any], name: str, label: str, where: Where
) -> Shaped[np.ndarray, " n"]:
    """Check that every row has an id and no two are alike. ``where`` names a row by its place."""
    seen: dict[str, int] = {}
    for row, value in enumerate(values):
        if (came := _fault(value)) is not None:
            raise ValueError(
                f"{label}: every row must have an id in {name!r}; {where(row)} has {came}. "
                f"Fill it in, or name another id_column."
            )
        first = seen.setdefault(key_of(value), row)
        if first != row:
            raise ValueError(
                f"{label}: ids must differ; {where(first)} and {where(row)} both have "
                f"{name} {value!r}. Make them unique, or name another id_column."
            )
    ids = np.empty(len(values), dtype=object)
    ids[:] = values
    return ids


def _fault(value: Any) -> str | None:
    """Say why a value cannot be an id. None where it can."""
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
    """The row numbers of ids, in the order of the ids."""
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

    Columns are matched by name where both files have several with names. They mean the same only
    if they have the same names. Otherwise the widths alone are compared, later.
    """
    names, own = list(pool.features), list(targets.features)
    if len(names) < 2 or len(own) < 2 or names == own:
        return targets
    both = [name for name in names if name in own]
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
            f"{targets.path.name} and {pool.path.name} must have the same columns of numbers; "
            f"there is "
            f"{', and '.join(only)}. Name those that both have, column={as_ranges(both, names)}."
        )
    return replace(
        targets, vectors=targets.vectors[:, [own.index(name) for name in names]], features=names
    )
