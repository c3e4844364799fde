"""Lipschitz constants for methods that need them: of known values, or of draws of a prior."""

from typing import Any

import numpy as np
import torch

from tellmost.kernels.kernel import Points
from tellmost.learner.arguments import check_seed
from tellmost.numerics import CHUNK_BYTES
from tellmost.posterior.gp import GP, root_of_covariance
from tellmost.rows.opening import check_rows, check_vector, check_whole, read_array
from tellmost.rows.sources import spans
from tellmost.safebo.constraints import Lipschitz


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
