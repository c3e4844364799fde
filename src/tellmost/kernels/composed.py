"""Kernels made of kernels."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from tellmost.kernels.kernel import FeatureKernel, Kernel, Points
from tellmost.kernels.linear import feature_form, matrix_size
from tellmost.shapes import Float


@dataclass(frozen=True)
class Scaled:
    """factor * k(x, z); the factor is a variance. Scaling a linear kernel leaves it linear."""

    kernel: Kernel
    factor: float

    def __post_init__(self) -> None:
        check_parts(self, self.kernel)
        if not 0 < self.factor < float("inf"):
            raise ValueError(f"Scaled(factor) must be a positive number; got {self.factor}.")

    @property
    def matrix_size(self) -> int | None:
        return matrix_size(self.kernel)

    @property
    def feature_form(self) -> tuple[FeatureKernel, float] | None:
        form = feature_form(self.kernel)
        return None if form is None else (form[0], form[1] * self.factor)

    def block(self, x: Points, z: Points) -> Float[Tensor, "_n _m"]:
        return self.kernel.block(x, z) * self.factor

    def column(self, x: Points, z: Points) -> Float[Tensor, " _n"]:
        return self.kernel.column(x, z) * self.factor

    def diagonal(self, x: Points) -> Float[Tensor, " _n"]:
        return self.kernel.diagonal(x) * self.factor


@dataclass(frozen=True)
class Pair(ABC):
    """Two kernels whose values are joined one by one."""

    first: Kernel
    second: Kernel

    def __post_init__(self) -> None:
        check_parts(self, self.first, self.second)

    @abstractmethod
    def _join(self, first: Tensor, second: Tensor) -> Tensor: ...

    @property
    def matrix_size(self) -> int | None:
        return matrix_size(self.first)

    def block(self, x: Points, z: Points) -> Float[Tensor, "_n _m"]:
        return self._join(self.first.block(x, z), self.second.block(x, z))

    def column(self, x: Points, z: Points) -> Float[Tensor, " _n"]:
        return self._join(self.first.column(x, z), self.second.column(x, z))

    def diagonal(self, x: Points) -> Float[Tensor, " _n"]:
        return self._join(self.first.diagonal(x), self.second.diagonal(x))


@dataclass(frozen=True)
class Sum(Pair):
    """first(x, z) + second(x, z): the sum of two independent functions."""

    def _join(self, first: Tensor, second: Tensor) -> Tensor:
        return first + second


@dataclass(frozen=True)
class Product(Pair):
    """first(x, z) * second(x, z)."""

    def _join(self, first: Tensor, second: Tensor) -> Tensor:
        return first * second


def check_parts(whole: object, first: Kernel, *others: Kernel) -> None:
    for part in (first, *others):
        if isinstance(part, type) or not isinstance(part, Kernel):
            raise TypeError(
                f"{type(whole).__name__} must be made of kernels with block, column and diagonal; "
                f"got {part!r}. A gpytorch kernel is wrapped by "
                f"tellmost.integrations.gpytorch.GPyTorchKernel."
            )
        if matrix_size(part) != matrix_size(first):
            raise ValueError(
                f"{type(whole).__name__} of {first!r} and {part!r}: both must take features, or "
                f"both row numbers of matrices of the same size."
            )
