"""Rows come from arrays in memory, and from whatever else can be read again and again."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from tellmost.shapes import Bool, Int, Shaped

Span = tuple[int, int]
"""(first row, one past the last)."""

Piece = tuple[int, int, Tensor]
"""(first row, one past the last, the rows in their own dtype)."""


Ids = Callable[[Int[Tensor, " b"]], Shaped[np.ndarray, " b"]]
"""Gives the ids of some rows: whole numbers or texts."""


class Stored(Protocol):
    """Rows in their own dtype, wherever they are."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def jumps(self) -> bool:
        """If true, some rows can be had without reading those before them."""

    @property
    def ids(self) -> Ids | None:
        """Tells the ids of rows, if the caller named a column of them."""

    def where(self, row: int) -> str:
        """The row in words, for error messages."""


@runtime_checkable
class Source(Stored, Protocol):
    """Rows in memory, or read whenever they are needed."""

    @property
    def held(self) -> Tensor | None:
        """All rows as one tensor; None if they are read whenever they are needed."""

    @property
    def passes(self) -> float:
        """So often the rows were read, by streams and by ``take``, in units of all of them."""

    def read(self, start: int, stop: int) -> Tensor:
        """Consecutive rows, to keep."""

    def take(self, indices: Int[Tensor, " b"]) -> Tensor:
        """Some rows, in the order asked for, to keep."""

    def stream(self, wanted: Sequence[Span]) -> Iterator[Piece]:
        """The rows of ascending spans; each piece is good until the next one is asked for."""

    def remember(self, indices: Int[Tensor, " b"]) -> None:
        """Keep the first of these rows that fit, when the next stream passes over them.

        To ``take`` them is then free.
        """

    def at_hand(self, indices: Int[Tensor, " b"]) -> Bool[Tensor, " b"]:
        """Say which of these rows can be had without a pass."""

    def close(self) -> None:
        """End what works in the background."""


@runtime_checkable
class Reader(Stored, Protocol):
    """Reads rows of one file, of several, or from the caller; ``StreamedRows`` does the rest."""

    @property
    def rows_read(self) -> int:
        """So many rows were read so far, with those that were only passed over."""

    def pieces(self, wanted: Sequence[Span]) -> Iterator[Tensor]:
        """The rows of ascending spans; each is good until the next but one is asked for."""


def spans(count: int, step: int) -> Iterator[Span]:
    """(0, step), (step, 2 step), ... up to count."""
    for start in range(0, count, step):
        yield start, min(start + step, count)


class HeldRows:
    """The rows of a tensor: the caller's own, or one that was read of a small file."""

    jumps = True
    features: Sequence[str] = ()  # the columns of a table that they were made of
    texts: Sequence[str] | None = None  # the texts that they were made of

    def __init__(
        self,
        held: Tensor,
        where: Callable[[int], str] = "row {}".format,
        passes: float = 0.0,
        ids: Ids | None = None,
    ) -> None:
        self.held, self.where, self.ids = held, where, ids
        self.passes = passes  # reading memory is no pass
        self.shape, self.dtype, self.device = tuple(held.shape), held.dtype, held.device

    def read(self, start: int, stop: int) -> Tensor:
        return self.held[start:stop]

    def take(self, indices: Int[Tensor, " b"]) -> Tensor:
        return self.held[indices.to(self.held.device)]

    def stream(self, wanted: Sequence[Span]) -> Iterator[Piece]:
        for start, stop in wanted:
            yield start, stop, self.held[start:stop]

    def remember(self, indices: Int[Tensor, " b"]) -> None:
        """There is nothing to do, since all rows are here."""

    def at_hand(self, indices: Int[Tensor, " b"]) -> Bool[Tensor, " b"]:
        return torch.ones_like(indices, dtype=torch.bool)

    def close(self) -> None:
        """There is nothing to end."""


def hold(source: Source, device: torch.device, step: int) -> HeldRows:
    """All rows of a source as one tensor on a device, read once, so many rows at a time."""
    if source.held is not None:
        return HeldRows(source.held.to(device), source.where, ids=source.ids)
    memory = torch.empty(source.shape, dtype=source.dtype, device=device)
    for start, stop, rows in source.stream(list(spans(source.shape[0], step))):
        memory[start:stop] = rows
    source.close()
    return HeldRows(memory, source.where, source.passes, source.ids)


