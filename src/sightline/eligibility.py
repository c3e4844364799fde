"""Which candidates may still be picked: taken ones, costs against a budget, full groups."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sightline.shapes import Bool, Float, Int


@dataclass(frozen=True)
class Limits:
    """What restricts a selection, an entry per candidate."""

    blocked: Bool[Tensor, " n"]  # observed before, so not to be picked
    replace: bool = False
    cost: Float[Tensor, " n"] | None = None
    ranks_per_cost: bool = True  # False: a cost only has to fit
    budget: float | None = None
    group: Int[Tensor, " n"] | None = None  # numbers 0, 1, ...
    max_per_group: int | None = None


class Eligibility:
    """Which candidates may be picked now; ``take`` uses one up."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open = ~limits.blocked
        self._budget = limits.budget
        if limits.group is not None:
            self._taken_of_group = torch.zeros(int(limits.group.max()) + 1, dtype=torch.int64)
        self._close_unaffordable()

    def score(self, gains: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """What the candidates are ranked by: gain, or gain per cost; -inf for closed ones."""
        return self._per_cost(gains, self._limits.cost).masked_fill(~self._open, -torch.inf)

    def score_some(
        self, gains: Float[Tensor, " b"], rows: Int[Tensor, " b"]
    ) -> Float[Tensor, " b"]:
        """The same for some rows, all of them open."""
        cost = self._limits.cost
        return self._per_cost(gains, None if cost is None else cost[rows])

    def _per_cost(self, gains: Tensor, cost: Tensor | None) -> Tensor:
        return gains / cost if cost is not None and self._limits.ranks_per_cost else gains

    def take(self, row: int) -> None:
        limits = self._limits
        if not limits.replace:
            self._open[row] = False
        if limits.group is not None and limits.max_per_group is not None:
            group = int(limits.group[row])
            self._taken_of_group[group] += 1
            if self._taken_of_group[group] >= limits.max_per_group:
                self._open &= limits.group != group
        if self._budget is not None and limits.cost is not None:
            self._budget -= float(limits.cost[row])
            self._close_unaffordable()

    def why_none(self) -> str:
        """Why no candidate is left."""
        limits = self._limits
        if self._budget is not None and limits.cost is not None:
            is_short = bool((limits.cost > self._budget).any())
        else:
            is_short = False
        if is_short:
            return "budget spent: nothing that is left fits"
        if limits.max_per_group is not None:
            return "no candidate left: every group is full or used up"
        return "no candidate left"

    def _close_unaffordable(self) -> None:
        if self._budget is not None and self._limits.cost is not None:
            self._open &= self._limits.cost <= self._budget
