"""Columns of a .parquet file, and the rows of one with vectors."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.rows.files import File, Readable, choose_name
from tellmost.rows.sources import NamedArray, Span, as_tensor
from tellmost.rows.streamed import Chunk, cut, empty_rows
from tellmost.running.extras import import_extra
from tellmost.running.reading import reason_of
from tellmost.shapes import Int, Shaped

PARQUET_BUFFER_BYTES = 2**20
"""So much of a column in a .parquet file is read at once; else it is all of a row group's."""

PARQUET_BATCH_BYTES = 2**18
"""So much is decoded at once, in float64. Pyarrow takes several times as much while it decodes,
and gives it back late. A batch of 12 times the size is no faster and takes three times the
memory."""


class ParquetTable:
    """A .parquet file: columns by name, rows by number, each read when it is asked for."""

    def __init__(self, file: Readable) -> None:
        self.file = file
        self.arrow = import_pyarrow(f"{file.argument}: reading {file.name}")
        with self.opened() as opened:
            groups = range(opened.num_row_groups)
            lengths = [opened.metadata.row_group(group).num_rows for group in groups]
            self.kinds = {entry.name: entry.type for entry in opened.schema_arrow}
        self.starts = [0, *accumulate(lengths)]
        self.vectors = [name for name, kind in self.kinds.items() if is_vector(self.arrow, kind)]
        self.names: Sequence[str] = list(self.kinds)
        if len(self) == 0:
            raise ValueError(f"{file.label} has no rows.")

    def __len__(self) -> int:
        return self.starts[-1]

    def column(self, name: str) -> list[Any]:
        with self.opened() as opened:
            return opened.read(columns=[name]).column(0).to_pylist()

    def some(
        self, indices: Int[np.ndarray, " k"], without: Collection[str | None]
    ) -> dict[str, Any]:
        """Columns of Arrow with rows in the order asked for, read by row groups."""
        names = [name for name in self.names if name not in without]
        order = np.argsort(indices, kind="stable")
        groups = np.searchsorted(self.starts, indices[order], side="right") - 1
        parts = []
        with self.opened() as opened:
            empty = opened.schema_arrow.empty_table().select(names)
            for group in np.unique(groups).tolist():
                local = indices[order[groups == group]] - self.starts[group]
                here = opened.read_row_group(group, columns=names)
                parts.append(here.take(self.arrow.array(local)))
        table = self.arrow.concat_tables([empty, *parts])
        table = table.take(self.arrow.array(np.argsort(order, kind="stable")))
        return {name: table.column(name) for name in names}

    def opened(self) -> AbstractContextManager[Any]:
        return opened_parquet(self.file, self.arrow)


