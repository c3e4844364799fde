"""The formats of text files: .csv and .tsv with cells, .jsonl and .json with objects.

Vectors are columns of numbers, or one column of lists of numbers.
"""

import csv
import json
import re
import sys
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np

from tellmost.rows.files import Readable
from tellmost.rows.frames import NO_FEATURES
from tellmost.rows.records import (
    as_ranges,
    check_named,
    find_columns,
    has_plain_digits,
    is_number,
    listed,
    only_vectors,
)
from tellmost.rows.text_tables import LONGEST_LINE, VectorRows, read_lines, suffix_of
from tellmost.running.memory import in_words
from tellmost.shapes import Int

LEAST_COUNTED = 8  # hardly any point reads 0, 1, 2, ... 7: such a row is a header
LOOKED_AT = 100  # so many rows show which columns hold numbers
MISSING = {"", "na", "n/a", "nan", "null", "none"}

TAB, SEMICOLON = "\t", ";"
QUOTED = re.compile('"[^"]*"')
DECIMAL = re.compile(r"[-+]?\d+(,\d+)?([eE][-+]?\d+)?")
"""A number with a comma for a point, as spreadsheets write it beside semicolons."""

CELLS = (".csv", ".tsv")

Cells = list[str]
Fields = dict[str, Any]

ReadVector = Callable[[Any, int], Sequence[Any]]
"""Takes the vector out of a row with its line. Its entries are not checked yet."""


