"""How long each part of some work takes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Stopwatch:
    """Counts the seconds of each activity. An inner activity does not count for the outer one."""

    def __init__(self, device: torch.device | None = None) -> None:
        """``device``: if it is a GPU, its work is waited for."""
        self._device = device
        self.seconds: dict[str, float] = {}
        self._within = [0.0]  # seconds of inner activities, for each that is under way

    @contextmanager
    def measure(self, activity: str) -> Iterator[None]:
        started = self._now()
        self._within.append(0.0)
        try:
            yield
        finally:
            elapsed = self._now() - started
            own = elapsed - self._within.pop()
            self._within[-1] += elapsed
            self.seconds[activity] = self.seconds.get(activity, 0.0) + own

    def _now(self) -> float:
        if self._device is not None and self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()
