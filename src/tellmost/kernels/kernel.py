"""A Kernel is a prior covariance; ``are_same`` compares two of them."""

from dataclasses import fields, is_dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from tellmost.shapes import Float, Int

Points = Float[Tensor, "_ _d"] | Int[Tensor, " _"]
"""Rows of features, or (for a precomputed kernel) numbers of rows of its matrix."""


@runtime_checkable
class Kernel(Protocol):
    """A prior covariance k(x, z) between function values.

    Inputs are float64; the caller cuts large inputs into blocks of rows. Several threads may call
    it at the same time.
    """

    def block(self, x: Points, z: Points) -> Float[Tensor, "_n _m"]:
        """k(x_i, z_j) for all pairs."""

    def column(self, x: Points, z: Points) -> Float[Tensor, " _n"]:
        """k(x_i, z) for one point z, given as a single row.

        A kernel that is a subclass and has no faster way to it takes it from ``block``.
        """
        return self.block(x, z.reshape(1, -1))[:, 0]

    def diagonal(self, x: Points) -> Float[Tensor, " _n"]:
        """k(x_i, x_i): the prior variances."""


@runtime_checkable
class FeatureKernel(Kernel, Protocol):
    """A kernel that is an inner product: k(x, z) = phi(x)' C phi(z).

    Its posterior lives in weight space, with O(d^2) state whatever the pool's size.
    """

    def features(self, x: Float[Tensor, "n _"]) -> Float[Tensor, "n d"]:
        """phi(x), a row per point."""

    def weight_covariance(self, dimension: int) -> Float[Tensor, "d d"] | None:
        """C, the prior covariance of the weights; None for the identity."""
        return None


def are_same(first: Any, second: Any) -> bool:
    """True: two kernels agree, field by field. False: they do not, or nothing tells."""
    if first is second:
        return True
    if type(first) is not type(second):
        return False
    if isinstance(first, Tensor | np.ndarray):
        return torch.equal(torch.as_tensor(first), torch.as_tensor(second))
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(are_same, first, second))
    if is_dataclass(first):
        names = [field.name for field in fields(first)]
        return all(are_same(getattr(first, name), getattr(second, name)) for name in names)
    return isinstance(first, float | int | str) and bool(first == second)
