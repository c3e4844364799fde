"""Files in object stores and on the web, opened by fsspec, and copies of their rows on this disk.

The rows of a shard are copied to a local file when they are first read, in their own dtype, so
that a shard is fetched and decoded once. Further passes read the copy, and so does the next run.
Copies take a share of the disk at most. Shards beyond it are read from their store in every pass,
since to put out one that the next pass needs would gain nothing. ``TELLMOST_CACHE`` names the
folder of the copies, and ``TELLMOST_CACHE_SIZE`` how much they may take, such as 200GB, or 0.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from torch import Tensor

from tellmost.rows.files import File, FlatFile, Readable
from tellmost.rows.sources import Reader, Span, spans
from tellmost.rows.streamed import bytes_per_row
from tellmost.running.memory import check_memory
from tellmost.running.reading import reason_of
from tellmost.running.writing import cache_folder, written_whole

COPY_BYTES = 2**23
"""So much of a shard is read and written at once while it is copied."""

COPIED_AHEAD = 3
"""While a shard is worked on, so many that come next are fetched: one connection is slow."""

MOST_OPENED = 32
"""So many files of a store are looked at at the same time."""

DISK_SHARE = 0.25
"""Copies take at most this share of what is free on their disk, with what they have already."""

NEARBY = ("memory", "file", "local")
"""Nothing is gained by a copy of what these file systems hold."""

MARKS = ("ETag", "etag", "blob_id", "md5Hash", "LastModified", "mtime", "updated", "created")
"""One of these entries changes when a file does. Stores have others of them."""


@dataclass(frozen=True)
class RemoteFile:
    """A file of a store, the argument it came in, and its state when it was opened first."""

    store: Any
    path: str
    argument: str
    size: int
    mark: str

    @classmethod
    def at(cls, store: Any, path: str, argument: str) -> "RemoteFile":
        with about_store(store, path, argument):
            about = store.info(path)
        if about.get("size") is None:
            raise ValueError(
                f"{argument}: the server does not say how large {name_of(path)} is, so it cannot "
                f"be read in parts. Download it, and pass the local file."
            )
        if about["size"] == 0:
            raise ValueError(f"{argument}: {name_of(path)} is empty.")
        return cls(store, path, argument, about["size"], mark_of(about))

    @property
    def is_near(self) -> bool:
        protocol = self.store.protocol
        names = (protocol,) if isinstance(protocol, str) else protocol
        return not set(NEARBY).isdisjoint(names)

    @property
    def name(self) -> str:
        return name_of(self.path)

    @property
    def place(self) -> str:
        return str(self.store.unstrip_protocol(self.path))

    @property
    def suffix(self) -> str:
        return Path(self.name).suffix

    @property
    def label(self) -> str:
        return f"{self.argument}: {self.name}"

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Check that the file is the same as before. There is no descriptor."""
        now = RemoteFile.at(self.store, self.path, self.argument)
        if (now.size, now.mark) != (self.size, self.mark):
            raise OSError(
                f"{self.label} changed while it was read. A selection reads its files many times; "
                f"leave them as they are until it is done."
            )
        yield -1

    def stream(self) -> Any:
        """The file, to be read in parts; what reads it has a buffer of its own."""
        with about_store(self.store, self.path, self.argument):
            return self.store.open(self.path, "rb", cache_type="none")

    def read_into(self, descriptor: int, memory: memoryview, offset: int, what: str) -> None:
        """Fill the memory from the file; ``what`` is being read, for the error message."""
        with about_store(self.store, self.path, self.argument):
            data = self.store.cat_file(self.path, start=offset, end=offset + len(memory))
        if len(data) != len(memory):
            raise OSError(
                f"{self.label}: the server gave {len(data):,} bytes in place of {len(memory):,} "
                f"while {what} was read. Download the file, and pass the local one."
            )
        memory[:] = data


def name_of(path: str) -> str:
    """The last part of a path, without a query, which may hold a secret."""
    return urlsplit(path).path.rstrip("/").rpartition("/")[2]


def mark_of(about: dict[str, Any]) -> str:
    found = [str(about[name]) for name in MARKS if about.get(name) is not None]
    return found[0].strip('"') if found else ""


@contextmanager
def about_store(store: Any, path: str, argument: str) -> Iterator[None]:
    """Let errors of a store name the argument and the file. Stores raise errors of many kinds."""
    try:
        yield
    except FileNotFoundError as error:
        came = f"{path.split('?')[0]!r} that may be read"
        raise FileNotFoundError(f"{argument}: there is no file {came}.") from error
    except Exception as error:
        kind = type(error) if isinstance(error, PermissionError) else OSError
        raise kind(
            f"{argument}: {path.split('?')[0]!r} cannot be read: {type(error).__name__}: "
            f"{reason_of(error)}. Credentials, regions and endpoints are those that fsspec finds."
        ) from error


def find_remote(
    url: str, argument: str, rows_in: Callable[[Sequence[str]], Sequence[str]]
) -> list[RemoteFile]:
    """The files that a URL means: itself, those with rows that it matches or its folder has."""
    store, path = open_store(url, argument)
    can_list = not url.startswith(("http://", "https://"))
    is_pattern = can_list and has_magic(path)
    with about_store(store, path, argument):
        is_folder = can_list and not is_pattern and store.isdir(path)
        paths = store.glob(path) if is_pattern else store.find(path) if is_folder else None
    if paths is None:
        return [RemoteFile.at(store, path, argument)]
    paths = rows_in(sorted(paths))
    with ThreadPoolExecutor(MOST_OPENED) as threads:
        return list(threads.map(lambda path: RemoteFile.at(store, path, argument), paths))