@dataclass(frozen=True)
class NamedArray:
    """What was given as rows, and which of its columns or arrays are meant.

    It stands wherever rows may stand. ``name`` is that of the column of vectors in .parquet, of
    the tensor in .safetensors; None for the only one. A list names columns of numbers. The entries
    of ``id_column`` are the ids of the rows. What is not ``required`` counts only where it is
    there.
    """

    given: Any
    name: str | Sequence[str] | None = None
    id_column: str | None = None
    required: bool = True

    def refuse_names(self, argument: str, what: str) -> None:
        """Refuse names for rows that have none."""
        if self.required and (self.name, self.id_column) != (None, None):
            raise ValueError(
                f"column and id_column name columns of a table; {argument} is {what}, which has "
                f"no names. Leave them out."
            )


def named_alike(rows: Any, source: Source) -> Any:
    """Rows with the columns that those of a source were made of, in their order."""
    features = source.features if isinstance(source, HeldRows) else ()
    named = rows if isinstance(rows, NamedArray) else NamedArray(rows, required=False)
    if not features or isinstance(rows, Tensor | np.ndarray) or named.name is not None:
        return rows
    return replace(named, name=features)


def open_source(given: Any, argument: str) -> Source:
    """Rows behind an array, a path, a list of paths, or an iterable of blocks."""
    if isinstance(given, Tensor | np.ndarray):
        return HeldRows(as_tensor(given, argument))
    from tellmost.rows import opening

    return opening.open_other(given, argument)


def read_array(array: Any, name: str) -> Tensor:
    """The array itself, or the one in a file or a frame."""
    if isinstance(array, Tensor | np.ndarray | list | tuple):
        return as_tensor(array, name)
    return read_rows(array, name).held


def read_rows(array: Any, name: str) -> HeldRows:
    """The array, or the rows in a file, in several or in a frame, in memory."""
    is_list = isinstance(array, list | tuple)
    are_paths = is_list and len(array) > 0 and isinstance(array[0], str | PathLike)
    if isinstance(array, Tensor | np.ndarray) or (is_list and not are_paths):
        return HeldRows(as_tensor(array, name))
    from tellmost.rows import opening

    with closing(opening.open_other(array, name)) as source:
        if isinstance(source, HeldRows):
            return source
        return HeldRows(source.read(0, source.shape[0]), source.where, ids=source.ids)


def as_tensor(array: object, name: str) -> Tensor:
    """A numeric array as a tensor that shares its memory where that is possible."""
    if isinstance(array, Tensor):
        if (unlike := _unlike_dense(array)) is not None:
            raise TypeError(f"{name} must be a dense tensor; got a {unlike[0]} one. {unlike[1]}")
        tensor = array.detach()
    else:
        tensor = _from_numpy(array, name)
    if tensor.is_complex():
        raise TypeError(
            f"{name} must hold real numbers; got {tensor.dtype}. Pass the real and the imaginary "
            f"part as features, or one of them."
        )
    return tensor


def _unlike_dense(array: Tensor) -> tuple[str, str] | None:
    """The kind of a tensor that is not plain numbers in memory, and the way out."""
    if array.is_nested:
        return "nested", "Densify it first."
    if array.layout != torch.strided:
        return str(array.layout).removeprefix("torch."), "Densify it first."
    if array.is_quantized:
        return "quantised", "Pass its dequantize()."
    return ("meta", "It has no values: load it onto a device first.") if array.is_meta else None


def _from_numpy(array: object, name: str) -> Tensor:
    if array is None:
        raise TypeError(f"{name} must be an array, a tensor or the path of a file; got None.")
    if np.ma.is_masked(array):
        raise TypeError(f"{name} must not have masked entries. Fill or drop them first.")
    try:
        values = np.asarray(array)
    except ValueError as error:  # ragged nested lists
        raise ValueError(
            f"{name} must be a rectangular array of numbers, all rows of one length; numpy says: "
            f"{str(error).rstrip('.')}."
        ) from error
    if values.dtype.kind not in "fiubc":
        raise TypeError(
            f"{name} must be a numeric array; got dtype {values.dtype}. Convert it first, for "
            f"example with np.stack(rows).astype(np.float32)."
        )
    if values.dtype.char in "gG":  # long double, which torch does not have
        values = values.astype(np.float64 if values.dtype.kind == "f" else np.complex128)
    size = values.itemsize
    if not values.dtype.isnative or any(step < 0 or step % size for step in values.strides):
        values = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    return torch.from_numpy(values if values.flags.writeable else np.asarray(_Shared(values)))


class _Shared:
    """Read-only memory, offered as if it could be written to. Nothing here writes to it.

    Otherwise torch warns, and warnings cannot be turned off in one thread alone.
    """

    def __init__(self, array: np.ndarray) -> None:
        self._array = array  # the array has to live as long as its memory is used
        address = array.__array_interface__["data"][0]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}
