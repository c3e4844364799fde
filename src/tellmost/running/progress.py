"""Progress on stderr: shown on a terminal, or when asked for."""

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

QUIET_SECONDS = 1.0  # what is over by then shows nothing
BAR = 24  # characters
LEAST_COLUMNS = 72  # narrower terminals get no bar


class ProgressLine:
    """One line on stderr, rewritten at most ten times a second and cleared at the end."""

    def __init__(
        self, progress: bool | None, what: str = "picks", done_before: int | None = None
    ) -> None:
        """``done_before`` is what took no time here. None: all but the first that is reported."""
        self._is_on = sys.stderr.isatty() if progress is None else progress
        self._quiet = QUIET_SECONDS if progress is None else 0.0
        self._what = what
        self._started = time.monotonic()
        self._last = 0.0
        self._width = 0
        self._resumed = done_before

    def __enter__(self) -> "ProgressLine":
        return self

    def __call__(self, done: int, most: int | None, gain: float | None = None) -> None:
        now = time.monotonic()
        self._resumed = done - 1 if self._resumed is None else self._resumed
        if not self._is_on or now - self._started < self._quiet or now - self._last < 0.1:
            return
        self._last = now
        worth = "" if gain is None else f", gain {gain:.3g}"
        text = f"tellmost: {done:,} {self._what}{worth}"
        if most is not None:
            left = (now - self._started) / max(done - self._resumed, 1) * (most - done)
            full = BAR * min(done, most) // max(most, 1)
            is_wide = shutil.get_terminal_size().columns >= LEAST_COLUMNS
            bar = f"[{'#' * full}{'-' * (BAR - full)}] " if is_wide else ""
            text = f"tellmost: {bar}{done:,} of {most:,} {self._what}{worth}, {left:.0f} s left"
        self._width = max(self._width, len(text))
        print(f"\r{text:<{self._width}}", end="", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._width:
            print(f"\r{'':<{self._width}}\r", end="", file=sys.stderr, flush=True)


@contextmanager
def working(progress: bool | None, what: str) -> Iterator[None]:
    """Show the seconds that went by on stderr, for work that cannot be counted."""
    is_on = sys.stderr.isatty() if progress is None else progress
    if not is_on:
        yield
        return
    is_over, started = Event(), time.monotonic()

    def tell() -> None:
        width = 0
        while not is_over.wait(QUIET_SECONDS):
            text = f"tellmost: {what}, {time.monotonic() - started:.0f} s"
            width = max(width, len(text))
            print(f"\r{text:<{width}}", end="", file=sys.stderr, flush=True)
        if width:
            print(f"\r{'':<{width}}\r", end="", file=sys.stderr, flush=True)

    teller = Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        is_over.set()
        teller.join()
