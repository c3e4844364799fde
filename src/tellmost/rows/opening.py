"""Files, lists of files and iterables of blocks, opened as sources of rows."""

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from glob import glob
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.rows.caller_blocks import CallerBlocks
from tellmost.rows.files import (
    Readable,
    check_there,
    open_filled,
    open_npy,
    open_safetensors,
)
from tellmost.rows.frames import open_frame
from tellmost.rows.parquet import ParquetFile
from tellmost.rows.sources import HeldRows, Ids, NamedArray, Reader, Source, Span, as_tensor
from tellmost.rows.stores import RemoteFile, find_remote, has_magic, open_shards
from tellmost.rows.streamed import StreamedRows
from tellmost.rows.text_tables import SUFFIXES, suffix_of
from tellmost.shapes import Int, Shaped

WITHOUT_SLASH = re.compile(r"[a-z][a-z0-9+.-]+:/[^/]")
READERS: dict[str, Callable[[Readable, NamedArray], Reader]] = {
    ".npy": open_npy,
    ".safetensors": open_safetensors,
    ".parquet": ParquetFile,
}
IN_FOLDERS = (".csv", ".tsv", ".jsonl")  # a .json file there is more often about the others


def open_other(given: Any, argument: str) -> Source:
    """Rows behind anything but an array or a tensor."""
    named = given if isinstance(given, NamedArray) else NamedArray(given)
    rows = named.given
    if isinstance(rows, HeldRows):
        return rows
    if names_files(rows):
        return open_files(named, argument)
    if (frame := open_frame(named, argument)) is not None:
        return frame
    named.refuse_names(argument, f"a {type(rows).__name__}")
    if _is_iterable_of_blocks(rows):
        blocks = CallerBlocks(_repeatable(rows, argument), argument)
        return StreamedRows(blocks, numerics.RECENT_BYTES)
    return HeldRows(as_tensor(rows, argument))


def names_files(given: Any) -> bool:
    entries = given if isinstance(given, list | tuple) else [given]
    return any(isinstance(entry, str | os.PathLike) for entry in entries)


def open_files(named: NamedArray, argument: str) -> Source:
    """The rows of a file, or of several one after the other: read, or streamed when needed."""
    files = find_all(named, argument)
    if any(is_held(file) for file in files):
        from tellmost.rows.record_files import hold_named

        return hold_named(named, argument)
    readers = open_each(named, files)
    is_one = len(readers) == 1 and not isinstance(named.given, list | tuple)
    rows = readers[0] if is_one else Shards(readers, argument)
    check_ids_differ(readers, rows.ids, argument)
    return StreamedRows(rows, numerics.RECENT_BYTES)


def is_held(file: Readable) -> bool:
    """Say if the rows of a file are read into memory, and not streamed."""
    return suffix_of(file.name) in (".npz", *SUFFIXES)


def list_files(named: NamedArray, argument: str) -> list[tuple[str, int]]:
    """Where the files are, in the order of their rows, and how many rows each has."""
    files = find_all(named, argument)
    readers = open_each(named, files)
    return [(file.place, reader.shape[0]) for file, reader in zip(files, readers, strict=True)]


def find_all(named: NamedArray, argument: str) -> list[Readable]:
    """The files that are named by one entry, or by a list of them."""
    entries = named.given if isinstance(named.given, list | tuple) else [named.given]
    for number, entry in enumerate(entries):
        if not isinstance(entry, str | os.PathLike):
            raise TypeError(
                f"{argument}, as a list of files, must have paths only; entry {number} is "
                f"{type(entry).__name__}."
            )
    return [file for entry in entries for file in find_files(entry, argument)]


def open_each(named: NamedArray, files: Sequence[Readable]) -> list[Reader]:
    """A reader of each file."""
    if any(isinstance(file, RemoteFile) for file in files):
        return open_shards(files, named.name, partial(open_one, named=named))
    return [open_one(file, named) for file in files]


def check_ids_differ(readers: Sequence[Reader], ids: Ids | None, argument: str) -> None:
    """Refuse two rows of one id, in one file or in several. ``ids`` reads those of all rows."""
    files = [reader for reader in readers if isinstance(reader, ParquetFile)]
    if ids is None or not files:
        return
    hashes = np.concatenate([file.hash_ids() for file in files])
    order = np.argsort(hashes, kind="stable")
    twice = np.flatnonzero(np.diff(hashes[order]) == 0)
    if not len(twice):
        return
    from tellmost.rows.records import check_ids

    rows = np.unique([order[twice], order[twice + 1]])
    starts = [0, *accumulate(file.shape[0] for file in files)]

    def where(place: int) -> str:
        row = int(rows[place])
        number = bisect_right(starts, row) - 1
        return files[number].label_row(row - starts[number])

    check_ids(ids(torch.from_numpy(rows)).tolist(), files[0].id_column, argument, where)


def find_files(entry: str | os.PathLike[str], argument: str) -> list[Readable]:
    """The files that a path or a URL means: itself, those that it matches, those in the folder.

    The latter are sorted by their names.
    """
    text = os.fspath(entry)
    if "://" in text:
        return check_found(find_remote(text, argument, rows_in), text, argument)
    if WITHOUT_SLASH.match(text):
        raise ValueError(
            f"{argument}: {text!r} is a URL that lost a slash in a Path. Pass it as a text."
        )
    path = Path(entry)
    if path.is_dir():
        paths = sorted(path.rglob("*"))
    elif has_magic(text) and not path.exists():
        paths = sorted(map(Path, glob(text, recursive=True)))
    else:
        check_there(path, argument)
        return [open_filled(path, argument)]
    names = rows_in([str(path) for path in paths if path.is_file()])
    return check_found([open_filled(Path(name), argument) for name in names], text, argument)