class ParquetFile:
    """Reads the row groups that hold wanted rows, in batches; a row costs its row group."""

    jumps = False
    device = torch.device("cpu")

    def __init__(self, file: Readable, named: NamedArray) -> None:
        self._file, self._table = file, ParquetTable(file)
        self._starts, kinds = self._table.starts, self._table.kinds
        self._column = choose_name(self._table.vectors, "column of vectors", file, named)
        self.id_column = check_id_column(kinds, file, named, self._table.arrow.types)
        self.ids = None if self.id_column is None else self._read_ids
        kind = kinds[self._column]
        self.shape = (self._starts[-1], self._features(kind))
        self.dtype = as_tensor(np.empty(0, kind.value_type.to_pandas_dtype()), file.argument).dtype
        self.rows_read = 0

    def pieces(self, wanted: Sequence[Span]) -> Iterator[Tensor]:
        return cut(self._chunks(wanted), wanted, empty_rows(self.shape, self.dtype, self.device))

    def where(self, row: int) -> str:
        if self.id_column is None:
            return self.label_row(row)
        [own] = self._read_ids(torch.tensor([row])).tolist()
        return f"{self.label_row(row)}, {self.id_column} {own!r},"

    def hash_ids(self) -> Int[np.ndarray, " n"]:
        """A number for the id of every row, the same for equal ids and seldom for others."""
        hashes, start = np.empty(self.shape[0], dtype=np.int64), 0
        with self._table.opened() as opened:
            for batch in opened.iter_batches(columns=[self.id_column], use_threads=False):
                ids = self._checked_ids(batch.column(0).to_pylist(), start)
                stop = start + len(ids)
                hashes[start:stop] = np.fromiter(map(hash, ids), np.int64, len(ids))
                start = stop
        return hashes

    def _checked_ids(self, ids: list[Any], start: int) -> list[Any]:
        if None in ids:
            raise ValueError(
                f"{self._file.label}: every row must have an id in {self.id_column!r}; row "
                f"{start + ids.index(None)} has none. Fill it in, or name another id_column."
            )
        return ids

    def _read_ids(self, rows: Int[Tensor, " b"]) -> Shaped[np.ndarray, " b"]:
        """The ids of rows, from the row groups that hold them."""
        others = [name for name in self._table.names if name != self.id_column]
        ids = self._table.some(rows.numpy(), others)[self.id_column].to_pylist()
        is_plain = all(isinstance(identifier, int | str) for identifier in ids)
        return np.array(ids if is_plain else list(map(str, ids)))

    def label_row(self, row: int) -> str:
        """The row in words, without its id."""
        return f"row {row} of {self._file.name}"

    def _features(self, kind: Any) -> int:
        """Count the numbers of a row, as its type or else the first row says."""
        if self._table.arrow.types.is_fixed_size_list(kind):
            return kind.list_size
        with self._table.opened() as opened:
            batch = next(opened.iter_batches(1, columns=[self._column]), None)
            if batch is None:
                raise self._other_length(0)
            check_lists(batch.column(0), 0, self._file.argument, self._label)
            return len(batch.column(0)[0])

    def _other_length(self, group: int) -> ValueError:
        promised = self._starts[group + 1] - self._starts[group]
        return ValueError(
            f"{self._file.label} is damaged: row group {group} must have the {promised:,} rows "
            f"that are promised; it has more or fewer."
        )

    def _chunks(self, wanted: Sequence[Span]) -> Iterator[Chunk]:
        with self._table.opened() as opened:
            for group in self._groups(wanted):
                start = self._starts[group]
                for batch in opened.iter_batches(
                    max(PARQUET_BATCH_BYTES // (8 * self.shape[1]), 1),
                    row_groups=[group],
                    columns=[self._column],
                    use_threads=False,
                ):
                    self.rows_read += len(batch)
                    yield start, self._numbers(batch.column(0), start)
                    start += len(batch)
                if start != self._starts[group + 1]:
                    raise self._other_length(group)

    def _groups(self, wanted: Sequence[Span]) -> list[int]:
        """The row groups that hold rows of the spans, in order."""
        groups: dict[int, None] = {}
        for start, stop in wanted:
            first = bisect_right(self._starts, start) - 1
            last = bisect_right(self._starts, stop - 1) - 1
            groups.update(dict.fromkeys(range(first, last + 1)))
        return [group for group in groups if self._starts[group] < self._starts[group + 1]]

    def _numbers(self, column: Any, start: int) -> Tensor:
        d, argument = self.shape[1], self._file.argument
        return decode_lists(column, d, start, argument, self._label, self.where)

    @property
    def _label(self) -> str:
        return f"column {self._column!r} of {self._file.name}"


def decode_lists(
    column: Any, d: int, start: int, argument: str, label: str, where: Callable[[int], str]
) -> Tensor:
    """The vectors of an Arrow array of lists as (b, d) numbers. ``start`` is its first row."""
    check_lists(column, start, argument, label)
    lengths = np.asarray(column.value_lengths())
    others = np.flatnonzero(lengths != d)
    if len(others):
        raise ValueError(
            f"{argument}: every vector in {label} must have the same length; the first has {d}, "
            f"row {start + others[0]} has {lengths[others[0]]}."
        )
    flat = column.flatten()
    if flat.null_count:
        row = start + int(np.flatnonzero(flat.is_null())[0]) // d
        raise ValueError(
            f"{argument} must be finite; {where(row)} lacks a number. Drop or repair such rows "
            f"first."
        )
    values = flat.to_numpy(zero_copy_only=False)
    return as_tensor(values.reshape(len(column), d), argument)


def check_lists(column: Any, start: int, argument: str, label: str) -> None:
    """Refuse a row without a vector."""
    if column.null_count:
        row = start + int(np.flatnonzero(column.is_null())[0])
        raise ValueError(
            f"{argument}: {label} must have a vector in every row; row {row} has none. Drop such "
            f"rows first."
        )


@contextmanager
def opened_parquet(file: Readable, arrow: Any) -> Iterator[Any]:
    """The file, opened by pyarrow; its errors name it."""
    of_pyarrow = (arrow.ArrowException, OSError, UnicodeDecodeError)

    def unreadable(error: BaseException) -> ValueError:
        return ValueError(f"{file.label} is no readable .parquet file: {reason_of(error)}.")

    with file.opened():  # it has to be the same as before
        pass
    try:
        path = file.path if isinstance(file, File) else None
        opened = arrow.parquet.ParquetFile(
            path or file.stream(),
            pre_buffer=path is None,  # a store is asked for a column of a row group at once
            buffer_size=PARQUET_BUFFER_BYTES if path else 0,
        )
    except of_pyarrow as error:
        raise unreadable(error) from error
    try:
        yield opened
    except of_pyarrow as error:
        with file.opened():  # if it changed meanwhile, that is the reason
            raise unreadable(error) from error
    finally:
        opened.close()


def import_pyarrow(what: str) -> Any:
    """The pyarrow package, or an error that says what needs it."""
    need = f"{what} needs pyarrow"
    import_extra("pyarrow.parquet", "parquet", need)
    return import_extra("pyarrow", "parquet", need)


def check_id_column(
    kinds: Mapping[str, Any], file: Readable, named: NamedArray, types: Any
) -> Any:
    """The column of ids, if one was named. What is no whole number counts as text."""
    name = named.id_column
    if name is None or (name not in kinds and not named.required):
        return None
    if name not in kinds:
        raise ValueError(f"{file.label} has no column {name!r}; it has {', '.join(kinds)}.")
    if types.is_nested(kinds[name]):
        raise ValueError(
            f"{file.label}: id_column must hold numbers or texts; {name!r} holds {kinds[name]}."
        )
    return name


def is_vector(arrow: Any, kind: Any) -> bool:
    """Say whether a column of this type holds lists of numbers."""
    types = arrow.types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return is_list and (types.is_floating(kind.value_type) or types.is_integer(kind.value_type))
