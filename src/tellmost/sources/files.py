"""A file that is being read: opened, checked that it is still the same, read in pieces."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


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
