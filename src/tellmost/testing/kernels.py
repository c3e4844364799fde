"""The contract of a kernel."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor

from tellmost.kernels.linear import feature_form
from tellmost.numerics import RANK_TOLERANCE
from tellmost.testing.cases import fail, gap, require_methods

Promise = tuple[Tensor, Tensor, str, str]  # what came and must come, the contract, the harm


def check_kernel(kernel: object, points: Tensor) -> None:
    """Check that a kernel is a covariance and keeps the promises that posteriors rely on.

    ``points``: (n, d) float64 rows such as yours, at least 4 of them; numbers of rows of the
    matrix for a Precomputed kernel. Work grows with the cube of n.

    >>> from dataclasses import dataclass
    >>> import torch
    >>> from tellmost.kernels import Kernel
    >>> @dataclass(frozen=True)
    ... class Brownian(Kernel):
    ...     '''min(x, z), for one positive feature.'''
    ...     def block(self, x, z):
    ...         return torch.minimum(x, z.T)
    ...     def diagonal(self, x):
    ...         return x[:, 0].clone()
    >>> check_kernel(Brownian(), torch.rand(12, 1, dtype=torch.float64))
    """
    is_rows = points.ndim == 2 and points.dtype == torch.float64
    is_numbers = points.ndim == 1 and points.dtype == torch.int64
    if len(points) < 4 or not (is_rows or is_numbers):
        raise ValueError(
            f"points must be at least 4 float64 rows (n, d), or int64 row numbers (n,); got "
            f"{points.dtype} of shape {tuple(points.shape)}."
        )
    require_methods(kernel, ("block", "column", "diagonal"), "kernel")
    examined = ExaminedKernel(kernel)
    for promises in (promises_of_blocks, promises_of_parts):
        for actual, expected, contract, meaning in promises(examined, points):
            found = gap(actual, expected)
            if found is not None:
                examined.fail(contract, found, meaning)
    check_definiteness(examined, points)
    check_features(examined, points)


@dataclass(frozen=True)
class ExaminedKernel:
    """A kernel whose every answer is checked for shape, dtype and side effects."""

    kernel: Any

    def block(self, x: Tensor, z: Tensor) -> Tensor:
        return self._ask("block(x, z)", self.kernel.block, (len(x), len(z)), x, z)

    def column(self, x: Tensor, z: Tensor) -> Tensor:
        return self._ask("column(x, z)", self.kernel.column, (len(x),), x, z)

    def diagonal(self, x: Tensor) -> Tensor:
        return self._ask("diagonal(x)", self.kernel.diagonal, (len(x),), x)

    def fail(self, contract: str, found: str, meaning: str) -> NoReturn:
        fail(repr(self.kernel), contract, found, meaning)

    def _ask(
        self, call: str, method: Callable[..., Any], shape: tuple[int, ...], *points: Tensor
    ) -> Tensor:
        given = [point.clone() for point in points]
        shapes = " and ".join(str(tuple(point.shape)) for point in points)
        try:
            values = method(*given)
        except Exception as error:
            raise AssertionError(
                f"{self.kernel!r}: {call} must take points of shape {shapes}; it raised "
                f"{type(error).__name__}: {error}. A single point comes as a single row."
            ) from error
        if not isinstance(values, Tensor) or values.shape != shape:
            came = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            self.fail(f"{call} must be a tensor of shape {shape} for {shapes}", f"got {came}", "")
        if values.dtype != torch.float64 or not bool(torch.isfinite(values).all()):
            self.fail(
                f"{call} must be finite float64",
                f"got {values.dtype} with {int((~torch.isfinite(values)).sum())} not finite",
                "Variances are differences of nearly equal numbers: float32 would lose them.",
            )
        if not all(torch.equal(p, q) for p, q in zip(points, given, strict=True)):
            self.fail(
                f"{call} must not change its inputs",
                "they were changed in place",
                "They are the pool itself, so every later answer would be wrong.",
            )
        return values


def promises_of_blocks(kernel: ExaminedKernel, points: Tensor) -> Iterator[Promise]:
    K = kernel.block(points, points)
    yield (
        kernel.block(points, points),
        K,
        "block must give the same answer twice",
        "A kernel without a fixed answer (dropout, random features drawn anew) is no prior.",
    )
    yield (
        K,
        K.T,
        "block(x, x) must be symmetric",
        "A covariance is: the picks would depend on which argument comes first.",
    )
    x, z = points[: len(points) // 2 + 1], points[len(points) // 3 :]
    yield (
        kernel.block(x, z),
        kernel.block(z, x).T,
        "block(x, z) must be the transpose of block(z, x)",
        "The picks would depend on which argument comes first.",
    )


def promises_of_parts(kernel: ExaminedKernel, points: Tensor) -> Iterator[Promise]:
    K, diagonal = kernel.block(points, points), kernel.diagonal(points)
    for j in (0, len(points) // 2, len(points) - 1):
        yield (
            kernel.column(points, points[j : j + 1]),
            K[:, j],
            f"column(x, x[{j}]) must be column {j} of block(x, x)",
            "Observations enter by their column, so the posterior would be one of another kernel.",
        )
    yield (
        diagonal,
        K.diagonal(),
        "diagonal(x) must be the diagonal of block(x, x)",
        "Prior variances are read from it: gains and uncertainties would be wrong.",
    )
    pieces = points[:1], points[1 : len(points) // 2], points[len(points) // 2 :]
    meaning = "Pools are read in blocks of rows: the picks would depend on the size of the blocks."
    blocks = torch.cat([kernel.block(piece, points) for piece in pieces])
    yield blocks, K, "block of some rows must be some rows of block", meaning
    diagonals = torch.cat([kernel.diagonal(piece) for piece in pieces])
    yield diagonals, diagonal, "diagonal of some rows must be some entries of diagonal", meaning


def check_definiteness(kernel: ExaminedKernel, points: Tensor) -> None:
    values = torch.linalg.eigvalsh(kernel.block(points, points))
    least, largest = float(values[0]), float(values[-1])
    if least < -RANK_TOLERANCE * max(largest, 0.0) or largest < 0:
        kernel.fail(
            "block(x, x) must be positive semi-definite",
            f"its eigenvalues go from {least:.3g} to {largest:.3g}",
            "No function has such a covariance: variances would turn negative.",
        )


def check_features(kernel: ExaminedKernel, points: Tensor) -> None:
    """Check that features, which replace the kernel, give the same kernel."""
    form = feature_form(kernel.kernel)
    if form is None:
        return
    inner, factor = form
    phi = inner.features(points.clone())
    if phi.ndim != 2 or len(phi) != len(points) or phi.dtype != torch.float64:
        kernel.fail(
            "features(x) must be float64 rows, one per point",
            f"got {phi.dtype} of shape {tuple(phi.shape)}",
            "The posterior of the weights is built on them.",
        )
    C = inner.weight_covariance(phi.shape[1])
    found = gap(factor * (phi if C is None else phi @ C) @ phi.T, kernel.block(points, points))
    if found is not None:
        kernel.fail(
            "features and weight_covariance must give block(x, x) as phi C phi'",
            found,
            "The posterior is computed from the features: picks and variances would be of another "
            "kernel.",
        )
