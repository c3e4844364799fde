"""Files that may be damaged: the one error that says so, and arrays in archives.

An .npz file of a few megabytes can hold gigabytes of zeros, or claim to. So the headers of its
arrays come first, and an array is read only if it has the size that its header says and fits.
"""

import errno
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import prod
from os import PathLike
from typing import Any

import numpy as np
import torch

from tellmost.running.memory import available, in_words

HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@contextmanager
def refusing_damage(what: str, way_out: str = "") -> Iterator[None]:
    """Turn whatever damaged bytes make their reader raise into a ValueError that says what it is.

    They can lead a decoder to any error, from zlib.error to RecursionError. An error of the
    system, such as a missing permission, stays as it is.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise ValueError(f"{what}: {reason_of(error)}. {way_out}".rstrip()) from error


def reason_of(error: BaseException) -> str:
    """The first line of an error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = lines[0] if lines else type(error).__name__
    return f"it has no {first}" if isinstance(error, KeyError) else first.rstrip(".")


def npy_header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    """The shape of an .npy array, whether its order is Fortran's, and its dtype."""
    version = np.lib.format.read_magic(stream)
    if version not in HEADERS:  # field names in UTF-8: records, which are no numbers
        raise ValueError("it holds records, not numbers")
    shape, is_fortran, dtype = HEADERS[version](stream)
    if min(shape, default=0) < 0:
        raise ValueError(f"sizes must be 0 or more; its header has the shape {shape}")
    return shape, is_fortran, dtype


@contextmanager
def open_archive(path: str | PathLike[str]) -> Iterator[dict[str, "StoredArray"]]:
    """The arrays of an .npz file by their names, not read yet. Pickles are never loaded."""
    with zipfile.ZipFile(path) as archive:
        yield arrays_in(archive)


def arrays_in(archive: zipfile.ZipFile) -> dict[str, "StoredArray"]:
    entries = [entry for entry in archive.infolist() if entry.filename.endswith(".npy")]
    return {entry.filename.removesuffix(".npy"): StoredArray(archive, entry) for entry in entries}


@dataclass(frozen=True)
class StoredArray:
    """An array in an archive."""

    archive: zipfile.ZipFile
    entry: zipfile.ZipInfo

    @cached_property
    def header(self) -> tuple[tuple[int, ...], np.dtype, int]:
        """Its shape, its dtype, and how many bytes it has with its header."""
        with self.archive.open(self.entry) as stream:
            shape, _, dtype = npy_header(stream)
            return shape, dtype, stream.tell() + prod(shape) * dtype.itemsize

    def read(self, memory: int | None = None) -> np.ndarray:
        """The array, if the file is as long as its header says, and so many bytes have room."""
        size, claimed = self.entry.file_size, self.header[2]
        if size != claimed:
            raise ValueError(
                f"{self.entry.filename} must have the {claimed:,} bytes that its header promises; "
                f"it has {size:,}"
            )
        room = available(torch.device("cpu")) if memory is None else memory
        if size > room:
            raise ValueError(
                f"{self.entry.filename} takes {in_words(size)}, and memory has room for "
                f"{in_words(room)}"
            )
        with self.archive.open(self.entry) as stream:
            array = np.lib.format.read_array(stream, allow_pickle=False)
            stream.read(1)  # at the end the checksum is compared
            return array
