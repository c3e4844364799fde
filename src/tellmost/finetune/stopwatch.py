"""Where the seconds of a round go."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Stopwatch:
    """Seconds per activity. An activity within another counts for itself alone."""

    def __init__(self, device: torch.device | None = None) -> None:
        """``device``: one whose work is waited for, if it is a GPU."""
        self._device = device
        self.seconds: dict[str, float] = {}
        self._within = [0.0]  # seconds of inner activities, for each that is under way

    @contextmanager
    def measure(self, activity: str) -> Iterator[None]:
        started = now(self._device)
        self._within.append(0.0)
        try:
            yield
        finally:
            elapsed = now(self._device) - started
            own = elapsed - self._within.pop()
            self._within[-1] += elapsed
            self.seconds[activity] = self.seconds.get(activity, 0.0) + own


def now(device: torch.device | None) -> float:
    """Seconds, once a GPU has done what it was asked for."""
    if device is not None and device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
