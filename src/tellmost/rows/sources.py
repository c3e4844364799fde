"""What a source of rows is, and what a reader of rows has to do to become one.

Rows that are in memory.

Numeric arrays of every kind as tensors.

A file that is being read: opened, checked that it is still the same, read in pieces.

Which of several arrays in a file is meant.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from tellmost.shapes import Bool, Int

Span = tuple[int, int]
"""(first row, one past the last)."""

Piece = tuple[int, int, Tensor]
"""(first row, one past the last, the rows in their own dtype)."""


@runtime_checkable
class Source(Protocol):
    """Rows in their own dtype, in memory or not."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def held(self) -> Tensor | None:
        """All rows as one tensor; None where they are read whenever they are needed."""

    @property
    def jumps(self) -> bool:
        """Whether some rows can be had without reading those before them."""

    @property
    def passes(self) -> float:
        """How often the rows were read, by streams and by ``take``, in units of all of them."""

    def read(self, start: int, stop: int) -> Tensor:
        """Consecutive rows, to keep."""

    def take(self, indices: Int[Tensor, " b"]) -> Tensor:
        """Some rows, in the order asked for, to keep."""

    def stream(self, wanted: Sequence[Span]) -> Iterator[Piece]:
        """The rows of ascending spans; each piece is good until the next one is asked for."""

    def remember(self, indices: Int[Tensor, " b"]) -> None:
        """Keep these rows, or as many of the first of them as fit, when the next stream passes
        over them: ``take`` is then free."""

    def at_hand(self, indices: Int[Tensor, " b"]) -> Bool[Tensor, " b"]:
        """Which of these rows can be had without a pass."""

    def where(self, row: int) -> str:
        """The row in words, for error messages."""

    def close(self) -> None:
        """End what works in the background."""


@runtime_checkable
class Reader(Protocol):
    """Reads rows of one file, of several, or from the caller; ``StreamedRows`` does the rest."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def jumps(self) -> bool:
        """Whether some rows can be had without reading those before them."""

    @property
    def rows_read(self) -> int:
        """So far, with the rows that were only passed over."""

    def pieces(self, wanted: Sequence[Span]) -> Iterator[Tensor]:
        """The rows of ascending spans; each is good until the next but one is asked for."""

    def where(self, row: int) -> str:
        """The row in words, for error messages."""


def spans(count: int, step: int) -> Iterator[Span]:
    """(0, step), (step, 2 step), ... up to count."""
    for start in range(0, count, step):
        yield start, min(start + step, count)


def plain_name(row: int) -> str:
    return f"row {row}"


@dataclass(frozen=True)
class HeldRows:
    """A tensor: the caller's own, or what was read of a file that is small enough."""

    held: Tensor
    where: Callable[[int], str] = plain_name
    passes: float = 0.0  # reading memory is not counted
    jumps: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.held.shape)

    @property
    def dtype(self) -> torch.dtype:
        return self.held.dtype

    @property
    def device(self) -> torch.device:
        return self.held.device

    def read(self, start: int, stop: int) -> Tensor:
        return self.held[start:stop]

    def take(self, indices: Int[Tensor, " b"]) -> Tensor:
        return self.held[indices.to(self.held.device)]

    def stream(self, wanted: Sequence[Span]) -> Iterator[Piece]:
        for start, stop in wanted:
            yield start, stop, self.held[start:stop]

    def remember(self, indices: Int[Tensor, " b"]) -> None:
        """Nothing to do: all rows are here."""

    def at_hand(self, indices: Int[Tensor, " b"]) -> Bool[Tensor, " b"]:
        return torch.ones_like(indices, dtype=torch.bool)

    def close(self) -> None:
        """Nothing to end."""


def hold(source: Source, device: torch.device, wanted: Sequence[Span]) -> HeldRows:
    """All rows of a source as one tensor on a device, read once, span by span."""
    if source.held is not None:
        return HeldRows(source.held.to(device), source.where)
    memory = torch.empty(source.shape, dtype=source.dtype, device=device)
    for start, stop, rows in source.stream(wanted):
        memory[start:stop] = rows
    source.close()
    return HeldRows(memory, source.where, source.passes)


