"""Which points may be asked for at all, whatever the models say."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.numerics import STEP_ROUNDING
from tellmost.safebo.trials import Trial
from tellmost.shapes import Bool, Float

Seed = tuple[int | None, Tensor]
"""The row of a finite domain, and the point."""

TRIED = {"safe", "marginal", "violated", "failed"}


@dataclass(frozen=True)
class Seeds:
    """Points that are safe by declaration, until a violation is told of them."""

    declared: tuple[Seed, ...]

    def standing(self, trials: Sequence[Trial]) -> list[int]:
        """Numbers of the seeds that are still taken for safe."""
        violated = self._where(trials, {"violated"})
        return [i for i, place in enumerate(self._places) if place not in violated]

    def untold(self, trials: Sequence[Trial]) -> list[int]:
        """Numbers of the standing seeds that were not tried yet, in vain or not."""
        standing = self.standing(trials)
        tried = self._where(trials, TRIED) if standing else set()
        return [i for i in standing if self._places[i] not in tried]

    def working(self, trials: Sequence[Trial]) -> list[int]:
        """Numbers of the standing seeds whose last trial, if there was one, did not fail."""
        standing = self.standing(trials)
        last = {self._place_of(trial): trial.status for trial in trials} if standing else {}
        return [i for i in standing if last.get(self._places[i]) != "failed"]

    @property
    def points(self) -> list[Float[Tensor, " d"]]:
        return [point for _, point in self.declared]

    @property
    def rows(self) -> list[int]:
        return [row for row, _ in self.declared if row is not None]

    @cached_property
    def _places(self) -> list[tuple[float, ...]]:
        return [tuple(seed.tolist()) for seed in self.points]

    def _where(self, trials: Sequence[Trial], statuses: set[str]) -> set[tuple[float, ...]]:
        """What was set by the trials with one of these outcomes."""
        return {self._place_of(trial) for trial in trials if trial.status in statuses}

    def _place_of(self, trial: Trial) -> tuple[float, ...]:
        """What a trial set, whatever its context."""
        return tuple(trial.x[: self._dimension].tolist())

    @cached_property
    def _dimension(self) -> int:
        return len(self.declared[0][1]) if self.declared else 0


def within_step(
    points: Points, last: Float[Tensor, " d"] | None, max_step: Float[Tensor, " d"] | None
) -> Bool[Tensor, " n"]:
    """What is at most a step away from the last point; everything, where there is no limit."""
    if max_step is None or last is None:
        return torch.ones(len(points), dtype=torch.bool)
    apart = (points[:, : len(last)] - last).abs()
    return (apart <= max_step * (1 + STEP_ROUNDING)).all(dim=1)


def without_failed(
    points: Points, is_near: Bool[Tensor, " n"], trials: Sequence[Trial], dimension: int
) -> Bool[Tensor, " n"]:
    """Points that failed since a value was told last are passed over, if others are left."""
    left = is_near.clone()
    for trial in reversed(trials):
        if trial.status != "failed":
            break
        x = torch.from_numpy(trial.x[:dimension])
        left &= ~(points[:, :dimension] == x).all(dim=1)
    return left if bool(left.any()) else is_near