class Delimited:
    """Rows of cells. If ``has_header`` is None the first rows tell whether there is a header.

    With gaps a number that is missing is NaN. Otherwise it is an error.
    """

    is_array = False

    def __init__(
        self, file: Readable, has_header: bool | None = None, *, has_gaps: bool = False
    ) -> None:
        self.file, self.has_gaps = file, has_gaps
        self._delimiter = self._find_delimiter()
        start = list(islice(self._scan(), LOOKED_AT))
        if not start:
            raise ValueError(f"{file.label} has no rows.")
        cells = [row for _, row in start]
        self._has_header = is_header(cells) if has_header is None else has_header
        self.width = len(cells[0])
        self.names: Sequence[str] = cells[0] if self._has_header else []
        self._places = {name: place for place, name in enumerate(self.names)}
        self._check_names()
        self._body = cells[self._has_header :]
        self.has_rows = len(self._body) > 0

    def rows(self) -> Iterator[tuple[int, Any]]:
        """Each row of cells after its first line."""
        for line, cells in islice(self._scan(), self._has_header, None):
            if len(cells) != self.width:
                raise ValueError(
                    f"{self.file.label}: all rows must have as many cells as line 1, "
                    f"{self.width}; line {line} has {len(cells)}."
                )
            yield line, cells

    def fields(self, row: Cells) -> Fields:
        """The cells of a row by the names of their columns."""
        return dict(zip(self.names, row, strict=False))

    def value(self, row: Cells, name: str, line: int) -> str:
        return row[self._places[name]]

    def vectors(
        self, wanted: str | None, others: Iterable[str], features: Sequence[str] | None = None
    ) -> tuple[list[str], ReadVector]:
        """The columns that are features, and how to take a vector out of a row.

        ``features`` names them, in the words of ``find_columns``. None finds them.
        """
        if wanted is not None:
            name = check_named(wanted, self.names, self.file)
            return [name], lambda row, line: self._listed(row[self._places[name]], name, line)
        names = self.names or list(map(str, range(self.width)))
        others = set(others)
        places = (
            self._numeric(names, others) if features is None else self._named(features, others)
        )
        take = (
            itemgetter(*places) if len(places) > 1 else itemgetter(slice(places[0], places[0] + 1))
        )

        def read(row: Cells, line: int) -> Sequence[Any]:
            cells = take(row)
            numbers = as_numbers(cells)
            if numbers is None and self.has_gaps:
                numbers = as_numbers(["nan" if _is_missing(cell) else cell for cell in cells])
            if numbers is None:
                raise self._no_number(row, places, line)
            return numbers

        return [names[place] for place in places], read

    def _named(self, features: Sequence[str], others: set[str]) -> list[int]:
        """The places of the columns that are named as features and serve no other end."""
        found, unknown = find_columns(features, self.names)
        for name in unknown:
            check_named(name, self.names, self.file)
        places = [self._places[name] for name in found if name not in others]
        if places:
            return places
        raise ValueError(
            f"{self.file.label}: at least one column must be a feature; other options name all "
            f"that features names. Name another."
        )

    def _numeric(self, names: Sequence[str], others: set[str]) -> list[int]:
        """The places of the columns that have a name, hold numbers and serve no other end."""
        places = [
            place
            for place, name in enumerate(names)
            if name and name not in others and self._begins_with_number(place)
        ]
        self._check_no_label(names, [names[place] for place in places])
        if places:
            return places
        raise ValueError(
            f"{self.file.label} has no column of numbers; it has {listed(names)}. Separate cells "
            f"by {'tabs' if self._delimiter == TAB else 'commas or semicolons'}, name a column of "
            f"lists, column='emb', or embed a column of texts, text='text', embed='all-minilm'."
        )

    def _check_no_label(self, names: Sequence[str], features: Sequence[str]) -> None:
        """Refuse a label or an id. As a feature it would say what none can know of a new row."""
        found = [name for name in features if name.strip().lower() in NO_FEATURES]
        if found:
            rest = [name for name in features if name not in found]
            without = f"Leave it out, column={as_ranges(rest, names)}, or take" if rest else "Take"
            raise ValueError(
                f"{self.file.label}: features must be told from labels and ids, and column "
                f"{found[0]!r} is named like one. {without} it as a feature, "
                f"column={as_ranges(features, names)}."
            )

    def _begins_with_number(self, place: int) -> bool:
        """Say if the first cell that is not missing is meant as a number."""
        cells = (row[place] for row in self._body if len(row) > place)
        return _is_meant(next((cell for cell in cells if not _is_missing(cell)), "words"))

    def _listed(self, cell: str, name: str, line: int) -> Sequence[Any]:
        try:
            values = json.loads(cell)
        except (ValueError, RecursionError):
            values = None
        if isinstance(values, list):
            return values
        came = cell if len(cell) <= 40 else f"{cell[:40]}..."
        raise ValueError(
            f"{self.file.label}, line {line}: column {name!r} must hold a list of numbers such as "
            f"[0.1, 2]; got {came!r}."
        )

    def _no_number(self, row: Cells, places: list[int], line: int) -> ValueError:
        place = next(place for place in places if not is_number(row[place]))
        column = repr(self.names[place]) if self.names else str(place + 1)
        cell = row[place]
        came, way_out = f"got {cell!r}", "Repair the cell, or"
        if not cell.strip():
            came, way_out = "it is empty", "Repair or drop such rows. Or"
        rule = "numbers in plain digits, such as 1000" if _is_meant(cell) else "numbers"
        return ValueError(
            f"{self.file.label}, line {line}: column {column} must hold {rule}; {came}. "
            f"{way_out} leave the column out of the features by naming what it is."
        )

    def _check_names(self) -> None:
        for place, name in enumerate(self.names):
            if name and self._places[name] != place:
                raise ValueError(f"{self.file.label} has two columns named {name!r}. Rename one.")

    def _find_delimiter(self) -> str:
        """A comma, or a semicolon where the first line has more of them outside of quotes."""
        if suffix_of(self.file.name) == ".tsv":
            return TAB
        first = next((text for _, text in read_lines(self.file) if text.strip()), "")
        plain = QUOTED.sub("", first).strip()
        is_numeric = all(map(DECIMAL.fullmatch, plain.split(SEMICOLON)))
        has_more = plain.count(SEMICOLON) > plain.count(",")
        return SEMICOLON if has_more or (is_numeric and SEMICOLON in plain) else ","

    def _scan(self) -> Iterator[tuple[int, Cells]]:
        """First line and cells of each row. A row with quotes may go over several lines."""
        number, first, held = 0, 1, 0

        def lines() -> Iterator[str]:
            nonlocal number, held
            for line, text in read_lines(self.file):
                number, held = line, held + sys.getsizeof(text)
                if held > LONGEST_LINE:
                    raise ValueError(
                        f"{self.file.label}: a row must be shorter than {in_words(LONGEST_LINE)}; "
                        f"that of line {first} is not. Close its quote."
                    )
                yield text

        if csv.field_size_limit() < LONGEST_LINE:  # its own, 128 KB, is less than a document
            csv.field_size_limit(LONGEST_LINE)  # csv has one limit for the whole process
        reader = csv.reader(lines(), delimiter=self._delimiter, strict=True)
        try:
            for cells in reader:
                if cells and self._delimiter == SEMICOLON:  # where a comma marks decimals
                    cells = [c.replace(",", ".") if DECIMAL.fullmatch(c) else c for c in cells]
                if cells:
                    yield first, cells
                first, held = number + 1, 0
        except csv.Error as error:
            is_old = "new-line" in str(error)
            reason = "lines must end in LF or CR LF; one ends in CR alone" if is_old else error
            raise ValueError(f"{self.file.label}, line {number}: {reason}.") from error


def as_numbers(cells: Sequence[str]) -> list[float] | None:
    """The numbers in some cells. None if a cell holds none."""
    try:
        return list(map(float, cells)) if has_plain_digits("".join(cells)) else None
    except ValueError:
        return None


def is_header(start: Sequence[Cells]) -> bool:
    """Say if the first of some rows names columns: it holds a word, or it counts 0, 1, 2, ...

    pandas counts columns that have no names, after an empty name for its index. A point that
    counts as well is told from a header by its length and by the row below.
    """
    first = start[0]
    if not all(_is_meant(cell) or _is_missing(cell) for cell in first):
        return True
    counted = first[1:] if first[0] == "" else first
    if counted != list(map(str, range(len(counted)))) or len(start) == 1:
        return False
    return len(counted) >= LEAST_COUNTED or not all(cell.isdigit() for cell in start[1])


