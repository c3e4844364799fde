"""A .jsonl file: one JSON object per line."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tellmost.records.columns import check_named, listed
from tellmost.records.text_files import read_lines
from tellmost.rows.sources import File

Row = dict[str, Any]


class JsonLines:
    """Records by line. The columns are the fields of the first record."""

    header = ""
    has_rows = True

    def __init__(self, file: File) -> None:
        self.file = file
        _, first = next(self.rows(), (0, None))
        if first is None:
            raise ValueError(f"{file.label} has no rows.")
        self._first = first
        self.names: Sequence[str] = list(first)

    def rows(self) -> Iterator[tuple[int, Row]]:
        """(line, record); blank lines are no records."""
        for line, text in read_lines(self.file):
            if text.strip():
                yield line, self._parsed(line, text)

    def raw(self) -> Iterator[str]:
        """Each record as it stands in the file."""
        return (text for _, text in read_lines(self.file) if text.strip())

    def value(self, row: Row, name: str, line: int) -> Any:
        try:
            return row[name]
        except KeyError:
            raise ValueError(
                f"{self.file.label}: every record must have the field {name!r}; that of line "
                f"{line} has {listed(list(row)) or 'none'}."
            ) from None

    def vectors(
        self, wanted: str | None, others: Iterable[str]
    ) -> tuple[list[str], Callable[[Row, int], Sequence[Any]]]:
        """The column that holds the vectors, and how to take one out of a record."""
        name = self._vector_name(wanted)

        def read(row: Row, line: int) -> Sequence[Any]:
            value = self.value(row, name, line)
            if isinstance(value, list):
                return value
            raise ValueError(
                f"{self.file.label}, line {line}: {name!r} must be a list of numbers; got "
                f"{_shortened(value)}."
            )

        return [name], read

    def _vector_name(self, wanted: str | None) -> str:
        if wanted is not None:
            return check_named(wanted, self.names, self.file)
        lists = [name for name, value in self._first.items() if _is_vector(value)]
        if len(lists) == 1:
            return lists[0]
        came = f"{len(lists)} do: {listed(lists)}" if lists else "none does"
        raise ValueError(
            f"{self.file.label}: one field must hold the vectors; {came}, of the fields "
            f"{listed(self.names)}. Name one with vector_column, or embed a text_field."
        )

    def _parsed(self, line: int, text: str) -> Row:
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            message = getattr(error, "msg", "nested too deeply")
            column = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            raise ValueError(
                f"{self.file.label}, line {line} is not valid JSON: {message}{column}."
            ) from error
        if isinstance(row, dict):
            return row
        raise ValueError(
            f"{self.file.label}, line {line} must be a JSON object such as "
            f'{{"id": 1, "text": "..."}}; got {_shortened(row)}.'
        )


def _is_vector(value: Any) -> bool:
    is_list = isinstance(value, list) and len(value) > 0
    return is_list and all(isinstance(entry, int | float) for entry in value)


def _shortened(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
