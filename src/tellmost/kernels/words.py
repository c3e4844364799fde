"""Kernels in words, with their hyper-parameters."""

from typing import Protocol, runtime_checkable

import torch

from tellmost.kernels.algebra import Product, Scaled, Sum
from tellmost.kernels.kernel import Kernel
from tellmost.kernels.linear import Linear
from tellmost.kernels.stationary import Gaussian, Laplace, Lengthscale, Matern
from tellmost.numerics import PRINTED_VALUES


@runtime_checkable
class HasHyperparameters(Protocol):
    """A kernel from elsewhere that can say what its hyper-parameters are."""

    def hyperparameters(self) -> dict[str, list[float]]:
        """Values by name."""


def describe(kernel: Kernel) -> str:
    """Such as "Matern-5/2 with lengthscale 0.3 times 2.1"; four digits of every number."""
    if isinstance(kernel, Gaussian | Laplace):
        return f"{type(kernel).__name__} {describe_lengthscale(kernel.lengthscale)}"
    if isinstance(kernel, Matern):
        return f"Matern-{round(2 * kernel.nu)}/2 {describe_lengthscale(kernel.lengthscale)}"
    if isinstance(kernel, Scaled):
        return f"{_enclosed(kernel.kernel)} times {kernel.factor:.4g}"
    if isinstance(kernel, Sum):
        return f"{describe(kernel.first)} + {describe(kernel.second)}"
    if isinstance(kernel, Product):
        return f"{_enclosed(kernel.first)} x {_enclosed(kernel.second)}"
    if isinstance(kernel, Linear) and kernel.covariance is None:
        return "linear"
    if not isinstance(kernel, HasHyperparameters):
        return repr(kernel)
    values = (_shorten(name, held) for name, held in kernel.hyperparameters().items())
    return f"{kernel!r} with {'; '.join(values) or 'no hyper-parameters'}"


def write(kernel: Kernel) -> str:
    """As it is printed, and the hyper-parameters that it holds but does not print."""
    if not isinstance(kernel, HasHyperparameters):
        return repr(kernel)
    values = (
        f"{name} {', '.join(map(repr, held))}" for name, held in kernel.hyperparameters().items()
    )
    return f"{kernel!r} with {'; '.join(values) or 'no hyper-parameters'}"


def describe_lengthscale(lengthscale: Lengthscale) -> str:
    values = torch.as_tensor(lengthscale, dtype=torch.float64)
    if values.ndim == 0:
        return f"with lengthscale {float(values):.4g}"
    return f"with lengthscales {', '.join(f'{value:.4g}' for value in values.tolist())}"


def _shorten(name: str, values: list[float]) -> str:
    if len(values) > PRINTED_VALUES:
        return f"{name} of {len(values)} values"
    return f"{name} {', '.join(f'{value:.4g}' for value in values)}"


def _enclosed(kernel: Kernel) -> str:
    text = describe(kernel)
    return f"({text})" if isinstance(kernel, Sum | Product) else text
