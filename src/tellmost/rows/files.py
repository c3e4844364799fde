"""Rows that lie one after the other in a file, each of the same number of bytes.

Rows of an .npy file.

Rows of a tensor in a .safetensors file.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.rows.sources import File, NamedArray, Span, as_tensor, choose_name

Decode = Callable[[Tensor, tuple[int, ...]], Tensor]
"""From bytes and a shape to numbers, sharing the memory where that is possible."""


def bytes_of(memory: Tensor) -> memoryview:
    """A view that can be read into."""
    return memory.numpy().data


class FlatFile:
    """Reads blocks into two buffers in turn: one is being filled while the other is used."""

    jumps = True
    device = torch.device("cpu")

    def __init__(
        self, file: File, offset: int, shape: tuple[int, ...], row_bytes: int, decode: Decode
    ) -> None:
        self.shape = shape
        self.dtype = decode(torch.empty(0, dtype=torch.uint8), (0, *shape[1:])).dtype
        self.rows_read = 0
        self._file, self._offset, self._decode = file, offset, decode
        self._row_bytes = row_bytes

    def pieces(self, wanted: Sequence[Span]) -> Iterator[Tensor]:
        size = max((stop - start for start, stop in wanted), default=0) * self._row_bytes
        buffers = [torch.empty(0, dtype=torch.uint8)] * 2
        with self._file.opened() as descriptor:
            for number, (start, stop) in enumerate(wanted):
                if number < 2:
                    buffers[number] = torch.empty(size, dtype=torch.uint8)
                memory = buffers[number % 2][: (stop - start) * self._row_bytes]
                self._read(descriptor, memory, start)
                self.rows_read += stop - start
                yield self._decode(memory, (stop - start, *self.shape[1:]))

    def _read(self, descriptor: int, memory: Tensor, start: int) -> None:
        offset = self._offset + start * self._row_bytes
        what = f"the block from row {start:,}"
        self._file.read_into(descriptor, bytes_of(memory), offset, what)

    def where(self, row: int) -> str:
        return f"row {row} of {self._file.path.name}"


class FlatColumns:
    """The same of a file in Fortran order, column by column: a read per feature and block."""

    jumps = True
    device = torch.device("cpu")

    def __init__(
        self, file: File, offset: int, shape: tuple[int, int], item_bytes: int, decode: Decode
    ) -> None:
        self.shape = shape
        self.dtype = decode(torch.empty(0, dtype=torch.uint8), (0, 0)).dtype
        self.rows_read = 0
        self._file, self._offset, self._decode = file, offset, decode
        self._item_bytes = item_bytes

    def pieces(self, wanted: Sequence[Span]) -> Iterator[Tensor]:
        with self._file.opened() as descriptor:
            for start, stop in wanted:
                self.rows_read += stop - start
                yield self._read(descriptor, start, stop)

    def _read(self, descriptor: int, start: int, stop: int) -> Tensor:
        n, d = self.shape
        memory = torch.empty(d, (stop - start) * self._item_bytes, dtype=torch.uint8)
        for column, part in enumerate(memory):
            offset = self._offset + (column * n + start) * self._item_bytes
            what = f"feature {column} of the block from row {start:,}"
            self._file.read_into(descriptor, bytes_of(part), offset, what)
        return self._decode(memory.view(-1), (d, stop - start)).T

    def where(self, row: int) -> str:
        return f"row {row} of {self._file.path.name}"


MAGIC = b"\x93NUMPY"


def open_npy(file: File) -> FlatFile | FlatColumns:
    """The array in the file, not read yet; pickled objects are refused, never loaded."""
    shape, is_fortran, dtype, offset = _npy_header(file)
    if dtype.hasobject:
        raise ValueError(
            f"{file.label} holds pickled Python objects, which can run code when loaded, and is "
            f"refused. Save a numeric array with np.save."
        )
    expected = offset + math.prod(shape) * dtype.itemsize
    if file.size < expected:
        raise ValueError(
            f"{file.label} is damaged: it has {file.size:,} bytes, and its header promises "
            f"{expected:,}."
        )
    size = shape if len(shape) else (1,)

    def decode(memory: Tensor, shape: tuple[int, ...]) -> Tensor:
        return as_tensor(memory.numpy().view(dtype).reshape(shape), file.argument)

    if is_fortran and len(shape) == 2:
        return FlatColumns(file, offset, (shape[0], shape[1]), dtype.itemsize, decode)
    row_bytes = math.prod(size[1:]) * dtype.itemsize
    return FlatFile(file, offset, size, row_bytes, decode)


def _npy_header(file: File) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Shape, whether in Fortran order, dtype, and where the numbers start."""
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    with file.path.open("rb") as stream:
        _check_magic(stream.read(len(MAGIC)), file)
        try:
            stream.seek(0)
            version = np.lib.format.read_magic(stream)
            if version == (3, 0):  # field names in UTF-8: records, which are no numbers
                raise ValueError("it holds records, not numbers")
            shape, is_fortran, dtype = readers[version](stream)
        except (ValueError, EOFError, OSError, KeyError) as error:
            message = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
            raise ValueError(f"{file.label} is damaged: {message}.") from error
        return shape, is_fortran, dtype, stream.tell()


def _check_magic(start: bytes, file: File) -> None:
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


def open_safetensors(file: File, named: NamedArray) -> FlatFile:
    """The tensor in the file, not read yet."""
    header, offset = _safetensors_header(file)
    keys = [key for key in header if key != "__metadata__"]
    key = choose_name(keys, "tensor", file, named.name)
    try:
        dtype, shape = header[key]["dtype"], tuple(map(int, header[key]["shape"]))
        start, stop = map(int, header[key]["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file.argument}: the header of {file.path.name} is damaged.") from error
    if dtype not in TYPES:
        raise ValueError(f"{file.label} has dtype {dtype}; the types are {', '.join(TYPES)}.")
    element = TYPES[dtype]
    if min(start, *shape) < 0 or stop - start != math.prod(shape) * element.itemsize:
        raise ValueError(
            f"{file.argument}: the header of {file.path.name} is damaged: sizes do not agree."
        )
    if offset + stop > file.size:
        raise ValueError(f"{file.label} is cut short; {key!r} lies behind its end.")

    def decode(memory: Tensor, shape: tuple[int, ...]) -> Tensor:
        return memory.view(element).view(shape)

    row_bytes = math.prod(shape[1:]) * element.itemsize
    return FlatFile(file, offset + start, shape or (1,), row_bytes, decode)


def _safetensors_header(file: File) -> tuple[dict[str, Any], int]:
    """What the file says it holds, and where the data starts."""
    with file.path.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        text = stream.read(size) if 8 + size <= file.size else b""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise ValueError(f"{file.label} is not a whole .safetensors file.")
    return header, 8 + size
