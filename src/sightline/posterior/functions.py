r"""The posterior in function space, for any kernel.

After observing points :math:`z_1, \dots, z_t`, every x has a *whitened* vector F(x) with

.. math::
    k_t(x, x') = k(x, x') - F(x)^\top F(x'), \qquad
    F_{t+1}(x) = \frac{k(x, z) - F(x)^\top F(z)}{\sqrt{k_t(z, z) + \rho^2}},

the rows of a Cholesky factor. A posterior that saw the targets first starts with
:math:`F(x) = \Lambda^{-1/2} U^\top k(A, x)`, where :math:`K_{AA} = U \Lambda U^\top`.
"""

import torch
from torch import Tensor

from sightline.kernels import Kernel
from sightline.kernels.kernel import Points
from sightline.numerics import RANK_TOLERANCE, nonnegative
from sightline.shapes import Float


class GrowingMatrix:
    """A matrix that takes new rows at its end; memory doubles when it is full."""

    def __init__(self, columns: int, device: torch.device) -> None:
        self._memory = torch.empty(0, columns, dtype=torch.float64, device=device)
        self._count = 0

    @property
    def rows(self) -> Float[Tensor, "t c"]:
        return self._memory[: self._count]

    def append(self, rows: Float[Tensor, "r c"]) -> None:
        needed = self._count + len(rows)
        if needed > len(self._memory):
            memory = self._memory.new_empty(max(needed, 2 * self._count, 16), rows.shape[1])
            memory[: self._count] = self.rows
            self._memory = memory
        self._memory[self._count : needed] = rows
        self._count = needed


class FunctionPosterior:
    """Observed points and the Cholesky factor of their covariance, grown a row at a time."""

    def __init__(self, kernel: Kernel, device: torch.device) -> None:
        self._kernel = kernel
        self._device = device
        self._seen: Points | None = None  # targets that were seen first, and how to whiten them
        self._whitening = torch.empty(0, 0, dtype=torch.float64, device=device)
        self._points: list[Tensor] = []
        self._factor = torch.empty(0, 0, dtype=torch.float64, device=device)
        self._cross = torch.empty(0, 0, dtype=torch.float64, device=device)

    def see_targets(self, targets: Points, noise_variance: float) -> None:
        """Condition on f (or, with noise, y) at the targets; comes before any observation."""
        values, U = torch.linalg.eigh(self._kernel.block(targets, targets))
        kept = values > RANK_TOLERANCE * values.max()
        self._seen = targets
        self._whitening = U[:, kept].T / (values[kept] + noise_variance).sqrt()[:, None]
        self._cross = torch.empty(0, len(self._whitening)).to(self._whitening)

    @property
    def length(self) -> int:
        """Of the whitened vectors."""
        return len(self._whitening) + len(self._points)

    def whiten(self, points: Points) -> Float[Tensor, "t b"]:
        """F at some points, a column each."""
        head = self._whiten_by_targets(points)
        if not self._points:
            return head
        covariance = self._kernel.block(torch.cat(self._points), points)
        tail = torch.linalg.solve_triangular(
            self._factor, covariance - self._cross @ head, upper=False
        )
        return torch.cat([head, tail])

    def observe(self, point: Points, noise_variance: float) -> tuple[Float[Tensor, " t"], float]:
        """Condition on an observation at a point, given as a single row.

        Returns F at the point before the observation, and the observation's variance.
        """
        F = self.whiten(point)[:, 0]
        prior = float(self._kernel.diagonal(point))
        s = max(prior - float(F @ F), 0.0) + noise_variance
        self._grow(F, s)
        self._points.append(point)
        return F, s

    def variance(self, points: Points) -> Float[Tensor, " b"]:
        F = self.whiten(points)
        return nonnegative(self._kernel.diagonal(points) - F.square().sum(dim=0))

    def covariance(self, x: Points, z: Points) -> Float[Tensor, "b c"]:
        return self._kernel.block(x, z) - self.whiten(x).T @ self.whiten(z)

    def _whiten_by_targets(self, points: Points) -> Float[Tensor, "r b"]:
        if self._seen is None:
            return torch.empty(0, len(points), dtype=torch.float64, device=self._device)
        return self._whitening @ self._kernel.block(self._seen, points)

    def _grow(self, F: Float[Tensor, " t"], s: float) -> None:
        r, t = len(self._whitening), len(self._points)
        factor = self._factor.new_zeros(t + 1, t + 1)
        factor[:t, :t] = self._factor
        factor[t, :t] = F[r:]
        factor[t, t] = s**0.5
        self._factor = factor
        self._cross = torch.cat([self._cross, F[None, :r]])
