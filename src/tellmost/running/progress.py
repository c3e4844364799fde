"""Progress on stderr: on terminals and in notebooks after a second, in logs every half minute."""

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

QUIET_SECONDS = 1.0  # what is over by then shows nothing
SLOW_SECONDS = 30.0  # between the lines of a log, where none can be rewritten
BAR = 24  # characters
LEAST_COLUMNS = 72  # narrower terminals get no bar


class ProgressLine:
    """One line on stderr, rewritten at most ten times a second and cleared at the end.

    In a notebook it is a bar of tqdm, where that is installed. In a log it is a new line every
    half minute.
    """

    def __init__(
        self,
        progress: bool | None,
        what: str = "picks",
        done_before: int | None = None,
        started: float | None = None,
    ) -> None:
        """``done_before`` is what took no time here. None: all but the first that is reported."""
        self._is_on = progress is not False
        self._in_place = progress is True or sys.stderr.isatty()
        self._bar = notebook_bar(what) if self._is_on else None
        is_fast = self._in_place or self._bar is not None
        self._pause = 0.1 if is_fast else SLOW_SECONDS
        quiet = QUIET_SECONDS if is_fast else SLOW_SECONDS
        self._what = what
        self._started = time.monotonic() if started is None else started
        self._next = self._started + (0.0 if progress is True else quiet)
        self._width = 0
        self._resumed = done_before

    def __enter__(self) -> "ProgressLine":
        return self

    def __call__(self, done: int, most: int | None, gain: float | None = None) -> None:
        now = time.monotonic()
        self._resumed = done - 1 if self._resumed is None else self._resumed
        if not self._is_on or now < self._next:
            return
        self._next = now + self._pause
        if self._bar is not None:
            self._bar.total, self._bar.n = most, done
            self._bar.refresh()
            return
        worth = "" if gain is None else f", gain {gain:.3g}"
        text = f"tellmost: {done:,} {self._what}{worth}"
        if most is not None:
            left = (now - self._started) / max(done - self._resumed, 1) * (most - done)
            full = BAR * min(done, most) // max(most, 1)
            is_wide = shutil.get_terminal_size().columns >= LEAST_COLUMNS
            bar = f"[{'#' * full}{'-' * (BAR - full)}] " if is_wide and self._in_place else ""
            text = f"tellmost: {bar}{done:,} of {most:,} {self._what}{worth}, {left:.0f} s left"
        self._width = show_line(text, self._width, in_place=self._in_place)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
        clear_line(self._width)


def notebook_bar(what: str) -> Any:
    """A bar of tqdm, in a notebook that has it; else None."""
    if "ipykernel" not in sys.modules:
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(desc=f"tellmost: {what}", delay=QUIET_SECONDS, leave=False)


def show_line(text: str, width: int, *, in_place: bool) -> int:
    """Write a line, over the one before where it can be. Return how much to clear later."""
    if not in_place:
        print(text, file=sys.stderr, flush=True)
        return 0
    width = max(width, len(text))
    print(f"\r{text:<{width}}", end="", file=sys.stderr, flush=True)
    return width


def clear_line(width: int) -> None:
    if width:
        print(f"\r{'':<{width}}\r", end="", file=sys.stderr, flush=True)


@contextmanager
def working(progress: bool | None, what: str) -> Iterator[None]:
    """Show the seconds that went by on stderr, for work that cannot be counted."""
    if progress is False:
        yield
        return
    is_over, started = Event(), time.monotonic()
    in_place = progress is True or sys.stderr.isatty()

    def tell() -> None:
        width = 0
        while not is_over.wait(QUIET_SECONDS if in_place else SLOW_SECONDS):
            text = f"tellmost: {what}, {time.monotonic() - started:.0f} s"
            width = show_line(text, width, in_place=in_place)
        clear_line(width)

    teller = Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        is_over.set()
        teller.join()
