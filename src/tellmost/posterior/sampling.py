r"""A root of a covariance, from which functions are drawn.

Where rounding allows, the Cholesky factor. Covariances of smooth functions have few directions
of any size; for those the factor with pivots (Harbrecht et al. 2012), which ends where no
variance is left that could be told from rounding:

.. math:: K \approx R R^\top, \qquad 0 \le K_{ii} - (R R^\top)_{ii} \le \epsilon\, k(x_i, x_i).
"""

import torch
from torch import Tensor

from tellmost.numerics import SAMPLED_VARIANCE
from tellmost.shapes import Float, Int


def root_of_covariance(
    covariance: Float[Tensor, "n n"], prior_variance: Float[Tensor, " n"]
) -> Float[Tensor, "n r"]:
    """R with R R' = covariance, up to SAMPLED_VARIANCE of the prior variances."""
    factor, failed = torch.linalg.cholesky_ex(covariance)
    if not bool(failed):
        return factor
    return pivoted_root(covariance, SAMPLED_VARIANCE * prior_variance)


def pivoted_root(
    covariance: Float[Tensor, "n n"], enough: Float[Tensor, " n"]
) -> Float[Tensor, "n r"]:
    """Columns of the Cholesky factor, the largest variance first, until all are small enough."""
    left = covariance.diagonal().clone()
    columns = torch.empty_like(covariance)  # a row each: they are read from one to the next
    for r in range(len(covariance)):
        pivot = int(torch.where(left > enough, left, 0.0).argmax())
        if not bool(left[pivot] > enough[pivot]):
            return columns[:r].T
        column = covariance[pivot] - columns[:r, pivot] @ columns[:r]
        columns[r] = column / column[pivot].sqrt()
        left -= columns[r].square()
    return columns.T


def first_occurrences(
    points: Float[Tensor, "n d"],
) -> tuple[Int[Tensor, " u"], Int[Tensor, " n"]]:
    """The rows that have a point first, in their order, and for every row which of these it is.

    A point that is there twice makes a covariance singular.
    """
    _, kind = torch.unique(points, dim=0, return_inverse=True)
    first = torch.full((int(kind.max()) + 1,), len(kind), device=kind.device)
    first.scatter_reduce_(0, kind, torch.arange(len(kind), device=kind.device), "amin")
    order = first.argsort()
    return first[order], order.argsort()[kind]
