"""From what the caller gave to a source of rows; large files are not read here.

Numbers, vectors and arrays of the right kind, shape and range.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.kernels import Kernel
from tellmost.kernels.linear import matrix_size
from tellmost.rows.files import open_npy, open_safetensors
from tellmost.rows.parquet import ParquetFile
from tellmost.rows.pool import Pool
from tellmost.rows.sources import (
    File,
    HeldRows,
    NamedArray,
    Reader,
    Source,
    as_tensor,
    check_there,
    open_filled,
)
from tellmost.rows.streamed import CallerBlocks, Shards, StreamedRows
from tellmost.rows.survey import check_finite
from tellmost.shapes import Float, Int

LIST_THEM = "Pass the list of the files in it, such as sorted(Path(folder).glob('*.npy'))."
READERS: dict[str, Callable[[File, NamedArray], Reader]] = {
    ".npy": lambda file, _: open_npy(file),  # has one array, without a name
    ".safetensors": open_safetensors,
    ".parquet": ParquetFile,
}


def open_source(given: Any, argument: str) -> Source:
    """Rows behind an array, a path, a list of paths, or an iterable of blocks."""
    reader: Reader
    if isinstance(given, NamedArray):
        reader = open_file(given.path, argument, given)
    elif isinstance(given, str | os.PathLike):
        reader = open_file(Path(given), argument)
    elif _names_a_file(given):
        reader = Shards(_open_shards(given, argument), argument)
    elif _is_iterable_of_blocks(given):
        reader = CallerBlocks(_repeatable(given, argument), argument)
    elif given is None:
        raise TypeError(f"{argument} must be an array, a tensor or the path of a file; got None.")
    else:
        return HeldRows(as_tensor(given, argument))
    return StreamedRows(reader, numerics.RECENT_BYTES)


def load_array(path: Path | NamedArray, argument: str) -> Tensor:
    """The one array in a file, or the one named, all of it in memory."""
    named = path if isinstance(path, NamedArray) else NamedArray(path)
    reader = open_file(named.path, argument, named, of_folder="Name one file in it.")
    return next(reader.pieces([(0, reader.shape[0])]))


def open_file(
    path: Path, argument: str, named: NamedArray | None = None, of_folder: str = LIST_THEM
) -> Reader:
    """The one array in a file, or the one named, not read yet."""
    check_there(path, argument, of_folder)
    if path.suffix not in READERS:
        raise ValueError(
            f"{argument}: cannot read {path.name}; the formats are {', '.join(READERS)}. Load it "
            f"yourself and pass the array."
        )
    return READERS[path.suffix](open_filled(path, argument), named or NamedArray(path))


def _names_a_file(given: Any) -> bool:
    return isinstance(given, list | tuple) and any(
        isinstance(entry, str | os.PathLike) for entry in given
    )


def _open_shards(paths: Sequence[Any], argument: str) -> list[Reader]:
    for number, path in enumerate(paths):
        if not isinstance(path, str | os.PathLike):
            raise TypeError(
                f"{argument}, as a list of files, must have paths only; entry {number} is "
                f"{type(path).__name__}."
            )
    return [open_file(Path(path), argument) for path in paths]


def _is_iterable_of_blocks(given: Any) -> bool:
    """Whether it can only be iterated: anything that is an array, or a list of rows, is not."""
    is_other = isinstance(given, Sequence | Mapping | Set | Tensor | bytes)
    is_array = hasattr(given, "__array__") or hasattr(given, "__array_interface__")
    return isinstance(given, Iterable) and not (is_other or is_array)


def _repeatable(given: Iterable[Any], argument: str) -> Iterable[Any]:
    if isinstance(given, Iterator):
        raise TypeError(
            f"{argument} must be an iterable that can be iterated again, since a selection reads "
            f"it many times; got a {type(given).__name__}, which can be read only once. Pass an "
            f"object whose __iter__ starts from the beginning, or a list of files."
        )
    return given


NOT_NUMBERS = (str, bytes, bool, np.bool_)  # although float() and int() take them


def read_array(array: Any, name: str) -> Tensor:
    if isinstance(array, NamedArray):
        return load_array(array, name)
    if isinstance(array, str | os.PathLike):
        return load_array(Path(array), name)
    if array is None:
        raise TypeError(f"{name} must be an array, a tensor or the path of a file; got None.")
    return as_tensor(array, name)


def check_rows(data: Tensor, name: str) -> None:
    check_shape(tuple(data.shape), name)
    rows = Pool.of(data)
    for start, _, block in rows.blocks():
        check_finite(start, block, rows.source, name)


def check_shape(shape: tuple[int, ...], name: str) -> None:
    if 0 in shape:
        raise ValueError(f"{name} must not be empty; got shape {shape}.")
    if len(shape) != 2:
        raise ValueError(
            f"{name} must have two dimensions, rows x features; got shape {shape}. Reshape it "
            f"first; rows of one feature are (n, 1)."
        )


def check_matrix_rows(data: Tensor, name: str, kernel: Kernel) -> Int[Tensor, " n"]:
    if data.numel() == 0:
        raise ValueError(f"{name} must not be empty; got shape {tuple(data.shape)}.")
    if data.ndim != 1 or data.is_floating_point() or data.dtype == torch.bool:
        raise ValueError(
            f"with a Precomputed kernel {name} must be a vector of row numbers of its matrix; got "
            f"{kind_of(data)}."
        )
    data = data.to(torch.int64)
    check_range(data, matrix_size(kernel) or 0, name, "rows of the kernel's matrix")
    return data


def check_range(indices: Tensor, count: int, name: str, what: str) -> None:
    outside = indices[(indices < 0) | (indices >= count)]
    if len(outside):
        raise ValueError(f"{name} must name {what}, 0 to {count - 1}; got {int(outside[0])}.")


def kind_of(values: Tensor) -> str:
    """What came, in words."""
    return f"{str(values.dtype).removeprefix('torch.')} of shape {tuple(values.shape)}"


def check_indices(values: Any, name: str, n: int) -> Int[Tensor, " b"]:
    """Numbers of pool rows."""
    indices = as_tensor(values, name)
    if indices.ndim != 1 or indices.is_floating_point() or indices.dtype == torch.bool:
        raise TypeError(
            f"{name} must be a vector of integers, numbers of pool rows; got {kind_of(indices)}."
        )
    indices = indices.to(device="cpu", dtype=torch.int64)
    check_range(indices, n, name, "rows of the pool")
    return indices


def check_distinct(indices: Tensor, name: str, way_out: str) -> None:
    values, counts = torch.unique(indices, return_counts=True)
    if bool((counts > 1).any()):
        raise ValueError(f"{name} has row {int(values[counts > 1][0])} more than once. {way_out}")


def check_vector(values: Any, name: str, count: int, per: str) -> Float[Tensor, " c"]:
    vector = as_tensor(values, name)
    if vector.shape != (count,):
        raise ValueError(
            f"{name} must have one entry per {per}, ({count},); got {tuple(vector.shape)}."
        )
    vector = vector.to(torch.float64)
    bad = (~torch.isfinite(vector)).nonzero()[:, 0]
    if len(bad):
        raise ValueError(f"{name} must be finite; entry {int(bad[0])} is {vector[bad[0]]:g}.")
    return vector


def check_all_positive(vector: Float[Tensor, " c"], name: str) -> None:
    bad = (vector <= 0).nonzero()[:, 0]
    if len(bad):
        row = int(bad[0])
        raise ValueError(f"{name} must be positive; row {row} has {float(vector[row]):g}.")


def check_positive(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name} must be a number; got {type(value).__name__}.") from error
    if isinstance(value, NOT_NUMBERS):
        raise TypeError(f"{name} must be a number; got {value!r}.")
    if not 0 < number < float("inf"):
        raise ValueError(f"{name} must be a positive finite number; got {value}.")
    return number


def check_whole(value: Any, name: str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError) as error:
        came = repr(value) if isinstance(value, str | float) else type(value).__name__
        raise TypeError(f"{name} must be a whole number of at least 1; got {came}.") from error
    if isinstance(value, NOT_NUMBERS):
        raise TypeError(f"{name} must be a whole number of at least 1; got {value!r}.")
    if number != value or number < 1:
        raise ValueError(f"{name} must be a whole number of at least 1; got {value}.")
    return number
