r"""Bounds of every output at all points of a round, and the sets that follow from them.

.. math::
    S_n = \{x : l_{n,i}(x) \ge 0 \;\forall i\}, \qquad
    \hat S_n = \{x : u_{n,i}(x) \ge 0 \;\forall i\},

where l and u bound the margin of each limit. Hübotter et al. 2024, Sec. 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.safebo.constraints import Lipschitz, Side
from tellmost.safebo.trials import MiscalibratedModel
from tellmost.shapes import Bool, Float

EMPTY_INTERVAL = 1e-9
"""Prior standard deviations by which a lower bound may exceed an upper one: rounding."""


@dataclass(frozen=True)
class Bounds:
    """Lower and upper bound of f / scale, a row per output."""

    lower: Float[Tensor, "o n"]
    upper: Float[Tensor, "o n"]

    @classmethod
    def around(
        cls, mean: Float[Tensor, "o n"], std: Float[Tensor, "o n"], betas: Sequence[float]
    ) -> "Bounds":
        width = torch.tensor(betas, dtype=torch.float64)[:, None] * std
        return cls(mean - width, mean + width)

    def intersect(self, other: "Bounds") -> "Bounds":
        return Bounds(
            torch.maximum(self.lower, other.lower), torch.minimum(self.upper, other.upper)
        )

    def check(
        self, names: Sequence[tuple[str, ...]], points: Points, *, has_slopes: bool = False
    ) -> None:
        """An interval that is empty says that the model is wrong."""
        gap = self.lower - self.upper
        if not bool((gap > EMPTY_INTERVAL).any()):
            return
        output, row = divmod(int(gap.argmax()), gap.shape[1])
        where, size = points[row].tolist(), float(gap[output, row])
        raise MiscalibratedModel(names[output][0], where, size, has_slopes=has_slopes)

    def extended(
        self, slopes: Sequence[tuple[Side, Lipschitz]], points: Points, sources: "Sources"
    ) -> "Bounds":
        """Tightened by the Lipschitz constants that are known, from the points that are safe."""
        lower, upper = self.lower.clone(), self.upper.clone()
        for side, slope in slopes:
            o, where = side.output, sources.points
            if side.is_lower:
                lower[o] = slope.raise_lower(lower[o], points, where, sources.lower[o])
            else:
                upper[o] = -slope.raise_lower(-upper[o], points, where, -sources.upper[o])
        return Bounds(lower, upper)


@dataclass(frozen=True)
class Sources:
    """Points that are safe for sure, and the bounds there: Lipschitz constants reach on."""

    points: Points
    lower: Float[Tensor, "o z"]
    upper: Float[Tensor, "o z"]

    @classmethod
    def of(cls, points: Points, bounds: Bounds, is_safe: Bool[Tensor, " n"]) -> "Sources":
        return cls(points[is_safe], bounds.lower[:, is_safe], bounds.upper[:, is_safe])


@dataclass(frozen=True)
class Sets:
    """Which points are safe for sure, and which may be."""

    worst: Float[Tensor, "s n"]  # margin of each side, at worst
    best: Float[Tensor, "s n"]  # at best
    proven: Bool[Tensor, " n"] | None = None  # S_n, where margins alone do not make it

    @classmethod
    def of(cls, bounds: Bounds, sides: Sequence[Side]) -> "Sets":
        n = bounds.lower.shape[1]
        worst, best = bounds.lower.new_empty(len(sides), n), bounds.lower.new_empty(len(sides), n)
        for i, side in enumerate(sides):
            o = side.output
            worst[i], best[i] = side.margins(bounds.lower[o], bounds.upper[o])
        return cls(worst, best)

    def at(self, rows: slice) -> "Sets":
        """Of some points alone."""
        proven = None if self.proven is None else self.proven[rows]
        return Sets(self.worst[:, rows], self.best[:, rows], proven)

    @property
    def is_safe(self) -> Bool[Tensor, " n"]:
        """The pessimistic safe set S_n; everything, where there are no limits."""
        return (self.worst >= 0).all(dim=0) if self.proven is None else self.proven

    @property
    def may_be_safe(self) -> Bool[Tensor, " n"]:
        """The optimistic safe set."""
        return (self.best >= 0).all(dim=0)


def probability_safe(
    mean: Float[Tensor, "o n"], std: Float[Tensor, "o n"], sides: Sequence[Side]
) -> Float[Tensor, " n"]:
    """Under the model: outputs are independent, and within one the limits are exact."""
    safe = torch.ones_like(mean[0])
    for output in {side.output for side in sides}:
        below, above = torch.zeros_like(safe), torch.ones_like(safe)
        for side in (side for side in sides if side.output == output):
            z = (side.limit - mean[output]) / std[output]
            z = z.nan_to_num(nan=0.0)  # a value that is known to be the limit itself
            share = torch.special.ndtr(z)
            if side.is_lower:
                below = torch.maximum(below, share)
            else:
                above = torch.minimum(above, share)
        safe = safe * (above - below).clamp(min=0.0)
    return safe
