"""Rows in the frames that people hold: pandas, polars, Arrow, Hugging Face datasets, scipy.

None of these packages is imported. An object is known by the package of its class, so whoever has
one has the package. Vectors are one column of lists, or several columns of numbers. Columns of
Arrow and of datasets are decoded block by block, and so are sparse matrices. Others become one
array.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.rows.parquet import decode_lists, is_vector
from tellmost.rows.sources import HeldRows, Ids, NamedArray, Source, Span, as_tensor
from tellmost.rows.streamed import StreamedRows
from tellmost.shapes import Int, Shaped

PACKAGES = ("pandas", "polars", "pyarrow", "datasets")
NO_FEATURES = {"y", "label", "target", "class", "id"}
"""Numbers under such names hardly are features."""


@dataclass(frozen=True)
class Frame:
    """A table in memory or mapped into it; ``take`` and ``joined`` keep the caller's kind."""

    given: Any
    names: Sequence[str]
    column: Callable[[str], Any]
    take: Callable[[Int[np.ndarray, " k"]], Any]
    joined: Callable[[Mapping[str, np.ndarray]], Any]
    """The rows with these columns as well. They replace columns of the same names."""

    def __len__(self) -> int:
        return len(self.given)

    def values(self, name: str, argument: str) -> list[Any]:
        """A column as a list of plain values."""
        return plain_values(self.checked(name, argument))

    def checked(self, name: str, argument: str) -> Any:
        """A column, which must exist."""
        if name not in self.names:
            raise ValueError(
                f"{argument} has no column {name!r}; it has {', '.join(map(str, self.names))}."
            )
        return self.column(name)

    def reader_of_ids(self, named: NamedArray, argument: str) -> Ids | None:
        """Tells the ids of rows, which are whole numbers or texts, no two of them alike.

        None where no column of them is named.
        """
        from tellmost.rows.records import check_ids

        name = named.id_column
        if name is None or (name not in self.names and not named.required):
            return None
        values = self.values(name, argument)
        if np.array(values).dtype.kind not in "iuU" and values:
            raise ValueError(
                f"{argument}: id_column must hold a whole number or a text in every row; {name!r} "
                f"has others. Fill it in, or name another id_column."
            )
        check_ids(values, name, argument, "row {}".format)

        def read(rows: Int[Tensor, " b"]) -> Shaped[np.ndarray, " b"]:
            some = as_frame(self.take(rows.numpy()))
            assert some is not None
            return np.array(some.values(name, argument))

        return read


def package_of(given: Any) -> str | None:
    """The package of frames that an object's class, or one above it, comes from."""
    packages = (kind.__module__.partition(".")[0] for kind in type(given).__mro__)
    return next((name for name in packages if name in PACKAGES), None)


def as_frame(given: Any) -> Frame | None:
    """The table behind an object. None where it is none, such as an array or a single column."""
    package = package_of(given)
    if package is None:
        return None
    if isinstance(given, Mapping):
        raise TypeError(
            f"a {type(given).__name__} has rows in splits, and one of them must be named, such as "
            f"ds[{next(iter(given), 'train')!r}]; it has {', '.join(map(str, given)) or 'none'}."
        )
    if not hasattr(given, "__len__"):
        raise TypeError(
            f"a {type(given).__name__} cannot be read at any place, and rows are read many times. "
            f"Collect it first, or pass the paths of its files."
        )
    if not (hasattr(given, "columns") or hasattr(given, "column_names")):
        return None
    match package:
        case "pandas":
            names, take = list(given.columns), given.iloc.__getitem__
            return Frame(given, names, given.__getitem__, take, lambda new: given.assign(**new))
        case "polars":
            item = given.__getitem__
            return Frame(given, given.columns, item, item, lambda new: given.with_columns(**new))
        case "pyarrow":
            names = given.column_names
            return Frame(given, names, given.column, given.take, lambda new: _joined(given, new))
    names, as_arrow = given.column_names, given.with_format("arrow")
    column = as_arrow.select_columns
    return Frame(given, names, column, given.select, lambda new: _joined(given, new))


def _joined(given: Any, new: Mapping[str, np.ndarray]) -> Any:
    """The rows of an Arrow table or of a Dataset with further columns."""
    is_arrow = package_of(given) == "pyarrow"
    old = [name for name in new if name in given.column_names]
    made = given.drop_columns(old) if is_arrow else given.remove_columns(old)
    for name, values in new.items():
        chunks = [values] if hasattr(made, "combine_chunks") else values  # a batch has one alone
        made = made.append_column(name, chunks) if is_arrow else made.add_column(name, values)
    return made


def plain_values(column: Any) -> list[Any]:
    """The values of a column of any kind, an array or a list."""
    if package_of(column) == "datasets":
        column = column[:]  # a list, or a table of one column
        column = column if isinstance(column, list) else column.column(0)
    method = next((m for m in ("to_pylist", "to_list", "tolist") if hasattr(column, m)), None)
    return list(column) if method is None else getattr(column, method)()


# ---- vectors


def open_frame(named: NamedArray, argument: str) -> Source | None:
    """The vectors in a frame, a column or a sparse matrix. None for objects of other kinds."""
    given = named.given
    if hasattr(given, "tocsr"):
        named.refuse_names(argument, "a sparse matrix")
        return _open_sparse(given.tocsr(), argument)
    frame = as_frame(given)
    if frame is None:
        if package_of(given) is None:
            return None
        named.refuse_names(argument, "a single column")
        return _open_column(given, argument, "the column")
    source = _open_vectors(frame, named, argument)
    source.ids = frame.reader_of_ids(named, argument)
    return source


