"""What is kept of all rows in function space: a variance and a whitened vector each."""

import torch
from torch import Tensor

from tellmost.numerics import nonnegative
from tellmost.posterior.functions import FunctionPosterior, GrowingMatrix
from tellmost.posterior.problem import Problem
from tellmost.shapes import Float


class RunningRows:
    """Variance and whitened vectors of all rows under one posterior."""

    def __init__(
        self,
        problem: Problem,
        posterior: FunctionPosterior,
        known: Float[Tensor, "s n"] | None = None,  # the first entries of the whitened vectors
    ) -> None:
        n, device = len(problem.rows), problem.device
        self.variance = torch.empty(n, dtype=torch.float64, device=device)
        self.whitened = GrowingMatrix(n, device, posterior.rank + (problem.picks or 0))
        whitened = self.whitened.extend(posterior.rank)
        for start, stop, block in problem.rows.blocks():
            at_hand = None if known is None else known[:, start:stop]
            F = whitened[:, start:stop] = posterior.whiten(block, at_hand)
            prior = problem.prior_variance[start:stop]
            self.variance[start:stop] = nonnegative(prior - F.square().sum(dim=0))

    def update(
        self, prior_column: Float[Tensor, " n"], F: Float[Tensor, " t"], s: float
    ) -> Float[Tensor, " n"]:
        """Take in an observation; returns its posterior column."""
        column = prior_column - F @ self.whitened.rows
        self.whitened.append(column[None] / s**0.5)
        nonnegative(self.variance.addcmul_(column, column, value=-1.0 / s))
        return column
