"""Files whose rows lie one after the other, in the same number of bytes each: .npy, .safetensors.

A file is opened anew for every pass, and has to be the same each time.
"""

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from tellmost.rows.sources import NamedArray, Span, as_tensor
from tellmost.running.reading import npy_header, refusing_damage
from tellmost.running.writing import check_no_circle


@runtime_checkable
class Readable(Protocol):
    """A file, here or in a store, the argument it came in, and its state when opened first."""

    @property
    def argument(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def suffix(self) -> str: ...

    @property
    def place(self) -> str:
        """The whole path or URL, which opens it from anywhere."""

    @property
    def size(self) -> int: ...

    @property
    def label(self) -> str:
        """The argument and the name, for error messages."""

    def opened(self) -> AbstractContextManager[int]:
        """A descriptor to read from; an error if the file is gone or was changed."""

    def stream(self) -> Any:
        """The file as an object that reads and seeks."""

    def read_into(self, descriptor: int, memory: memoryview, offset: int, what: str) -> None:
        """Fill the memory from the file; ``what`` is being read, for the error message."""


@dataclass(frozen=True)
class File:
    """A file on this machine."""

    path: Path
    argument: str
    size: int
    changed: int  # when, in nanoseconds

    @classmethod
    def at(cls, path: Path, argument: str) -> "File":
        status = path.stat()
        return cls(path, argument, status.st_size, status.st_mtime_ns)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def suffix(self) -> str:
        return self.path.suffix

    @property
    def place(self) -> str:
        return str(self.path.absolute())

    @property
    def label(self) -> str:
        return f"{self.argument}: {self.name}"

    def stream(self) -> BinaryIO:
        return self.path.open("rb")

    @contextmanager
    def opened(self) -> Iterator[int]:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise type(error)(
                f"{self.label} can no longer be opened: {error.strerror}. A selection reads its "
                f"files many times; leave them in their place until it is done."
            ) from error
        try:
            self.check_same(os.fstat(descriptor))
            yield descriptor
        finally:
            os.close(descriptor)

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


def check_there(path: Path, argument: str) -> None:
    """Refuse what is no file."""
    if path.is_dir():
        raise ValueError(f"{argument}: {str(path)!r} is a folder. Name the files in it.")
    check_no_circle(path, argument)
    if not path.is_file():
        way_out = "" if path.suffix else " Texts need a model: embed='all-minilm'."
        raise FileNotFoundError(f"{argument}: there is no file {str(path)!r}.{way_out}")


def open_filled(path: Path, argument: str) -> File:
    """The file at this path, which must not be empty."""
    file = File.at(path, argument)
    if file.size == 0:
        raise ValueError(f"{argument}: {path.name} is empty.")
    return file


def choose_name(found: list[str], what: str, file: Readable, named: NamedArray) -> str:
    """The wanted name, or the only one that was found."""
    listing, wanted = ", ".join(sorted(found)) or "none", named.name
    if wanted in found:
        return wanted
    if wanted is not None and named.required:
        raise ValueError(f"{file.label} has no {what} named {wanted!r}; it has {listing}.")
    if len(found) == 1:
        return found[0]
    raise ValueError(
        f"{file.label} must hold exactly one {what}; it has {len(found)}: {listing}. Choose one "
        f"with column (--vector-column), or load the file yourself and pass the array."
    )


Decode = Callable[[Tensor, tuple[int, ...]], Tensor]
"""Turns bytes and a shape into numbers, sharing the memory where that is possible."""


def bytes_of(memory: Tensor) -> memoryview:
    """A view of the memory that a file can be read into."""
    return memory.numpy().data


class FlatFile:
    """Reads blocks into two buffers in turn: one is being filled while the other is used.

    A file in Fortran order, ``by_column``, takes a read per feature and block.
    """

    jumps = True
    device = torch.device("cpu")
    ids = None

    def __init__(
        self,
        file: Readable,
        offset: int,
        shape: tuple[int, ...],
        item_bytes: int,
        decode: Decode,
        *,
        by_column: bool = False,
    ) -> None:
        self.shape = shape
        self.dtype = decode(torch.empty(0, dtype=torch.uint8), (0, *shape[1:])).dtype
        self.rows_read = 0
        self._file, self._offset, self._decode = file, offset, decode
        self._item_bytes, self._by_column = item_bytes, by_column
        self._row_bytes = math.prod(shape[1:]) * item_bytes

    def pieces(self, wanted: Sequence[Span]) -> Iterator[Tensor]:
        size = max((stop - start for start, stop in wanted), default=0) * self._row_bytes
        buffers = [torch.empty(0, dtype=torch.uint8)] * 2
        read = self._read_columns if self._by_column else self._read
        with self._file.opened() as descriptor:
            for number, (start, stop) in enumerate(wanted):
                if number < 2:
                    buffers[number] = torch.empty(size, dtype=torch.uint8)
                memory = buffers[number % 2][: (stop - start) * self._row_bytes]
                self.rows_read += stop - start
                yield read(descriptor, memory, start, stop)

    def _read(self, descriptor: int, memory: Tensor, start: int, stop: int) -> Tensor:
        offset = self._offset + start * self._row_bytes
        what = f"the block from row {start:,}"
        self._file.read_into(descriptor, bytes_of(memory), offset, what)
        return self._decode(memory, (stop - start, *self.shape[1:]))

    def _read_columns(self, descriptor: int, memory: Tensor, start: int, stop: int) -> Tensor:
        n, d = self.shape
        for column, part in enumerate(memory.view(d, -1)):
            offset = self._offset + (column * n + start) * self._item_bytes
            what = f"feature {column} of the block from row {start:,}"
            self._file.read_into(descriptor, bytes_of(part), offset, what)
        return self._decode(memory, (d, stop - start)).T

    def where(self, row: int) -> str:
        return f"row {row} of {self._file.name}"


MAGIC = b"\x93NUMPY"


def open_npy(file: Readable, named: NamedArray) -> FlatFile:
    """The array in the file, not read yet. Pickled objects are refused and never loaded."""
    named.refuse_names(file.argument, f"an array in {file.name}")
    shape, is_fortran, dtype, offset = _npy_header(file)
    if dtype.hasobject:
        raise ValueError(
            f"{file.label} holds pickled Python objects, which can run code when loaded, and is "
            f"refused. Save a numeric array with np.save."
        )
    check_numeric(dtype, file.label)
    expected = offset + math.prod(shape) * dtype.itemsize
    if file.size < expected:
        raise ValueError(
            f"{file.label} is damaged: it has {file.size:,} bytes, and its header promises "
            f"{expected:,}."
        )
    size = shape if len(shape) else (1,)

    def decode(memory: Tensor, shape: tuple[int, ...]) -> Tensor:
        return as_tensor(memory.numpy().view(dtype).reshape(shape), file.argument)

    by_column = is_fortran and len(shape) == 2
    return FlatFile(file, offset, size, dtype.itemsize, decode, by_column=by_column)


def check_numeric(dtype: np.dtype, what: str) -> None:
    """Refuse a header that promises no numbers."""
    if dtype.kind not in "fiubc":
        raise ValueError(
            f"{what} must hold numbers; its header says that it holds {dtype}. It is damaged, or "
            f"was saved from something else than a numeric array."
        )


def _npy_header(file: Readable) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """The shape, whether the order is Fortran's, the dtype, and where the numbers start."""
    with file.stream() as stream:
        _check_magic(stream.read(len(MAGIC)), file)
        stream.seek(0)
        with refusing_damage(f"{file.label} is damaged"):
            return *npy_header(stream), stream.tell()


def _check_magic(start: bytes, file: Readable) -> None:
    if start.startswith(b"PK"):
        raise ValueError(
            f"{file.label} is an .npz archive, not an .npy array. Load it yourself and pass the "
            f"array you want."
        )
    if start != MAGIC:  # np.load would take it for a pickle
        raise ValueError(f"{file.label} is not an .npy file. Save one with np.save.")


TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


LONGEST_HEADER = 100_000_000  # bytes, as the format has it
NO_SAFETENSORS = "is not a whole .safetensors file"


def open_safetensors(file: Readable, named: NamedArray) -> FlatFile:
    """The tensor in the file, not read yet."""
    replace(named, name=None).refuse_names(file.argument, f"a tensor in {file.name}")
    header, offset = _safetensors_header(file)
    keys = [key for key in header if key != "__metadata__"]
    key = choose_name(keys, "tensor", file, named)
    with refusing_damage(f"{file.argument}: the header of {file.name} is damaged"):
        dtype, shape = str(header[key]["dtype"]), tuple(map(int, header[key]["shape"]))
        start, stop = map(int, header[key]["data_offsets"])
    if dtype not in TYPES:
        raise ValueError(f"{file.label} has dtype {dtype}; the types are {', '.join(TYPES)}.")
    element = TYPES[dtype]
    if min(start, *shape) < 0 or stop - start != math.prod(shape) * element.itemsize:
        raise ValueError(
            f"{file.argument}: the header of {file.name} is damaged: sizes do not agree."
        )
    if offset + stop > file.size:
        raise ValueError(f"{file.label} is cut short; {key!r} lies behind its end.")

    def decode(memory: Tensor, shape: tuple[int, ...]) -> Tensor:
        return memory.view(element).view(shape)

    return FlatFile(file, offset + start, shape or (1,), element.itemsize, decode)


def _safetensors_header(file: Readable) -> tuple[dict[str, Any], int]:
    """The content that the file claims to have, and where the data starts."""
    with file.stream() as stream, refusing_damage(f"{file.label} {NO_SAFETENSORS}"):
        size = int.from_bytes(stream.read(8), "little")
        if size > min(LONGEST_HEADER, file.size - 8):
            raise ValueError(f"its header cannot have {size:,} bytes")
        header = json.loads(stream.read(size))
        if not isinstance(header, dict):
            raise ValueError("its header must name tensors")
        return header, 8 + size
