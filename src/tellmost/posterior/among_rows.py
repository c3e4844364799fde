r"""Covariances of all candidates with each other, for rules that learn about all of them.

The mean over all candidates z of :math:`k_t(x, z)^2` is the squared covariance of VTL with the
candidates as targets. In weight space it is :math:`\phi^\top \Sigma M \Sigma \phi` with the second
moment :math:`M = \Phi^\top \Phi / n`; in function space nothing short of all pairs gives it.
"""

import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.posterior.functions import FunctionPosterior
from tellmost.posterior.problem import Problem
from tellmost.posterior.weights import symmetric_root
from tellmost.running.memory import in_words
from tellmost.shapes import Float, Int

NAME = "squared_covariance_with_candidates"


def root_of_rows(problem: Problem) -> Float[Tensor, "d d"]:
    """R with R R' = M, the second moment of all candidates; one pass."""
    d = problem.rows.dimension
    total = torch.zeros(d, d, dtype=torch.float64, device=problem.device)
    for _, _, block in problem.rows.blocks():
        total.addmm_(block.T, block)
    return symmetric_root(problem.place.exchange.sum(total) / problem.place.total)


class CovarianceAmongRows:
    """k_t(x, z) for the rows x here and all candidates z, kept and updated."""

    def __init__(self, problem: Problem, posterior: FunctionPosterior) -> None:
        check_room(problem)
        self._place = problem.place
        self._posterior = posterior
        numbers = torch.arange(problem.place.total, device=problem.device)
        (self._everyone,) = problem.place.collect(numbers, lambda own: (problem.rows.rows(own),))
        self._values = torch.empty(
            len(problem.rows), problem.place.total, dtype=torch.float64, device=problem.device
        )
        for start, stop, block in problem.rows.blocks():
            self._values[start:stop] = self._fresh(block)

    def update(self, column: Float[Tensor, " n"], s: float) -> None:
        """Take in an observation of variance s, by its posterior column over the rows here."""
        self._values.addr_(column, self._place.whole(column), alpha=-1.0 / s)

    def mean_square(self, rows: Int[Tensor, " b"] | slice) -> Float[Tensor, " b"]:
        """Over all candidates."""
        return self._mean_square(self._values[rows])

    def fresh_mean_square(self, points: Points) -> Float[Tensor, " b"]:
        """Of some rows, current even where the covariances that are kept are not."""
        return self._mean_square(self._fresh(points))

    def _fresh(self, points: Points) -> Float[Tensor, "b _n"]:
        return self._posterior.covariance(points, self._everyone)

    def _mean_square(self, covariance: Float[Tensor, "b _n"]) -> Float[Tensor, " b"]:
        lengths = torch.linalg.vector_norm(covariance, dim=1)  # makes no second matrix
        return lengths.square().div_(self._place.total)  # a gradient needs the lengths


def check_room(problem: Problem) -> None:
    """All pairs have to fit into the memory that is left."""
    n = problem.place.total
    needed = 8 * (problem.place.largest * n + n * problem.rows.dimension)
    if needed > problem.memory:
        raise ValueError(
            f"memory must hold the covariances of all {n:,} candidates with each other, "
            f"{in_words(needed)}, for a rule that learns about all candidates (undirected-vtl) "
            f"with {problem.kernel!r}; {in_words(problem.memory)} are left of it. Pass fewer "
            f"candidates=, a larger memory=, or a kernel that is an inner product, such as "
            f"tm.kernels.FeatureMap, which keeps no pairs."
        )
