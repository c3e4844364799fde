"""A lock for a file, which says what process has it."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tellmost.running.writing import HOST

PATIENCE = 10.0
"""Seconds that a process waits for another one. Writing a file takes a small part of this."""

PAUSE = 0.02
"""Seconds between two tries."""


@contextmanager
def locked(path: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Only one process at a time is in here for a path.

    The lock is a file beside the path, which the system lets go when its process ends, however it
    ends. Where the system has no such locks, such as on Windows, nothing is locked.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    whole = Path(os.path.realpath(path))
    beside = whole.with_name(f".{whole.name}.lock")
    with beside.open("a+") as file:
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise _say_who(path, beside) from None
                time.sleep(PAUSE)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {HOST}")
        file.flush()
        yield


def _say_who(path: Path, beside: Path) -> BlockingIOError:
    who = beside.read_text() or "another process"
    return BlockingIOError(
        f"{str(path)!r} is being written by {who}. Nothing was written: try again, or end that "
        f"process."
    )
