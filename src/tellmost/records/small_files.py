"""Files that say one thing about each of some rows: ids, or labels."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tellmost.records.columns import check_named, listed
from tellmost.records.delimited import Delimited
from tellmost.records.jsonl import JsonLines
from tellmost.records.parquet import ParquetTable
from tellmost.records.text_files import read_lines, suffix_of
from tellmost.records.text_tables import TextTable
from tellmost.rows.sources import File, check_there, open_filled

FORMATS = (".csv", ".tsv", ".jsonl", ".parquet", ".txt")


@dataclass(frozen=True)
class SmallFile:
    """Columns by name; or one without a name, ``only``."""

    file: File
    names: Sequence[str]
    read: Callable[[str], list[Any]]
    only: list[Any] | None = None

    def column(self, name: str) -> list[Any]:
        return self.read(check_named(name, self.names, self.file))

    def find(self, names: Sequence[str | None], what: str, way_out: str) -> list[Any]:
        """The first of these columns that there is, or the only one; else an error."""
        if self.only is not None:
            return self.only
        for name in names:
            if name is not None and name in self.names:
                return self.column(name)
        if len(self.names) == 1:
            return self.column(self.names[0])
        raise ValueError(
            f"{self.file.label} must have a column of {what}; it has {listed(self.names)}. "
            f"{way_out}"
        )


def open_small(
    path: Path,
    argument: str,
    others: Sequence[str] = (),
    headers: Collection[str | None] | None = None,
) -> SmallFile:
    """A file of one of the formats; ``others`` are those that the caller reads itself.

    ``headers``: what the first cell of a lone column must be to count as its name; None: any word.
    """
    check_there(path, argument, "Name one file in it.")
    file = open_filled(path, argument)
    match suffix_of(path):
        case ".txt":
            lines = [text.strip() for _, text in read_lines(file)]
            return SmallFile(file, (), list, [text for text in lines if text])
        case ".csv" | ".tsv":
            return _open_delimited(file, headers)
        case ".jsonl":
            table = TextTable(JsonLines(file))
            return SmallFile(file, table.names, table.column)
        case ".parquet":
            parquet = ParquetTable(file)
            return SmallFile(file, parquet.names, parquet.column)
    raise ValueError(
        f"{argument}: cannot read {path.name}; the formats are {', '.join([*others, *FORMATS])}."
    )


def _open_delimited(file: File, headers: Collection[str | None] | None) -> SmallFile:
    source = Delimited(file)
    if source.width == 1 and headers is not None and source.names:
        source = Delimited(file, has_header=source.names[0] in headers)
    if source.names:
        table = TextTable(source)
        return SmallFile(file, table.names, table.column)
    if source.width > 1:
        raise ValueError(
            f"{file.label} has {source.width} columns without names. Add a header, or keep one."
        )
    return SmallFile(file, (), list, [row[0] for _, row in source.rows()])
