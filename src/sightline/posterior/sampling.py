r"""A root of a covariance, from which functions are drawn.

Where rounding allows, the Cholesky factor. Covariances of smooth functions have few directions
of any size; for those the factor with pivots (Harbrecht et al. 2012), which ends where no
variance is left that could be told from rounding:

.. math:: K \approx R R^\top, \qquad 0 \le K_{ii} - (R R^\top)_{ii} \le \epsilon\, k(x_i, x_i).
"""

import torch
from torch import Tensor

from sightline.numerics import SAMPLED_VARIANCE
from sightline.shapes import Float


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
    columns = covariance.new_empty(len(covariance), len(covariance))
    for r in range(len(covariance)):
        pivot = int(torch.where(left > enough, left, 0.0).argmax())
        if not bool(left[pivot] > enough[pivot]):
            return columns[:, :r]
        column = covariance[:, pivot] - columns[:, :r] @ columns[pivot, :r]
        columns[:, r] = column / column[pivot].sqrt()
        left -= columns[:, r].square()
    return columns
