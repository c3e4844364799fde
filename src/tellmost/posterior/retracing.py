r"""What each of a list of observations takes from the variance of each target.

With the Cholesky factor :math:`L L^\top = K_{ZZ} + \mathrm{diag}(\rho^2)` of the observed points
:math:`z_1, \dots, z_t`, in their order,

.. math:: k_s(a, a) = k(a, a) - \sum_{i \le s} W_{ia}^2, \qquad W = L^{-1} K_{ZA},

so the i-th observation, made after the others before it, lowers the variance of target a by
:math:`W_{ia}^2`. Costs :math:`O(t^2 (t + m))`, whatever the pool.
"""

import torch
from torch import Tensor

from tellmost.kernels import Kernel
from tellmost.kernels.kernel import Points
from tellmost.shapes import Float


def retrace(
    kernel: Kernel, points: Points, noise_variance: Float[Tensor, " t"], targets: Points
) -> Float[Tensor, "t m"]:
    """How much the variance of each target falls with each observation, in their order."""
    covariance = kernel.block(points, points)
    covariance.diagonal().add_(noise_variance)
    factor = torch.linalg.cholesky(covariance)
    cross = kernel.block(points, targets)
    return torch.linalg.solve_triangular(factor, cross, upper=False).square_()
