r"""What is believed about f where values were observed: a mean beside the variance.

With the whitened vectors F of :mod:`tellmost.posterior.functions`,

.. math::
    \mu_t(x) = m(x) + F(x)^\top r, \qquad
    r_{t+1} = \frac{y - \mu_t(z)}{\sqrt{k_t(z, z) + \rho^2}},

so an observation adds an entry to r and to every F, and nothing is factorised anew.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.numerics import nonnegative
from tellmost.posterior.function_tracker import FunctionTracker
from tellmost.posterior.sampling import first_occurrences, root_of_covariance
from tellmost.shapes import Bool, Float

MeanFunction = Callable[[Tensor], Tensor]
"""The prior mean at some points, an entry each."""


class Belief:
    """Mean and variance of f over the rows of a problem and anywhere else."""

    def __init__(
        self,
        tracker: FunctionTracker,
        prior_mean: MeanFunction,
        y: Float[Tensor, " t"] | None = None,
    ) -> None:
        """``y`` has the values of what the tracker's problem has observed already."""
        self.tracker = tracker
        self._prior_mean = prior_mean
        self._mean_of_rows = prior_mean(tracker.points)
        self._residuals = self._mean_of_rows.new_empty(0)
        if y is not None and len(y):
            points = torch.cat([one.point for one in tracker.problem.observed])
            self._residuals = tracker.posterior.whiten_values(y - prior_mean(points))
            self._mean_of_rows += tracker.whitened_rows.T @ self._residuals

    def observe(self, point: Points, y: float, noise_variance: float) -> float:
        """Take in a value observed at a point, given as a single row; returns its variance."""
        expected = float(self._prior_mean(point))  # the caller's function may fail
        F, s = self.tracker.observe_point(point, noise_variance)
        surprise = y - expected - float(F @ self._residuals)
        residual = self._residuals.new_full((1,), surprise / s**0.5)
        self._residuals = torch.cat([self._residuals, residual])
        self._mean_of_rows += self.tracker.whitened_rows[-1] * residual
        return s

    def at(self, points: Points) -> tuple[Float[Tensor, " b"], Float[Tensor, " b"]]:
        """Mean and variance at some points."""
        F = self.tracker.posterior.whiten(points)
        prior = self.tracker.kernel.diagonal(points)
        mean = self._prior_mean(points) + F.T @ self._residuals
        return mean, nonnegative(prior - F.square().sum(dim=0))

    def of_rows(self) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
        """Mean and variance of every row."""
        return self._mean_of_rows.clone(), self.tracker.variance_of_rows.clone()

    def root_of_rows(self, among: Bool[Tensor, " n"] | None = None) -> Float[Tensor, "b r"]:
        """Of the covariance of all rows, or of some: R with R R' equal to it.

        A point that several rows have counts once.
        """
        rows = slice(None) if among is None else among
        first, place = first_occurrences(self.tracker.points[rows])
        points = self.tracker.points[rows][first]
        F = self.tracker.whitened_rows[:, rows][:, first]
        covariance = self.tracker.kernel.block(points, points) - F.T @ F
        return root_of_covariance(covariance, self.tracker.kernel.diagonal(points))[place]

    def sample_rows(
        self,
        count: int,
        generator: torch.Generator,
        among: Bool[Tensor, " n"] | None = None,
        *,
        root: Float[Tensor, "b r"] | None = None,
    ) -> Float[Tensor, "count b"]:
        """Functions drawn from the posterior, jointly at all rows, or at some of them.

        ``root``: that of ``root_of_rows``, where it is at hand.
        """
        root = self.root_of_rows(among) if root is None else root
        size = root.shape[1], count
        normal = torch.randn(size, generator=generator, dtype=torch.float64).to(root)
        mean = self._mean_of_rows if among is None else self._mean_of_rows[among]
        return mean + (root @ normal).T