def has_magic(text: str) -> bool:
    """Say whether a path is a pattern."""
    return not set("*?[").isdisjoint(text)


def open_store(url: str, argument: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    try:
        import fsspec

        return fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise ImportError(
            f"{argument}: to read {url.split('?')[0]} takes fsspec and its part for this store; "
            f"pip install 'tellmost[remote]'. {reason_of(error)}."
        ) from error
    except ValueError as error:
        raise ValueError(f"{argument}: {url.split('?')[0]!r}: {reason_of(error)}.") from error


# ---- copies


class Copies:
    """Local files with the rows of shards, in a folder that takes at most ``limit`` bytes."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit = folder, limit
        self._promised: dict[Path, int] = {}  # to the shards that this process reads
        self._started = time.time()

    @classmethod
    def of_this_machine(cls) -> "Copies":
        folder = cache_folder()
        given = os.environ.get("TELLMOST_CACHE_SIZE")
        if given == "0":
            return cls(folder, 0)
        folder.mkdir(parents=True, exist_ok=True)
        if given:
            return cls(folder, check_memory(given) or 0)
        copies = cls(folder, 0)
        free = shutil.disk_usage(folder).free + sum(size for _, size, _ in copies.files())
        copies.limit = int(DISK_SHARE * free)
        return copies

    def promise(self, key: str, size: int) -> Path | None:
        """Where the copy of a shard is, or goes; None if all the room is promised to others."""
        path = self.folder / key
        if path not in self._promised:
            if sum(self._promised.values()) + size > self.limit:
                return None
            self._promised[path] = size
        return path

    def make_room(self, path: Path) -> bool:
        """Remove what is not needed here and was not used lately, until there is room."""
        files = sorted(self.files())
        total = sum(size for _, size, _ in files) + self._promised[path]
        for used, size, old in files:
            if total > self.limit and used < self._started and old not in self._promised:
                old.unlink(missing_ok=True)
                total -= size
        return total <= self.limit

    def files(self) -> Iterator[tuple[float, int, Path]]:
        """When each copy was last used, its size and its path."""
        for path in self.folder.glob("*.rows"):
            with suppress(FileNotFoundError):
                status = path.stat()
                yield status.st_mtime, status.st_size, path


copies = cache(Copies.of_this_machine)


class CopiedShard:
    """A shard of a store whose rows are read from a local copy, made when they are needed."""

    jumps = True

    def __init__(self, reader: Reader, path: Path, argument: str) -> None:
        self.shape, self.dtype, self.device = reader.shape, reader.dtype, reader.device
        self.where, self.ids = reader.where, reader.ids
        self.next: Sequence[CopiedShard] = ()
        self._reader, self._path, self._argument = reader, path, argument
        self._bytes = self.shape[0] * bytes_per_row(reader)
        self._copying: Future[bool] | None = None
        self._read = 0

    @property
    def rows_read(self) -> int:
        return self._read + self._reader.rows_read

    def pieces(self, wanted: Sequence[Span]) -> Iterator[Tensor]:
        for shard in (self, *self.next):
            shard.fetch()
        assert self._copying is not None
        copying, self._copying = self._copying, None  # the next pass looks again
        if not copying.result():
            yield from self._reader.pieces(wanted)
            return
        with suppress(FileNotFoundError):
            os.utime(self._path)
        file = File.at(self._path, self._argument)
        local = FlatFile(file, 0, self.shape, self.dtype.itemsize, self._decode)
        self._read += sum(stop - start for start, stop in wanted)
        yield from local.pieces(wanted)

    def fetch(self) -> None:
        """Begin to make the copy, unless that has begun."""
        if self._copying is None:
            self._copying = fetchers().submit(self._copy)

    def _decode(self, memory: Tensor, shape: tuple[int, ...]) -> Tensor:
        return memory.view(self.dtype).view(shape)

    def _copy(self) -> bool:
        """Make the copy if it is not there; say whether it is."""
        with suppress(FileNotFoundError):
            if self._path.stat().st_size == self._bytes:
                return True
        if not copies().make_room(self._path):
            return False
        step = max(COPY_BYTES // bytes_per_row(self._reader), 1)
        with written_whole(self._path) as unfinished, unfinished.open("wb") as file:
            for rows in self._reader.pieces(list(spans(self.shape[0], step))):
                file.write(rows.contiguous().view(torch.uint8).numpy().data)
        return True


@cache
def fetchers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1 + COPIED_AHEAD, "tellmost-fetch")


def open_shards(
    files: Sequence[Readable], name: object, open_one: Callable[[Readable], Reader]
) -> list[Reader]:
    """Readers of files, those of stores by way of copies, as far as there is room for them.

    Many are opened at the same time, since a store takes long to answer.
    """
    with ThreadPoolExecutor(MOST_OPENED, "tellmost-open") as threads:
        readers = list(threads.map(open_one, files))
    pairs = zip(readers, files, strict=True)
    found = [with_copy(reader, file, name) for reader, file in pairs]
    copied = [reader for reader in found if isinstance(reader, CopiedShard)]
    for number, shard in enumerate(copied):
        shard.next = copied[number + 1 : number + 1 + COPIED_AHEAD]
    return found


def with_copy(reader: Reader, file: Readable, name: object) -> Reader:
    """The same rows by way of a copy, if the file is far away and there is room."""
    if not isinstance(file, RemoteFile) or file.is_near:
        return reader
    about = repr((file.place, file.mark, file.size, name))
    key = hashlib.blake2b(about.encode(), digest_size=16).hexdigest()
    path = copies().promise(f"{key}.rows", reader.shape[0] * bytes_per_row(reader))
    return reader if path is None else CopiedShard(reader, path, file.argument)
