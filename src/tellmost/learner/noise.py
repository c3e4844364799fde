"""The observation noise: one number, one per pool row, or a function of the point."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.numerics import NOISE_STEP
from tellmost.rows.opening import check_all_positive, check_positive, check_vector
from tellmost.shapes import Float
from tellmost.targets.box import Box

NoiseLike = float | np.ndarray | Tensor | Callable[[np.ndarray], Any]


@dataclass(frozen=True)
class Noise:
    """The variance of an observation of f, over the pool and elsewhere."""

    of_rows: Float[Tensor, " n"]
    scalar: float | None  # None: it differs between points
    function: Callable[[np.ndarray], Any] | None = None

    @classmethod
    def of(cls, noise_std: NoiseLike, pool: Points) -> "Noise":
        """From standard deviations, checked."""
        if callable(noise_std):
            return cls(_asked(noise_std, pool), None, noise_std)
        if np.ndim(noise_std) == 0:
            variance = check_positive(noise_std, "noise_std") ** 2
            value = torch.tensor(variance, dtype=torch.float64, device=pool.device)
            return cls(value.expand(len(pool)), variance)
        std = check_vector(noise_std, "noise_std", len(pool), "pool row").to(pool.device)
        check_all_positive(std, "noise_std")
        return cls(std.square(), None)

    def at(self, points: Points) -> Float[Tensor, " b"]:
        """At points that are no rows of the pool."""
        if self.function is not None:
            return _asked(self.function, points)
        if self.scalar is None:
            raise ValueError(
                "noise_std was given per pool row, so the noise of a point outside the pool is "
                "not known. Say it, tell(points, y, noise_std=...), or give the learner a "
                "function of (n, d) points as noise_std."
            )
        return torch.full((len(points),), self.scalar, dtype=torch.float64, device=points.device)

    def near(self, points: Points, box: Box) -> Float[Tensor, " b"]:
        """At points of a box, with a gradient: by differences, as the function is the caller's."""
        here = points.detach()
        values = self.at(here)
        if self.function is None:
            return values
        slopes = torch.stack([self._slope(here, box, axis) for axis in range(box.dimension)], 1)
        return values + ((points - here) * slopes).sum(dim=1)

    def _slope(self, points: Points, box: Box, axis: int) -> Float[Tensor, " b"]:
        """Along one axis, by a difference that stays in the box."""
        step = torch.zeros_like(points)
        step[:, axis] = NOISE_STEP * box.width()[axis]
        ahead, behind = box.clip(points + step), box.clip(points - step)
        return (self.at(ahead) - self.at(behind)) / (ahead - behind)[:, axis]


def _asked(function: Callable[[np.ndarray], Any], points: Points) -> Float[Tensor, " b"]:
    values = function(points.detach().cpu().numpy())
    std = check_vector(values, "noise_std(points)", len(points), "point").to(points.device)
    check_all_positive(std, "noise_std(points)")
    return std.square()
