"""Some rows by their overall numbers, wherever they are: those that are or may be observed."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.posterior.problem import Problem
from tellmost.shapes import Float, Int


@dataclass(frozen=True)
class FewRows:
    """Points and what is fixed about each."""

    numbers: Int[Tensor, " b"]
    points: Points
    noise_variance: Float[Tensor, " b"]
    prior_variance: Float[Tensor, " b"]

    @classmethod
    def read(cls, problem: Problem, numbers: Int[Tensor, " b"]) -> "FewRows":
        """From the processes that have them."""

        def here(rows: Tensor) -> tuple[Tensor, ...]:
            points = problem.rows.rows(rows)
            return points, problem.noise_variance[rows], problem.prior_variance[rows]

        return cls(numbers, *problem.place.collect(numbers, here))

    def some(self, places: list[int]) -> "FewRows":
        """Those at these places."""
        return FewRows(
            self.numbers[places],
            self.points[places],
            self.noise_variance[places],
            self.prior_variance[places],
        )


class RowsAtHand:
    """The rows that were looked at last, so that nobody has to be asked for them again."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._kept: FewRows | None = None
        self._places: dict[int, int] = {}

    def keep(self, rows: Sequence[int]) -> FewRows:
        """These rows, kept; all others are forgotten."""
        self._kept = self.get(rows)
        self._places = {row: place for place, row in enumerate(rows)}
        return self._kept

    def get(self, rows: Sequence[int]) -> FewRows:
        if self._kept is not None and all(row in self._places for row in rows):
            return self._kept.some([self._places[row] for row in rows])
        return FewRows.read(self._problem, torch.tensor(rows))
