"""Files of arrays, whose rows have nothing but their numbers, and .parquet files."""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, closing
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import torch

from tellmost.cli.records import check_named, only_vectors
from tellmost.rows.files import (
    File,
    check_numeric,
    choose_name,
)
from tellmost.rows.parquet import import_pyarrow, is_vector, opened_parquet
from tellmost.rows.sources import NamedArray, open_source
from tellmost.running.reading import arrays_in, refusing_damage
from tellmost.shapes import Int, Shaped

ARRAYS = (".npy", ".npz", ".safetensors")
IN_SEVERAL = (".npy", ".safetensors", ".parquet")  # files of which several can be one pool


class ArrayTable:
    """Rows without columns, of one file or of several; ``vectors`` is what a selection takes."""

    names: Sequence[str] = ()

    def __init__(self, file: File, vectors: Any, *, lone_vector: bool = False) -> None:
        self.file, self.vectors = file, vectors
        if lone_vector:
            with closing(open_source(self.vectors, file.argument)) as source:
                if len(source.shape) == 1:
                    self.vectors = source.read(0, *source.shape)[None]

    def __len__(self) -> int:
        return self._rows

    @cached_property
    def _rows(self) -> int:
        with closing(open_source(self.vectors, self.file.argument)) as source:
            if len(source.shape) != 2 or 0 in source.shape:
                raise ValueError(
                    f"{self.file.label} must hold rows x features, (n, d); got shape "
                    f"{source.shape}."
                )
            return source.shape[0]

    def read_ids(self) -> Shaped[np.ndarray, " n"]:
        """The ids of all rows: those of the column that was named, or their numbers."""
        with closing(open_source(self.vectors, self.file.argument)) as source:
            numbers = torch.arange(len(self))
            return numbers.numpy() if source.ids is None else source.ids(numbers)

    def column(self, name: str) -> list[Any]:
        raise AssertionError("there is no column that could be asked for")

    def some(
        self, indices: Int[np.ndarray, " k"], without: Collection[str | None]
    ) -> dict[str, Any]:
        return {}


def open_array(
    file: File, name: str | None, *, lone_vector: bool, memory: int | None = None
) -> ArrayTable:
    """The array of this name in a file, or the only one."""
    vectors: Any = file.path if name is None else NamedArray(file.path, name)
    if file.path.suffix == ".npz":
        vectors = load_npz(file, name, memory)
    return ArrayTable(file, vectors, lone_vector=lone_vector)


def open_arrays(named: NamedArray, argument: str) -> ArrayTable:
    """The rows of several files with one array each, one file after the other, streamed."""
    for path in map(Path, named.given):
        if path.suffix not in ("", *IN_SEVERAL):
            raise ValueError(
                f"{argument}: several files must each hold an array, {', '.join(IN_SEVERAL)}; got "
                f"{path.name}. Join text files into one."
            )
    first = Path(str(named.given[0]).split("?")[0])  # it is known by its name alone
    return ArrayTable(File(first, argument, size=0, changed=0), named)


def load_npz(file: File, name: str | None, memory: int | None = None) -> np.ndarray:
    """Load one array of an archive into memory. Pickled objects are refused, never loaded."""
    with refusing_damage(f"{file.label} is not a complete .npz file"):
        archive = ZipFile(file.path)
    with archive:
        found = arrays_in(archive)
        chosen = choose_name(list(found), "array", file, NamedArray(None, name))
        what = f"{file.label}: the array {chosen!r}"
        with refusing_damage(f"{what} is damaged, or too large"):
            dtype = found[chosen].header[1]
            array = None if dtype.hasobject else found[chosen].read(memory)
    if array is None:
        raise ValueError(
            f"{what} holds pickled Python objects, which can run code when loaded, and is "
            f"refused. Save a numeric array with np.savez."
        )
    check_numeric(dtype, what)
    return array


class ParquetTable:
    """A .parquet file: columns by name, rows by number, each read when it is asked for."""

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
        """The column of vectors that the user names, or the only one there is."""
        vectors = [name for name, kind in self._kinds.items() if is_vector(self._arrow, kind)]
        if wanted is not None:
            check_named(wanted, self.names, self.file)
            if wanted in vectors:
                return wanted
            raise ValueError(
                f"{self.file.label}: column {wanted!r} must hold lists of numbers; it holds "
                f"{self._kinds[wanted]}."
            )
        what = "column must hold lists of numbers, the vectors"
        return only_vectors(vectors, self.names, self.file, what)

    def column(self, name: str) -> list[Any]:
        with self._opened() as opened:
            return opened.read(columns=[name]).column(0).to_pylist()

    def some(
        self, indices: Int[np.ndarray, " k"], without: Collection[str | None]
    ) -> dict[str, Any]:
        """Columns of Arrow with rows in the order asked for, read by row groups."""
        names = [name for name in self.names if name not in without]
        order = np.argsort(indices, kind="stable")
        groups = np.searchsorted(self._starts, indices[order], side="right") - 1
        parts = []
        with self._opened() as opened:
            empty = opened.schema_arrow.empty_table().select(names)
            for group in np.unique(groups).tolist():
                local = indices[order[groups == group]] - self._starts[group]
                here = opened.read_row_group(group, columns=names)
                parts.append(here.take(self._arrow.array(local)))
        table = self._arrow.concat_tables([empty, *parts])
        table = table.take(self._arrow.array(np.argsort(order, kind="stable")))
        return {name: table.column(name) for name in names}

    def _opened(self) -> AbstractContextManager[Any]:
        return opened_parquet(self.file, self._arrow)