def as_tensor(array: object, name: str) -> Tensor:
    """A numeric array as a tensor that shares its memory where that is possible."""
    if isinstance(array, Tensor):
        if array.layout != torch.strided or array.is_nested:
            layout = "nested" if array.is_nested else str(array.layout).removeprefix("torch.")
            raise TypeError(
                f"{name} must be a dense tensor; got a {layout} one. Densify it first."
            )
        tensor = array.detach()
    else:
        tensor = _from_numpy(array, name)
    if tensor.is_complex():
        raise TypeError(
            f"{name} must hold real numbers; got {tensor.dtype}. Pass the real and the imaginary "
            f"part as features, or one of them."
        )
    return tensor


def _from_numpy(array: object, name: str) -> Tensor:
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
    """Read-only memory, offered as if it could be written to: torch warns otherwise, and warnings
    cannot be turned off in one thread alone. Nothing here writes to it."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array  # it has to live as long as its memory is used
        address = array.__array_interface__["data"][0]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}


@dataclass(frozen=True)
class File:
    """A path, the argument it came in, and what the file was when it was opened first."""

    path: Path
    argument: str
    size: int
    changed: int  # when, in nanoseconds

    @classmethod
    def at(cls, path: Path, argument: str) -> "File":
        status = path.stat()
        return cls(path, argument, status.st_size, status.st_mtime_ns)

    @property
    def label(self) -> str:
        return f"{self.argument}: {self.path.name}"

    @contextmanager
    def opened(self) -> Iterator[int]:
        """A descriptor to read from; an error if the file is gone or another one by now."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise self.gone(error) from error
        try:
            self.check_same(os.fstat(descriptor))
            yield descriptor
        finally:
            os.close(descriptor)

    def gone(self, error: OSError) -> OSError:
        return type(error)(
            f"{self.label} can no longer be opened: {error.strerror}. A selection reads its files "
            f"many times; leave them in their place until it is done."
        )

    def check_same(self, status: os.stat_result) -> None:
        if status.st_size != self.size:
            came = f"it had {self.size:,} bytes and has {status.st_size:,}"
        elif status.st_mtime_ns != self.changed:
            came = "it was written to"
        else:
            return
        raise OSError(
            f"{self.label} changed while it was read: {came}. A selection reads its files many "
            f"times; leave them as they are until it is done, or work on a copy."
        )

    def read_into(self, descriptor: int, memory: memoryview, offset: int, what: str) -> None:
        """Fill the memory from the file; ``what`` is being read, for the error message."""
        done = 0
        while done < len(memory):
            count = _read_at(descriptor, memory[done:], offset + done)
            if count == 0:
                raise OSError(
                    f"{self.label} ended while {what} was read, at byte {offset + done:,}: it was "
                    f"cut short. Leave files as they are until a selection is done."
                )
            done += count


def _read_at(descriptor: int, memory: memoryview, offset: int) -> int:
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [memory], offset)
    os.lseek(descriptor, offset, os.SEEK_SET)  # where there is no reading at a position
    data = os.read(descriptor, len(memory))
    memory[: len(data)] = data
    return len(data)


def check_there(path: Path, argument: str, of_folder: str) -> None:
    """An error unless it is a file; ``of_folder`` is the way out of a folder."""
    if path.is_dir():
        raise ValueError(f"{argument}: {str(path)!r} is a folder. {of_folder}")
    if not path.is_file():
        raise FileNotFoundError(f"{argument}: there is no file {str(path)!r}.")


def open_filled(path: Path, argument: str) -> File:
    """A file that has something in it."""
    file = File.at(path, argument)
    if file.size == 0:
        raise ValueError(f"{argument}: {path.name} is empty.")
    return file


@dataclass(frozen=True)
class NamedArray:
    """One array of a file: a column of vectors of a .parquet file, a tensor of a .safetensors one.

    Stands where a path may stand. ``name`` is None for the only one there is; errors name a row by
    its entry in ``id_column`` too.
    """

    path: Path
    name: str | None = None
    id_column: str | None = None


def choose_name(found: list[str], what: str, file: File, wanted: str | None) -> str:
    """The name that is wanted, or the only one there is."""
    listing = ", ".join(sorted(found)) or "none"
    if wanted in found:
        return wanted
    if wanted is not None:
        raise ValueError(f"{file.label} has no {what} named {wanted!r}; it has {listing}.")
    if len(found) == 1:
        return found[0]
    raise ValueError(
        f"{file.label} must hold exactly one {what}; it has {len(found)}: {listing}. Choose one "
        f"with vector_column where that can be given, or load the file yourself and pass the "
        f"array."
    )
