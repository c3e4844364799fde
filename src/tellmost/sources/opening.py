"""From what the caller gave to a source of rows; large files are not read here."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from torch import Tensor

from tellmost import numerics
from tellmost.sources.arrays import as_tensor
from tellmost.sources.caller_blocks import CallerBlocks
from tellmost.sources.files import File, check_there, open_filled
from tellmost.sources.held import HeldRows
from tellmost.sources.naming import NamedArray
from tellmost.sources.npy import open_npy
from tellmost.sources.parquet import ParquetFile
from tellmost.sources.safetensors import open_safetensors
from tellmost.sources.shards import Shards
from tellmost.sources.source import Reader, Source
from tellmost.sources.streamed import StreamedRows

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
