r"""Kernels that are inner products of features, and a kernel that is given by its matrix.

.. math:: k(x, z) = \phi(x)^\top \Sigma\, \phi(z)

Hübotter et al. 2024, Sec. 4: phi is the embedding of a network, with latent covariance Sigma.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tellmost.kernels.kernel import FeatureKernel, Kernel, Points
from tellmost.numerics import RANK_TOLERANCE
from tellmost.shapes import Float

CHECKED_MATRIX = 1_000
"""Precomputed matrices up to this size are checked for negative eigenvalues. Larger ones are not,
because the check costs the cube of the size."""

MATRIX_ROUNDING = 10.0  # a least eigenvalue may be so far below 0, in size x precision x largest


@dataclass(frozen=True, eq=False)
class Linear:
    """The inner product of the given features, optionally with a latent covariance."""

    covariance: Float[Tensor, "d d"] | None = None

    def __post_init__(self) -> None:
        if self.covariance is not None:
            object.__setattr__(self, "covariance", checked_covariance(self.covariance))

    def block(self, x: Points, z: Points) -> Float[Tensor, "_n _m"]:
        return (self._weighted(z) @ x.T).T  # z has fewer rows: half the time of the plain order

    def column(self, x: Points, z: Points) -> Float[Tensor, " _n"]:
        return x @ self._weighted(z.reshape(1, -1))[0]

    def diagonal(self, x: Points) -> Float[Tensor, " _n"]:
        if self.covariance is None:
            return torch.linalg.vector_norm(x, dim=1).square()  # half the time of the sum below
        return (self._weighted(x) * x).sum(dim=1)

    def features(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return x

    def weight_covariance(self, dimension: int) -> Float[Tensor, "d d"] | None:
        if self.covariance is not None and len(self.covariance) != dimension:
            raise ValueError(
                f"Linear(covariance) must be (d, d) for d features; got "
                f"{tuple(self.covariance.shape)} for {dimension} features."
            )
        return self.covariance

    def _weighted(self, x: Tensor) -> Tensor:
        C = self.weight_covariance(x.shape[1])
        return x if C is None else x @ C.to(x)

    def __repr__(self) -> str:
        return "Linear()" if self.covariance is None else f"Linear({len(self.covariance)}-d)"


@dataclass(frozen=True)
class FeatureMap(FeatureKernel):
    """The inner product of ``fn(x)``, for a function from (n, d) rows to (n, D) rows.

    The pool's features are computed once and kept, so they must fit into memory. If x asks for
    a gradient it gets one through ``fn``; the parameters of a network behind ``fn`` never do.
    Several threads call ``fn`` at the same time, so it must not keep anything between calls.
    """

    fn: Callable[[Tensor], Tensor]

    def block(self, x: Points, z: Points) -> Float[Tensor, "_n _m"]:
        return self.features(x) @ self.features(z).T

    def diagonal(self, x: Points) -> Float[Tensor, " _n"]:
        return self.features(x).square().sum(dim=1)

    def features(self, x: Float[Tensor, "n _"]) -> Float[Tensor, "n d"]:
        if x.requires_grad and torch.is_grad_enabled():
            return FeaturesOfPoints.apply(x, self.fn)  # type: ignore[no-untyped-call]
        return checked_features(self.fn, x).detach().to(x)


class FeaturesOfPoints(torch.autograd.Function):
    """``fn(x)`` with a gradient for x alone.

    A graph through ``fn`` itself would end in the parameters of the caller's network as well, and
    a backward pass would change their ``grad``. This one is walked back to x and no further.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, fn: Callable[[Tensor], Tensor]) -> Tensor:
        with torch.enable_grad():
            ctx.points = x.detach().requires_grad_()
            ctx.features = checked_features(fn, ctx.points)
        return ctx.features.detach().to(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        phi, back = ctx.features, None
        if phi.requires_grad:
            (back,) = torch.autograd.grad(
                phi, ctx.points, gradient.to(phi), retain_graph=True, allow_unused=True
            )
        if back is None:
            raise ValueError(
                "FeatureMap(fn): fn must be differentiable where a gain is refined, but its "
                "features do not depend on the points for autograd. Does fn call detach() or "
                "numpy(), or run under torch.no_grad()? Compute the features in torch throughout."
            )
        return back, None


def checked_features(fn: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """fn(x), a row per point, or an error that says what came instead."""
    phi = fn(x)
    if not isinstance(phi, Tensor) or phi.ndim != 2 or len(phi) != len(x):
        came = tuple(phi.shape) if isinstance(phi, Tensor) else type(phi).__name__
        raise ValueError(
            f"FeatureMap(fn): fn must turn (n, d) rows into a tensor of (n, D) rows; "
            f"got {came} for {tuple(x.shape)}."
        )
    return phi


def checked_covariance(covariance: Tensor) -> Tensor:
    """A symmetric positive semi-definite float64 matrix, or an error that says what is wrong."""
    C = torch.as_tensor(covariance, dtype=torch.float64)
    if C.ndim != 2 or C.shape[0] != C.shape[1]:
        raise ValueError(f"Linear(covariance) must be a square matrix; got {tuple(C.shape)}.")
    if not torch.isfinite(C).all() or not torch.allclose(C, C.T):
        raise ValueError("Linear(covariance) must be finite and symmetric.")
    least, largest = torch.linalg.eigvalsh(C)[[0, -1]].tolist()
    if least < -RANK_TOLERANCE * max(largest, 0.0) or largest < 0:
        raise ValueError(
            f"Linear(covariance) must be positive semi-definite; its least eigenvalue is "
            f"{least:.3g}, its largest {largest:.3g}."
        )
    return C


@dataclass(frozen=True, eq=False)
class Precomputed:
    """k(i, j) = matrix[i, j]; points, pool and targets are numbers of rows of the matrix."""

    matrix: Float[Tensor, "N N"] | np.ndarray

    def __post_init__(self) -> None:
        is_array = isinstance(self.matrix, Tensor | np.ndarray)
        K = torch.as_tensor(self.matrix if is_array else np.asarray(self.matrix))
        if K.ndim != 2 or K.shape[0] != K.shape[1]:
            raise ValueError(f"Precomputed(matrix) must be square; got {tuple(K.shape)}.")
        if not K.is_floating_point() or not bool(torch.isfinite(K).all()):
            raise ValueError("Precomputed(matrix) must hold finite floating-point numbers.")
        if not torch.allclose(K, K.T) or bool((K.diagonal() < 0).any()):
            raise ValueError(
                "Precomputed(matrix) must be symmetric with a non-negative diagonal, as every "
                "covariance is."
            )
        if len(K) <= CHECKED_MATRIX:
            values = torch.linalg.eigvalsh(K.to(torch.float64))
            rounding = len(K) * torch.finfo(K.dtype).eps * float(values[-1])
            if float(values[0]) < -MATRIX_ROUNDING * rounding:
                raise ValueError(
                    f"Precomputed(matrix) must be positive semi-definite, as every covariance is; "
                    f"its least eigenvalue is {float(values[0]):.3g}."
                )
        object.__setattr__(self, "matrix", K)

    @property
    def matrix_size(self) -> int:
        return len(self.matrix)

    def block(self, x: Points, z: Points) -> Float[Tensor, "_n _m"]:
        return self.matrix[x[:, None], z[None, :]].to(torch.float64)

    def column(self, x: Points, z: Points) -> Float[Tensor, " _n"]:
        return self.matrix[x, z.reshape(())].to(torch.float64)

    def diagonal(self, x: Points) -> Float[Tensor, " _n"]:
        return self.matrix[x, x].to(torch.float64)

    def __repr__(self) -> str:
        return f"Precomputed({len(self.matrix)} x {len(self.matrix)})"


def check_kernel(kernel: Any) -> Kernel:
    """The kernel that the caller means: None is "linear", and gpytorch's are adapted."""
    if kernel is None or (isinstance(kernel, str) and kernel == "linear"):
        return Linear()
    if isinstance(kernel, type):
        raise TypeError(
            f"kernel must be an instance, such as {kernel.__name__}(...); got the class itself."
        )
    if isinstance(kernel, Kernel):
        return kernel
    if type(kernel).__module__.startswith("gpytorch") or hasattr(kernel, "covar_dist"):
        from tellmost.integrations.gpytorch import GPyTorchKernel

        return GPyTorchKernel(kernel)
    raise TypeError(
        f"kernel must come from tm.kernels, be a gpytorch kernel, or have the methods block, "
        f"column and diagonal, or be 'linear'; got "
        f"{repr(kernel) if isinstance(kernel, str) else type(kernel).__name__}. "
        f"A kernel with a lengthscale is an object, such as tm.kernels.Gaussian(0.5)."
    )


def feature_form(kernel: Kernel) -> tuple[FeatureKernel, float] | None:
    """The inner product behind a kernel and the factor before it; None if there is none."""
    if isinstance(kernel, FeatureKernel):
        return kernel, 1.0
    return getattr(kernel, "feature_form", None)


def matrix_size(kernel: Kernel) -> int | None:
    """Count the rows of the matrix behind a kernel. The count is None if points are features."""
    return getattr(kernel, "matrix_size", None)
