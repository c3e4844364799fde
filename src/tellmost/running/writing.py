"""Files that are written whole or not at all, also if the power fails.

A file is first written beside its place, under a name that says which process of which machine
writes it: ``picks.csv.HOST-PID-KEY.part``. A process that was killed leaves it there. The next
one that writes into the folder removes what processes of this machine left that are gone. A lock
lets one process at a time write a file that several have.
"""

import errno
import os
import re
import secrets
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

HOST = re.sub(r"[^A-Za-z0-9.]", "_", socket.gethostname())[:64]
LEFTOVER = re.compile(rf".+\.{re.escape(HOST)}-(\d{{1,9}})-[0-9a-f]{{8}}\.part", re.DOTALL)

PATIENCE = 10.0  # seconds to wait for another process; writing takes a small part of this
PAUSE = 0.02  # seconds between two tries

LOCKED_BYTE = 2**30
"""Windows lets nobody read what is locked, so this is far behind the end of the file."""


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Another path in the same folder to write to, which becomes ``path`` at the end.

    After any error, also Ctrl-C, nothing is left of it, and what was at ``path`` is still there.
    A link stays a link: the file that it points to is written.
    """
    whole = Path(os.path.realpath(path))
    key = f"{HOST}-{os.getpid()}-{secrets.token_hex(4)}"
    unfinished = whole.with_name(f"{whole.name}.{key}.part")
    try:
        if leads_in_a_circle(path):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        unfinished.touch(exist_ok=False)
        remove_leftovers(whole.parent)
        yield unfinished
        with unfinished.open("r+b") as file:
            os.fsync(file.fileno())  # wait until the file is on the disk
        unfinished.replace(whole)
        sync_folder(whole.parent)
    except OSError as error:
        is_other = error.filename is not None and str(error.filename) != str(unfinished)
        if error.strerror is None or is_other:
            raise  # it is about a file that is read meanwhile
        raise type(error)(f"{str(path)!r} cannot be written: {error.strerror}.") from error
    finally:
        unfinished.unlink(missing_ok=True)


def check_writable(path: Path, argument: str) -> None:
    """Refuse a path that cannot be written, before long work is done for it."""
    check_no_circle(path, argument)
    folder = Path(os.path.realpath(path)).parent
    if path.is_dir():
        raise IsADirectoryError(f"{argument}: {str(path)!r} is a folder. Name a file in it.")
    if not folder.is_dir():
        raise FileNotFoundError(f"{argument}: there is no folder {str(folder)!r}. Make it.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{argument}: the folder {str(folder)!r} cannot be written to.")


def check_no_circle(path: Path, argument: str) -> None:
    if leads_in_a_circle(path):
        raise OSError(f"{argument}: {str(path)!r} is a link in a circle of links. Name a file.")


def leads_in_a_circle(path: Path) -> bool:
    """Say whether the path is a link that leads back to itself, so that it names no file."""
    return os.path.islink(os.path.realpath(path))


def remove_leftovers(folder: Path) -> None:
    """Remove unfinished files of processes of this machine that are gone."""
    for name in os.listdir(folder) if os.access(folder, os.R_OK) else ():
        found = LEFTOVER.fullmatch(name)
        if found is not None and is_gone(int(found[1])):
            with suppress(OSError):  # another process was faster, or it is another user's
                (folder / name).unlink()


def is_gone(process: int) -> bool:
    """Say whether no process has this number. Only POSIX can ask without disturbing it."""
    if os.name != "posix":
        return False
    try:
        os.kill(process, 0)
    except OSError as error:
        return error.errno == errno.ESRCH  # else it is another user's
    return False


def sync_folder(folder: Path) -> None:
    """Wait until the names in the folder are on the disk, where the system can do that."""
    if os.name != "posix" or not os.access(folder, os.R_OK):
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network disks sync no folder
            raise
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Only one process at a time is in here for a path.

    The lock is a file beside the path, which the system lets go when its process ends, however it
    ends.
    """
    whole = Path(os.path.realpath(path))
    beside = whole.with_name(f".{whole.name}.lock")
    with beside.open("a+") as file:
        deadline = time.monotonic() + patience
        while True:
            try:
                _take_lock(file)
                break
            except (BlockingIOError, PermissionError):
                if time.monotonic() >= deadline:
                    who = beside.read_text() or "another process"
                    raise BlockingIOError(
                        f"{str(path)!r} is being written by {who}. Nothing was written: try "
                        f"again, or end that process."
                    ) from None
                time.sleep(PAUSE)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {HOST}")
        file.flush()
        yield


def _take_lock(file: IO[str]) -> None:
    """Lock an open file, or raise an error if another process has locked it."""
    if sys.platform == "win32":
        import msvcrt

        file.seek(LOCKED_BYTE)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def cache_folder() -> Path:
    """Where copies of far shards and vectors of texts are kept. It need not be there yet."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tellmost"
    return Path(os.environ.get("TELLMOST_CACHE") or default)
