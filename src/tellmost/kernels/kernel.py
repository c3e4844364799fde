"""What a kernel is."""

from typing import Protocol, runtime_checkable

from torch import Tensor

from tellmost.shapes import Float, Int

Points = Float[Tensor, "_ _d"] | Int[Tensor, " _"]
"""Rows of features, or (for a precomputed kernel) numbers of rows of its matrix."""


@runtime_checkable
class Kernel(Protocol):
    """A prior covariance k(x, z) between function values.

    Inputs are float64; the caller cuts large inputs into blocks of rows.
    """

    def block(self, x: Points, z: Points) -> Float[Tensor, "_n _m"]:
        """k(x_i, z_j) for all pairs."""

    def column(self, x: Points, z: Points) -> Float[Tensor, " _n"]:
        """k(x_i, z) for one point z, given as a single row."""

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
