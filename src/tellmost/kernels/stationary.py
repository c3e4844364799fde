r"""Kernels of a distance: Gaussian, Laplace, Matérn, and the constant.

With :math:`r = \|(x - z)/\ell\|_2` and :math:`r_1 = \|(x - z)/\ell\|_1`,

.. math::
    k_{\text{Gaussian}} = e^{-r^2/2}, \qquad k_{\text{Laplace}} = e^{-r_1}, \qquad
    k_{\text{Matérn}} = e^{-\sqrt{2\nu} r} \frac{p!}{(2p)!}
        \sum_{i=0}^{p} \frac{(p+i)!}{i!\,(p-i)!} (2\sqrt{2\nu} r)^{p-i}, \quad \nu = p + 1/2.

Rasmussen and Williams 2006, eq. 4.16; the Laplace kernel takes the L1 norm, as in the paper's
experiments, so it equals Matérn with nu = 1/2 only in one dimension.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial, sqrt

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Kernel, Points
from tellmost.shapes import Float

Lengthscale = float | Sequence[float] | np.ndarray | Tensor


def ones(kernel: Kernel, x: Points) -> Float[Tensor, " _n"]:
    """The diagonal of a kernel of variance 1."""
    return torch.ones(len(x), dtype=x.dtype, device=x.device)


@dataclass(frozen=True, eq=False)
class Gaussian(Kernel):
    """The squared-exponential kernel: very smooth functions."""

    lengthscale: Lengthscale = 1.0

    def __post_init__(self) -> None:
        checked_lengthscale(self.lengthscale)

    def block(self, x: Points, z: Points) -> Float[Tensor, "_n _m"]:
        return distance(x, z, self.lengthscale, p=2).square_().mul_(-0.5).exp_()

    diagonal = ones


def gaussian_for(rows: Float[Tensor, "s d"], scales: Float[Tensor, " d"]) -> Gaussian:
    """The kernel for columns of these scales; a sample of rows has median distance 1 then."""
    distances = torch.pdist(rows / scales)
    median = float(distances[distances > 0].median()) if bool((distances > 0).any()) else 1.0
    return Gaussian((median * scales).tolist())


@dataclass(frozen=True, eq=False)
class Laplace(Kernel):
    """The exponential of the L1 distance: rough functions."""

    lengthscale: Lengthscale = 1.0

    def __post_init__(self) -> None:
        checked_lengthscale(self.lengthscale)

    def block(self, x: Points, z: Points) -> Float[Tensor, "_n _m"]:
        return distance(x, z, self.lengthscale, p=1).neg_().exp_()

    diagonal = ones


@dataclass(frozen=True, eq=False)
class Matern(Kernel):
    """Functions that are p times differentiable, for nu = p + 1/2."""

    nu: float
    lengthscale: Lengthscale = 1.0

    def __post_init__(self) -> None:
        checked_lengthscale(self.lengthscale)
        if not (self.nu > 0 and float(self.nu - 0.5).is_integer()):
            raise ValueError(
                f"Matern(nu) must be half-integer (0.5, 1.5, 2.5, ...); got {self.nu}."
            )

    def block(self, x: Points, z: Points) -> Float[Tensor, "_n _m"]:
        p = int(self.nu - 0.5)
        doubled = distance(x, z, self.lengthscale, p=2).mul_(2 * sqrt(2 * self.nu))
        polynomial = torch.ones_like(doubled)
        for i in range(1, p + 1):  # Horner's rule, from the highest power down
            coefficient = factorial(p + i) / (factorial(i) * factorial(p - i))
            polynomial.mul_(doubled).add_(coefficient)
        scale = factorial(p) / factorial(2 * p)
        return polynomial.mul_(scale).mul_((-0.5 * doubled).exp_())

    diagonal = ones


@dataclass(frozen=True, eq=False)
class Constant(Kernel):
    """Functions that are the same everywhere, k = 1: in a sum, a constant that is not known."""

    def block(self, x: Points, z: Points) -> Float[Tensor, "_n _m"]:
        return torch.ones(len(x), len(z), dtype=x.dtype, device=x.device)

    diagonal = ones


def distance(x: Tensor, z: Tensor, lengthscale: Lengthscale, p: int) -> Float[Tensor, "_n _m"]:
    """Distances of all pairs, from differences: the inner-product form loses close pairs.

    The caller may change them in place. Gradients are 0 where points coincide.
    """
    scale = torch.as_tensor(lengthscale, dtype=x.dtype, device=x.device)
    if scale.ndim == 1 and len(scale) != x.shape[1]:
        raise ValueError(
            f"lengthscale must be a number or one per dimension; got {len(scale)} for "
            f"{x.shape[1]} dimensions."
        )
    r = torch.cdist(x / scale, z / scale, p=p, compute_mode="donot_use_mm_for_euclid_dist")
    return r.clone() if r.requires_grad else r  # cdist needs its own result for the gradient


def checked_lengthscale(lengthscale: Lengthscale) -> None:
    scale = torch.as_tensor(lengthscale, dtype=torch.float64)
    if scale.ndim > 1 or not bool((scale > 0).all()) or not bool(torch.isfinite(scale).all()):
        raise ValueError(f"lengthscale must be positive, a number or a vector; got {lengthscale}.")
