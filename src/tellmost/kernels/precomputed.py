"""A kernel given by its matrix."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.numerics import CHECKED_MATRIX, MATRIX_ROUNDING
from tellmost.shapes import Float


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

    def block(self, x: Points, z: Points) -> Float[Tensor, "_n _m"]:
        return self.matrix[x[:, None], z[None, :]].to(torch.float64)

    def column(self, x: Points, z: Points) -> Float[Tensor, " _n"]:
        return self.matrix[x, z.reshape(())].to(torch.float64)

    def diagonal(self, x: Points) -> Float[Tensor, " _n"]:
        return self.matrix[x, x].to(torch.float64)

    def __repr__(self) -> str:
        return f"Precomputed({len(self.matrix)} x {len(self.matrix)})"