def rows_in(names: Sequence[str]) -> list[str]:
    """The files of a folder that hold rows: arrays and tables, or the text files if none is there.

    Files .json count where nothing else is there.

    What other programs leave there holds none, and neither do kept embeddings.
    """
    paths = [path for path in map(Path, names) if not path.name.startswith((".", "_"))]
    for suffixes in ([*READERS], [*IN_FOLDERS]):
        found = [path for path in paths if suffix_of(path) in suffixes]
        if rows := [str(path) for path in found if path.parent.suffix != ".embeddings"]:
            return rows
    is_json = all(suffix_of(path) == ".json" for path in paths)
    return [str(path) for path in paths] if is_json else []


def check_found(files: Sequence[Readable], text: str, argument: str) -> list[Readable]:
    if not files:
        raise FileNotFoundError(
            f"{argument}: {text!r} must have or match files of the formats "
            f"{', '.join([*READERS, *IN_FOLDERS])}, or .json alone; there are none."
        )
    return list(files)


def open_one(file: Readable, named: NamedArray) -> Reader:
    """The one array in a file, or the one named, not read yet."""
    if not isinstance(named.name, str | None):
        raise ValueError(
            f"{file.argument}: column must name the one column of vectors in {file.name}; got "
            f"{named.name!r}. Read the file as a frame, and pass that."
        )
    if file.suffix not in READERS:
        raise ValueError(
            f"{file.argument}: cannot read {file.name}; the formats are {', '.join(READERS)}. "
            f"Load it yourself and pass the array."
        )
    return READERS[file.suffix](file, named)


def _is_iterable_of_blocks(given: Any) -> bool:
    """Say whether it can only be iterated, unlike an array or a list of rows."""
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


class Shards:
    """Several readers one after the other; a span may begin in one and end in another."""

    def __init__(self, readers: Sequence[Reader], argument: str) -> None:
        for reader in readers:
            _check_alike(readers[0], reader, argument)
        self._readers = readers
        self._starts = [0, *accumulate(reader.shape[0] for reader in readers)]
        self.shape = (self._starts[-1], *readers[0].shape[1:])
        self.dtype, self.device = readers[0].dtype, readers[0].device
        self.jumps = all(reader.jumps for reader in readers)
        self.ids = None if readers[0].ids is None else self._read_ids

    @property
    def rows_read(self) -> int:
        return sum(reader.rows_read for reader in self._readers)

    def pieces(self, wanted: Sequence[Span]) -> Iterator[Tensor]:
        parts: list[Tensor] = []  # of a span that ends in a later file
        for reader, offset, here in self._by_reader(wanted):
            local = [(start - offset, stop - offset) for start, stop, _ in here]
            for (_, _, is_end), piece in zip(here, reader.pieces(local), strict=True):
                if is_end and not parts:
                    yield piece
                elif is_end:
                    yield torch.cat([*parts, piece])
                    parts = []
                else:
                    parts.append(piece.clone())

    def where(self, row: int) -> str:
        number = self._shard_of(row)
        local = self._readers[number].where(row - self._starts[number])
        return f"{local} (row {row:,} of the pool)"

    def _read_ids(self, rows: Int[Tensor, " b"]) -> Shaped[np.ndarray, " b"]:
        ids = np.empty(len(rows), dtype=object)
        numbers = torch.tensor([self._shard_of(row) for row in rows.tolist()], dtype=torch.int64)
        for number in torch.unique(numbers).tolist():
            is_here, read = numbers == number, self._readers[number].ids
            assert read is not None  # the name serves all files
            ids[is_here.numpy()] = read(rows[is_here] - self._starts[number])
        return np.array(ids.tolist())

    def _shard_of(self, row: int) -> int:
        return bisect_right(self._starts, row) - 1

    def _by_reader(
        self, wanted: Sequence[Span]
    ) -> Iterator[tuple[Reader, int, list[tuple[int, int, bool]]]]:
        """Each reader with its first row, and its parts (start, stop, whether the span ends)."""
        shares: dict[int, list[tuple[int, int, bool]]] = {}
        for start, stop in wanted:
            while start < stop:
                number = self._shard_of(start)
                end = min(stop, self._starts[number + 1])
                shares.setdefault(number, []).append((start, end, end == stop))
                start = end
        for number, here in shares.items():
            yield self._readers[number], self._starts[number], here


def _check_alike(first: Reader, other: Reader, argument: str) -> None:
    if len(other.shape) != 2:
        raise ValueError(
            f"{argument}, as a list of files, must have rows x features in each; "
            f"{_file_of(other)} has shape {other.shape}."
        )
    if other.shape[1:] != first.shape[1:] or other.dtype != first.dtype:
        raise ValueError(
            f"{argument}: all files must have the same number of features and one dtype; "
            f"{_file_of(first)} has {_kind(first)}, {_file_of(other)} has {_kind(other)}. Convert "
            f"them alike first."
        )


def _file_of(reader: Reader) -> str:
    return reader.where(0).removeprefix("row 0 of ")


def _kind(reader: Reader) -> str:
    return f"{str(reader.dtype).removeprefix('torch.')} of shape {reader.shape}"
