"""Kernels of GPyTorch as kernels of Tellmost, and the other way round (extra ``bo``)."""

from copy import deepcopy
from functools import reduce
from threading import RLock
from typing import Any

import torch
from gpytorch.constraints import Positive
from gpytorch.kernels import (
    AdditiveKernel,
    LinearKernel,
    MaternKernel,
    ProductKernel,
    RBFKernel,
    ScaleKernel,
)
from gpytorch.kernels import Kernel as Theirs
from torch import Tensor

from tellmost.kernels import Gaussian, Kernel, Laplace, Linear, Matern, Product, Scaled, Sum
from tellmost.kernels.kernel import Points
from tellmost.kernels.stationary import Lengthscale
from tellmost.shapes import Float

_EVALUATING = RLock()  # a kernel of gpytorch may be made of kernels that are such adapters


class GPyTorchKernel(Kernel):
    """A gpytorch kernel with the methods of a Tellmost kernel.

    It works on a float64 copy, so the caller's kernel is not changed. Gradients flow to the points
    and never to the hyper-parameters. One thread at a time evaluates it, because gpytorch changes
    its settings, and the kernel's ``active_dims``, while it evaluates a kernel.
    """

    def __init__(self, kernel: Any) -> None:
        if tuple(kernel.batch_shape):
            raise ValueError(
                f"a batch of gpytorch kernels is not one kernel; got batch_shape "
                f"{tuple(kernel.batch_shape)}."
            )
        self._kernel = deepcopy(kernel).double().eval().requires_grad_(False)

    def block(self, x: Points, z: Points) -> Float[Tensor, "_n _m"]:
        with _EVALUATING:
            return self._kernel.to(x.device)(x, z).to_dense()

    def diagonal(self, x: Points) -> Float[Tensor, " _n"]:
        with _EVALUATING:
            return self._kernel.to(x.device)(x, diag=True)

    def hyperparameters(self) -> dict[str, list[float]]:
        return hyperparameters_of(self._kernel)

    def __repr__(self) -> str:
        return f"GPyTorchKernel({type(self._kernel).__name__})"


def hyperparameters_of(module: Any) -> dict[str, list[float]]:
    """The values of a gpytorch module by their names there, such as base_kernel.lengthscale."""
    found = {}
    for name, raw, constraint in module.named_parameters_and_constraints():
        value = raw if constraint is None else constraint.transform(raw)
        found[name.replace("raw_", "")] = value.detach().double().reshape(-1).tolist()
    return found


class Logarithmic(Positive):  # type: ignore[misc]
    """A positive parameter, whose logarithm is searched for."""

    def __init__(self) -> None:
        super().__init__(transform=torch.exp, inv_transform=torch.log)


class L1Kernel(Theirs):  # type: ignore[misc]
    """The Laplace kernel, exp of minus the L1 distance, which gpytorch does not have."""

    has_lengthscale = True

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        x1, x2 = x1 / self.lengthscale, x2 / self.lengthscale
        if diag:
            return (x1 - x2).abs().sum(dim=-1).neg().exp()
        return torch.cdist(x1, x2, p=1).neg().exp()


class FixedKernel(Theirs):  # type: ignore[misc]
    """A Tellmost kernel that has no hyper-parameters to fit."""

    def __init__(self, ours: Kernel) -> None:
        super().__init__()
        self.ours = ours

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        return self.ours.diagonal(x1) if diag else self.ours.block(x1, x2)


def to_gpytorch(kernel: Kernel) -> Theirs:
    """The same kernel in gpytorch and float64. A search starts from its hyper-parameters."""
    if isinstance(kernel, Gaussian | Laplace):
        kind = RBFKernel if isinstance(kernel, Gaussian) else L1Kernel
        return _with_lengthscale(kind, kernel.lengthscale)
    if isinstance(kernel, Matern):
        if kernel.nu not in (0.5, 1.5, 2.5):
            raise ValueError(
                f"GP.fit(kernel): Matern must have nu 0.5, 1.5 or 2.5 to be fitted, as in "
                f"gpytorch; got {kernel.nu}."
            )
        return _with_lengthscale(MaternKernel, kernel.lengthscale, nu=kernel.nu)
    if isinstance(kernel, Scaled):
        scaled = ScaleKernel(to_gpytorch(kernel.kernel), outputscale_constraint=Logarithmic())
        scaled.double().outputscale = torch.tensor(kernel.factor, dtype=torch.float64)
        return scaled
    if isinstance(kernel, Sum | Product):
        first, second = to_gpytorch(kernel.first), to_gpytorch(kernel.second)
        return first + second if isinstance(kernel, Sum) else first * second
    return FixedKernel(kernel)


def _with_lengthscale(kind: type, lengthscale: Lengthscale, **options: float) -> Theirs:
    values = torch.as_tensor(lengthscale, dtype=torch.float64).detach().clone()
    dimensions = len(values) if values.ndim else None
    kernel = kind(ard_num_dims=dimensions, lengthscale_constraint=Logarithmic(), **options)
    kernel.double().lengthscale = values
    return kernel


def from_gpytorch(kernel: Theirs, stretch: Float[Tensor, " d"] | None = None) -> Kernel | None:
    """The Tellmost kernel that is the same, or None if there is none.

    With ``stretch`` the kernel sees inputs that were divided by it, and perhaps shifted.
    """
    if kernel.active_dims is not None or tuple(kernel.batch_shape):
        return None
    if type(kernel) is RBFKernel:
        return Gaussian(_lengthscale_of(kernel, stretch))
    if type(kernel) is L1Kernel:
        return Laplace(_lengthscale_of(kernel, stretch))
    if type(kernel) is MaternKernel:
        return Matern(kernel.nu, _lengthscale_of(kernel, stretch))
    if type(kernel) is ScaleKernel:
        inner = from_gpytorch(kernel.base_kernel, stretch)
        return None if inner is None else Scaled(inner, float(kernel.outputscale.detach()))
    if type(kernel) in (AdditiveKernel, ProductKernel):
        parts = [from_gpytorch(part, stretch) for part in kernel.kernels]
        known = [part for part in parts if part is not None]
        together = Sum if type(kernel) is AdditiveKernel else Product
        return reduce(together, known) if len(known) == len(parts) else None
    if stretch is not None:
        return None
    if type(kernel) is LinearKernel:
        variances = kernel.variance.detach().double().reshape(-1)
        if len(variances) == 1:
            return Scaled(Linear(), float(variances))
        return Linear(torch.diag(variances))
    return kernel.ours if isinstance(kernel, FixedKernel) else None


def _lengthscale_of(kernel: Theirs, stretch: Tensor | None) -> float | tuple[float, ...]:
    values = kernel.lengthscale.detach().double().reshape(-1)
    if stretch is not None:
        values = values * stretch
    elif kernel.ard_num_dims is None:
        return float(values)
    return tuple(values.tolist())