def _is_meant(cell: str) -> bool:
    """Say if a cell is meant as a number, also one such as 1_000, which is refused when read."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING


class JsonLines:
    """A record per line, or in .json an array of records. The columns are those of the first."""

    has_rows = True

    def __init__(self, file: Readable, *, has_gaps: bool = False) -> None:
        self.file, self.has_gaps = file, has_gaps
        self.is_array = suffix_of(file.name) == ".json"
        _, first = next(self.rows(), (0, None))
        if first is None:
            raise ValueError(f"{file.label} has no rows.")
        self._first = first
        self.names: Sequence[str] = list(first)

    def rows(self) -> Iterator[tuple[int, Any]]:
        """Each record after its line, or its row in an array. Blank lines are no records."""
        if self.is_array:
            rows = self._parsed(
                "".join(text for _, text in read_lines(self.file)), self.file.label
            )
            if not isinstance(rows, list):
                raise ValueError(
                    f"{self.file.label} must be a JSON array of objects; got {_shortened(rows)}."
                )
            yield from ((row, self._checked(some, row)) for row, some in enumerate(rows))
            return
        for line, text in read_lines(self.file):
            if text.strip():
                yield line, self._checked(self._parsed(text, self._at(line)), line)

    def _at(self, number: int) -> str:
        return f"{self.file.label}, {'row' if self.is_array else 'line'} {number}"

    def fields(self, row: Fields) -> Fields:
        return row

    def value(self, row: Fields, name: str, line: int) -> Any:
        try:
            return row[name]
        except KeyError:
            raise ValueError(
                f"{self._at(line)}: every record must have the field {name!r}; this one has "
                f"{listed(list(row)) or 'none'}."
            ) from None

    def vectors(
        self, wanted: str | None, others: Iterable[str], features: Sequence[str] | None = None
    ) -> tuple[list[str], ReadVector]:
        """The column that holds the vectors, and how to take one out of a record."""
        name = self._vector_name(wanted)

        def read(row: Fields, line: int) -> Sequence[Any]:
            value = self.value(row, name, line)
            if isinstance(value, list):
                return value
            raise ValueError(
                f"{self._at(line)}: {name!r} must be a list of numbers; got {_shortened(value)}."
            )

        return [name], read

    def _vector_name(self, wanted: str | None) -> str:
        if wanted is not None:
            return check_named(wanted, self.names, self.file)
        kinds = int | float | None if self.has_gaps else int | float
        lists = [
            name
            for name, value in self._first.items()
            if isinstance(value, list) and value and all(isinstance(x, kinds) for x in value)
        ]
        return only_vectors(lists, self.names, self.file, "field must hold the vectors")

    def _parsed(self, text: str, place: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            message = "nested too deeply"
            if isinstance(error, json.JSONDecodeError):
                line = f"line {error.lineno}, " if self.is_array else ""
                message = f"{error.msg} at {line}column {error.colno}"
            raise ValueError(f"{place} is not valid JSON: {message}.") from error

    def _checked(self, row: Any, number: int) -> Fields:
        if isinstance(row, dict):
            return row
        raise ValueError(
            f"{self._at(number)} must be a JSON object such as "
            f'{{"id": 1, "text": "..."}}; got {_shortened(row)}.'
        )


def _shortened(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


TextFormat = Delimited | JsonLines


@dataclass(frozen=True)
class TextTable:
    """A text file as a table of records."""

    format: TextFormat

    @property
    def file(self) -> Readable:
        return self.format.file

    @property
    def names(self) -> Sequence[str]:
        return self.format.names

    def column(self, name: str) -> list[Any]:
        return [self.format.value(row, name, line) for line, row in self.format.rows()]

    def some(
        self, indices: Int[np.ndarray, " k"], without: Collection[str | None]
    ) -> dict[str, Any]:
        wanted = set(indices.tolist())
        rows = enumerate(row for _, row in self.format.rows())
        found = {number: self.format.fields(row) for number, row in rows if number in wanted}
        records = [found[number] for number in indices.tolist()]
        names = dict.fromkeys([*self.names, *(name for record in records for name in record)])
        kept = [name for name in names if name not in without]
        return {name: [record.get(name) for record in records] for name in kept}


def read_body(
    source: TextFormat,
    keep: Sequence[str],
    read_vector: ReadVector | None,
    memory: int | None = None,
) -> tuple[Int[np.ndarray, " n"], dict[str, list[Any]], VectorRows | None]:
    """Read the lines of rows, the columns to keep, and vectors where there is a way to."""
    lines = array("q")
    kept: dict[str, list[Any]] = {name: [] for name in keep}
    vectors = None
    if read_vector is not None:
        vectors = VectorRows(source.file, has_gaps=source.has_gaps, memory=memory)
    for line, row in source.rows():
        lines.append(line)
        for name, values in kept.items():
            values.append(source.value(row, name, line))
        if vectors is not None and read_vector is not None:
            place = "row" if source.is_array else "line"
            vectors.add(read_vector(row, line), f"{place} {line}")
    return np.array(lines, dtype=np.int64), kept, vectors
