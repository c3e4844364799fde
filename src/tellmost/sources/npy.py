"""Rows of an .npy file."""

import math

import numpy as np
from torch import Tensor

from tellmost.sources.arrays import as_tensor
from tellmost.sources.files import File
from tellmost.sources.flat_file import FlatColumns, FlatFile

MAGIC = b"\x93NUMPY"


def open_npy(file: File) -> FlatFile | FlatColumns:
    """The array in the file, not read yet; pickled objects are refused, never loaded."""
    shape, is_fortran, dtype, offset = _header(file)
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


def _header(file: File) -> tuple[tuple[int, ...], bool, np.dtype, int]:
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
