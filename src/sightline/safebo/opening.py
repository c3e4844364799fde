"""Which points may be asked for at all, whatever the models say."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sightline.kernels.kernel import Points
from sightline.numerics import STEP_ROUNDING
from sightline.safebo.trials import Trial
from sightline.shapes import Bool, Float

Seed = tuple[int | None, Tensor]
"""The row of a finite domain, and the point."""


@dataclass(frozen=True)
class Seeds:
    """Points that are safe by declaration, until a violation is told of them."""

    declared: tuple[Seed, ...]

    def standing(self, trials: Sequence[Trial]) -> list[int]:
        """Numbers of the seeds that are still taken for safe."""
        return [i for i in range(len(self.declared)) if not self._has(i, trials, {"violated"})]

    def untold(self, trials: Sequence[Trial]) -> list[int]:
        """Numbers of the standing seeds that were not tried yet, in vain or not."""
        tried = {"safe", "marginal", "violated", "failed"}
        return [i for i in self.standing(trials) if not self._has(i, trials, tried)]

    def working(self, trials: Sequence[Trial]) -> list[int]:
        """Numbers of the standing seeds whose last trial, if there was one, did not fail."""
        last = {
            number: trial.status
            for trial in trials
            for number, (_, seed) in enumerate(self.declared)
            if is_at(trial, seed)
        }
        return [i for i in self.standing(trials) if last.get(i) != "failed"]

    @property
    def points(self) -> list[Float[Tensor, " d"]]:
        return [point for _, point in self.declared]

    @property
    def rows(self) -> list[int]:
        return [row for row, _ in self.declared if row is not None]

    def _has(self, number: int, trials: Sequence[Trial], statuses: set[str]) -> bool:
        """Whether a trial with one of these outcomes was made there."""
        seed = self.declared[number][1]
        return any(trial.status in statuses and is_at(trial, seed) for trial in trials)


def is_at(trial: Trial, point: Float[Tensor, " d"]) -> bool:
    """Whether a trial set this point, whatever its context."""
    return bool((trial.x[: len(point)] == point.numpy()).all())


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
