"""Files that are written whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Another path in the same folder to write to, which becomes ``path`` at the end.

    After any error, also Ctrl-C, nothing is left of it, and what was at ``path`` is still there.
    A link stays a link: the file that it points to is written.
    """
    whole = path.resolve()
    unfinished = whole.with_name(f"{whole.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        unfinished.touch(exist_ok=False)
        yield unfinished
        unfinished.replace(whole)
    except OSError as error:
        is_other = error.filename is not None and str(error.filename) != str(unfinished)
        if error.strerror is None or is_other:
            raise  # it is about a file that is read meanwhile
        raise type(error)(f"{str(path)!r} cannot be written: {error.strerror}.") from error
    finally:
        unfinished.unlink(missing_ok=True)


def check_writable(path: Path, argument: str) -> None:
    """Refuse a path that cannot be written, before long work is done for it."""
    if path.is_dir():
        raise IsADirectoryError(f"{argument}: {str(path)!r} is a folder. Name a file in it.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{argument}: there is no folder {str(path.parent)!r}. Make it.")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"{argument}: the folder {str(path.parent)!r} cannot be written to.")
