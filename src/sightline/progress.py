"""Progress on stderr: shown on a terminal, or when asked for."""

import sys
import time
from types import TracebackType

QUIET_SECONDS = 1.0  # a selection that is over by then shows nothing


class ProgressLine:
    """One line on stderr, rewritten at most ten times a second and cleared at the end."""

    def __init__(self, progress: bool | None) -> None:
        self._is_on = sys.stderr.isatty() if progress is None else progress
        self._quiet = QUIET_SECONDS if progress is None else 0.0
        self._started = time.monotonic()
        self._last = 0.0
        self._width = 0
        self._resumed: int | None = None  # picks before the first that took time here

    def __enter__(self) -> "ProgressLine":
        return self

    def __call__(self, picks: int, most: int | None, gain: float) -> None:
        now = time.monotonic()
        self._resumed = picks - 1 if self._resumed is None else self._resumed
        if not self._is_on or now - self._started < self._quiet or now - self._last < 0.1:
            return
        self._last = now
        text = f"sightline: {picks:,} picks, gain {gain:.3g}"
        if most is not None:
            left = (now - self._started) / (picks - self._resumed) * (most - picks)
            text = f"sightline: {picks:,} of {most:,} picks, gain {gain:.3g}, {left:.0f} s left"
        self._width = max(self._width, len(text))
        print(f"\r{text:<{self._width}}", end="", file=sys.stderr, flush=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._width:
            print(f"\r{'':<{self._width}}\r", end="", file=sys.stderr, flush=True)