def _open_vectors(frame: Frame, named: NamedArray, argument: str) -> HeldRows | StreamedRows:
    asked = named.name
    if asked is None or (not named.required and not set(_listed(asked)) & set(frame.names)):
        column = _find_column(frame, argument, named.id_column)
    else:
        column = asked
    if isinstance(column, str):
        found = _open_column(frame.checked(column, argument), argument, f"column {column!r}")
        if found is not None:
            return found
    numbers = [np.asarray(frame.values(name, argument)) for name in _listed(column)]
    rows = HeldRows(as_tensor(np.column_stack(numbers), argument))
    rows.features = _listed(column)
    return rows


def _listed(column: str | Sequence[str]) -> Sequence[str]:
    return [column] if isinstance(column, str) else column


def _find_column(frame: Frame, argument: str, id_column: str | None) -> str | Sequence[str]:
    """The only column of vectors, or all columns where they hold numbers alone."""
    head = as_frame(frame.take(np.arange(min(len(frame), 1))))
    assert head is not None
    names = [name for name in frame.names if name != id_column]
    kinds = {name: _kind_of(plain_values(head.column(name))) for name in names}
    vectors = [name for name in names if kinds[name] == "vectors"]
    if len(vectors) == 1:
        return vectors[0]
    if vectors or set(kinds.values()) != {"number"}:
        listed = ", ".join(f"{name} ({kind})" for name, kind in kinds.items()) or "no columns"
        raise ValueError(
            f"{argument} must have one column of vectors, or columns of numbers alone; it has "
            f"{listed}. Name what is meant by column='emb' or column=['a', 'b'], or pass the "
            f"column itself."
        )
    labels = [name for name in names if str(name).strip().lower() in NO_FEATURES]
    if labels:
        raise ValueError(
            f"{argument}: features must be told from labels and ids, and column {labels[0]!r} is "
            f"named like one. Name the features, column=['a', 'b'], or pass an array."
        )
    return names


def _kind_of(values: Sequence[Any]) -> str:
    """Say what a column holds, by its first value."""
    if not values:
        return "nothing"
    if isinstance(values[0], list | tuple | np.ndarray):
        return "vectors" if np.asarray(values[0]).dtype.kind in "fiu" else "lists"
    is_number = isinstance(values[0], int | float | np.number)
    return "number" if is_number and not isinstance(values[0], bool) else type(values[0]).__name__


def _open_column(column: Any, argument: str, label: str) -> HeldRows | StreamedRows | None:
    """The vectors in one column. None where it holds plain numbers."""
    package = package_of(column)
    if hasattr(column, "source"):  # a column of a Dataset, which knows where it is from
        frame = as_frame(column.source)
        assert frame is not None
        column = frame.column(column.column_name)
    if package in ("pyarrow", "datasets"):
        return _open_lists(column, argument, label)
    kind = column.dtype
    if package == "pandas" and kind.kind != "O":
        return None
    if package == "polars":
        if not kind.is_nested():
            return None
        if not column.null_count() and hasattr(kind, "shape"):
            return HeldRows(as_tensor(column.to_numpy(), argument))
    return HeldRows(as_tensor(_stacked(column.to_numpy(), argument, label), argument))


def _stacked(values: np.ndarray, argument: str, label: str) -> np.ndarray:
    """One array of the vectors of a column, which must all have one length."""
    lengths = [np.size(value) if np.ndim(value) == 1 else -1 for value in values]
    bad = next((row for row, length in enumerate(lengths) if length != max(lengths[0], 1)), None)
    if bad is None:
        return np.stack([np.asarray(value) for value in values])
    came = "no vector" if lengths[bad] < 0 else f"a vector of {lengths[bad]}"
    raise ValueError(
        f"{argument}: {label} must have a vector of one length in every row; row {bad} has {came}"
        f"{f', row 0 has {lengths[0]}' if bad else ''}. Repair or drop such rows first."
    )


class MadeRows:
    """Rows that a function makes of something in memory, block by block."""

    jumps = True
    ids = None
    device = torch.device("cpu")

    def __init__(self, shape: tuple[int, ...], make: Callable[[int, int], Tensor]) -> None:
        self.shape, self._make, self.rows_read = shape, make, 0
        self.dtype = make(0, min(shape[0], 1)).dtype

    def pieces(self, wanted: Sequence[Span]) -> Iterator[Tensor]:
        for start, stop in wanted:
            self.rows_read += stop - start
            yield self._make(start, stop)

    def where(self, row: int) -> str:
        return f"row {row}"


def _open_lists(column: Any, argument: str, label: str) -> StreamedRows | None:
    """The vectors in an Arrow column, or in a Dataset of one column. None for plain numbers."""
    import pyarrow

    def part(start: int, stop: int) -> Any:
        is_dataset = package_of(column) == "datasets"
        some = column[start:stop].column(0) if is_dataset else column.slice(start, stop - start)
        return some.combine_chunks() if hasattr(some, "combine_chunks") else some

    first = part(0, min(len(column), 1))
    if not is_vector(pyarrow, first.type):
        return None
    is_fixed = hasattr(first.type, "list_size")
    d = first.type.list_size if is_fixed else len(first[0] or ()) if len(first) else 0

    def make(start: int, stop: int) -> Tensor:
        return decode_lists(part(start, stop), d, start, argument, label, "row {}".format)

    return StreamedRows(MadeRows((len(column), d), make), numerics.RECENT_BYTES)


def _open_sparse(matrix: Any, argument: str) -> StreamedRows:
    """The rows of a sparse matrix of scipy, made dense when they are needed."""

    def make(start: int, stop: int) -> Tensor:
        return as_tensor(matrix[start:stop].toarray(), argument)

    return StreamedRows(MadeRows(tuple(map(int, matrix.shape)), make), numerics.RECENT_BYTES)
