"""Products of numpy on one thread each, while batches are shared among threads of our own.

The threads of numpy's OpenBLAS would share every small product as well. They wait for one another,
and another number of them rounds differently. OpenBLAS has one setting for the whole process, so
it is 1 while any search runs, and then what it was.
"""

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
    "openblas_{}_num_threads",
)
"""How the setting is called in the libraries that come with numpy."""

_lock = threading.Lock()
_searches = [0, 0]  # how many run, and the setting before the first of them


@contextmanager
def single_products() -> Iterator[None]:
    """In here numpy's products have one thread. Without OpenBLAS nothing is changed."""
    setting = thread_setting()
    if setting is None:
        yield
        return
    get, put = setting
    with _lock:
        if _searches[0] == 0:
            _searches[1] = get()
            put(1)
        _searches[0] += 1
    try:
        yield
    finally:
        with _lock:
            _searches[0] -= 1
            if _searches[0] == 0:
                put(_searches[1])


@cache
def thread_setting() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """Functions that read and write the setting; None where numpy brings no OpenBLAS."""
    package = Path(np.__file__).parent
    folders = (package.parent / "numpy.libs", package / ".dylibs")
    for path in (path for folder in folders for path in folder.glob("*openblas*")):
        library = ctypes.CDLL(str(path))
        for name in NAMES:
            if hasattr(library, name.format("set")):
                return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None
