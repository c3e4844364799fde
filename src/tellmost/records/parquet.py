"""A .parquet file as records: columns read when they are asked for, rows by row group."""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from tellmost.records.columns import check_named, listed
from tellmost.rows.parquet import OpenedParquet, import_pyarrow, is_vector
from tellmost.rows.sources import File
from tellmost.shapes import Int


class ParquetTable:
    """Columns by name, rows by number."""

    def __init__(self, file: File) -> None:
        self.file = file
        self._arrow = import_pyarrow(f"{file.argument}: reading {file.path.name}")
        with self._opened() as opened:
            groups = range(opened.num_row_groups)
            lengths = [opened.metadata.row_group(group).num_rows for group in groups]
            self._kinds = {entry.name: entry.type for entry in opened.schema_arrow}
        self._starts = [0, *accumulate(lengths)]
        self.names: Sequence[str] = list(self._kinds)
        if len(self) == 0:
            raise ValueError(f"{file.label} has no rows.")

    def __len__(self) -> int:
        return self._starts[-1]

    def vector_name(self, wanted: str | None) -> str:
        """The column of vectors that is wanted, or the only one there is."""
        vectors = [name for name, kind in self._kinds.items() if is_vector(self._arrow, kind)]
        if wanted is not None:
            check_named(wanted, self.names, self.file)
            if wanted in vectors:
                return wanted
            raise ValueError(
                f"{self.file.label}: column {wanted!r} must hold lists of numbers; it holds "
                f"{self._kinds[wanted]}."
            )
        if len(vectors) == 1:
            return vectors[0]
        came = f"{len(vectors)} do: {listed(vectors)}" if vectors else "none does"
        raise ValueError(
            f"{self.file.label}: one column must hold lists of numbers, the vectors; {came}, of "
            f"the columns {listed(self.names)}. Name one with vector_column, or embed a "
            f"text_field."
        )

    def column(self, name: str) -> list[Any]:
        with self._opened() as opened:
            return opened.read(columns=[name]).column(0).to_pylist()

    def take(self, indices: Int[np.ndarray, " k"]) -> Any:
        """Rows as a table of the same schema, in the order asked for; a row group at a time."""
        order = np.argsort(indices, kind="stable")
        groups = np.searchsorted(self._starts, indices[order], side="right") - 1
        parts = []
        with self._opened() as opened:
            empty = opened.schema_arrow.empty_table()
            for group in np.unique(groups).tolist():
                local = indices[order[groups == group]] - self._starts[group]
                parts.append(opened.read_row_group(group).take(self._arrow.array(local)))
        table = self._arrow.concat_tables([empty, *parts])
        return table.take(self._arrow.array(np.argsort(order, kind="stable")))

    def write(self, path: Path, indices: Int[np.ndarray, " k"]) -> None:
        self._arrow.parquet.write_table(self.take(indices), path)

    def _opened(self) -> OpenedParquet:
        return OpenedParquet(self.file, self._arrow)
