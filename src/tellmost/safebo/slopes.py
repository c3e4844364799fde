"""What Lipschitz constants say: from known margins to other points, as SafeOpt and GoOSE do.

Lipschitz constants for methods that need them: of known values, or of draws of a prior.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.learner.arguments import check_seed
from tellmost.numerics import CHUNK_BYTES
from tellmost.posterior.gp import GP, root_of_covariance
from tellmost.rows.checks import check_rows, check_vector, check_whole
from tellmost.rows.sources import read_array, spans
from tellmost.safebo.bounds import Sets
from tellmost.safebo.constraints import Lipschitz
from tellmost.safebo.stages import Model, Stage, Track
from tellmost.shapes import Bool, Float


@dataclass(frozen=True)
class Slopes:
    r"""The Lipschitz constants of all limits: z reaches x if one z keeps every limit at x.

    .. math:: m_i(z) - L_i \|x - z\| \ge 0 \quad \forall i

    where m are margins at z, pessimistic or optimistic.
    """

    each: tuple[Lipschitz, ...]

    @classmethod
    def of(cls, model: Model) -> "Slopes":
        return cls(tuple(slope for _, slope in model.slopes))

    def reached(
        self, where: Points, margins: Float[Tensor, "s z"], points: Points
    ) -> Bool[Tensor, " n"]:
        """Which points some z reaches."""
        found = torch.zeros(len(points), dtype=torch.bool)
        for _, _, reaches in self._blocks(where, margins, points):
            found |= reaches.any(dim=0)
        return found

    def reaching(
        self, where: Points, margins: Float[Tensor, "s z"], points: Points
    ) -> Bool[Tensor, " z"]:
        """Which z reach some point."""
        found = torch.zeros(len(where), dtype=torch.bool)
        for start, stop, reaches in self._blocks(where, margins, points):
            found[start:stop] = reaches.any(dim=1)
        return found

    def _blocks(
        self, where: Points, margins: Float[Tensor, "s z"], points: Points
    ) -> Iterator[tuple[int, int, Bool[Tensor, "b n"]]]:
        for start, stop in spans(len(where), max(CHUNK_BYTES // (8 * max(len(points), 1)), 1)):
            reaches = torch.ones(stop - start, len(points), dtype=torch.bool)
            for margin, slope in zip(margins[:, start:stop], self.each, strict=True):
                apart = slope.distances(where[start:stop], points)
                reaches &= margin[:, None] - slope.constant * apart >= 0
            yield start, stop, reaches


def grow(stage: Stage, before: Track | None) -> Track:
    r"""SafeOpt's safe set: what the safe points of the round before reach by their lower bounds.

    .. math:: S_n = \bigcup_{x \in S_{n-1}} \{x' : l_{n,i}(x) - L_i \|x - x'\| \ge 0 \;\forall i\}

    Hübotter et al. 2024, App. "Detailed Comparison with Prior Works". S_0 is what the prior and
    its data prove, and the seeds may be grown from as well. Where bounds are not intersected, a
    point that was safe once counts again as soon as its bounds say so. A stage that is made anew
    each round knows no earlier set: what was measured stands for it.
    """
    slopes, points = Slopes.of(stage.model), stage.points
    worst = stage.sets.worst
    is_start = before is None and stage.origin.is_first
    proven = stage.sets.is_safe & stage.is_candidate
    sources = _start(stage, proven) if before is None else before.sources | before.sets.is_safe
    if not is_start:
        proven = slopes.reached(points[sources], worst[:, sources], points) & stage.is_candidate
    raised = [
        slope.raise_lower(margin, points, points[sources], margin[sources])
        for slope, margin in zip(slopes.each, worst, strict=True)
    ]
    margins = torch.stack(raised) if raised else worst
    return Track(Sets(margins, stage.sets.best, proven), sources)


def _start(stage: Stage, proven: Bool[Tensor, " n"]) -> Bool[Tensor, " n"]:
    measured = sorted({row for view in stage.views for row in view.seen_rows})
    if stage.origin.is_first or not measured:
        sources = proven.clone()
    else:
        sources = torch.zeros_like(proven)
        sources[measured] = True
    sources[list(stage.origin.seeds)] = True
    return sources


def steepest_slope(points: Any, values: Any, *, norm: int = 2) -> Lipschitz:
    r"""The least constant that holds for a function on a finite set of points.

    .. math:: L = \max_{x \ne z} |f(x) - f(z)| / \|x - z\|

    Points at the same place count once; between the points the function may be steeper.
    """
    where = _read_points(points)
    f = check_vector(values, "values", len(where), "point")
    return Lipschitz(_steepest(where, f[None], norm), norm)


def estimate_lipschitz(
    gp: GP, points: Any, *, draws: int = 1, seed: int = 0, norm: int = 2
) -> Lipschitz:
    """The steepest slope of functions drawn from a prior at some points.

    What Hübotter et al. 2024 give SafeOpt where the constant is not known. A draw is no bound: the
    unknown function can be steeper.
    """
    where = _read_points(points)
    K = gp.kernel.block(where, where)
    root = root_of_covariance(K, gp.kernel.diagonal(where))
    generator = torch.Generator().manual_seed(check_seed(seed))
    size = root.shape[1], check_whole(draws, "draws")
    f = (root @ torch.randn(size, generator=generator, dtype=torch.float64)).T
    return Lipschitz(_steepest(where, f + gp.mean_of(where), norm), norm)


def _read_points(points: Any) -> Points:
    where = read_array(np.asarray(points, dtype=np.float64), "points")
    where = where[:, None] if where.ndim == 1 else where
    check_rows(where, "points")
    return where


def _steepest(points: Points, values: torch.Tensor, norm: int) -> float:
    steepest = 0.0
    for start, stop in spans(len(points), max(CHUNK_BYTES // (8 * len(points)), 1)):
        apart = Lipschitz(1.0, norm).distances(points[start:stop], points)
        for f in values:
            slope = (f[start:stop, None] - f).abs() / apart
            steepest = max(steepest, float(slope.where(apart > 0, 0.0).max()))
    return steepest
