"""Which candidates may still be picked: taken ones, costs against a budget, full groups."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sightline import numerics
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
        self._left = ~limits.blocked  # not taken, and not of a full group
        self._spent = 0.0
        self._relative_cost = self._cost_to_rank_by()
        if limits.group is not None:
            self._taken_of_group = torch.zeros(int(limits.group.max()) + 1, dtype=torch.int64)
        self._closed = ~self._that_fit()

    def score(self, gains: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """What the candidates are ranked by: gain, or gain per cost; -inf for closed ones."""
        return self._per_cost(gains, self._relative_cost).masked_fill(self._closed, -torch.inf)

    def score_some(
        self, gains: Float[Tensor, " b"], rows: Int[Tensor, " b"]
    ) -> Float[Tensor, " b"]:
        """The same for some rows, all of them open."""
        cost = self._relative_cost
        return self._per_cost(gains, None if cost is None else cost[rows])

    def _per_cost(self, gains: Tensor, cost: Tensor | None) -> Tensor:
        return gains if cost is None else gains / cost

    def _cost_to_rank_by(self) -> Float[Tensor, " n"] | None:
        """Relative to the mean cost, so that scores, like ties between them, are gains."""
        cost = self._limits.cost
        return None if cost is None or not self._limits.ranks_per_cost else cost / cost.mean()

    def take(self, row: int) -> None:
        limits = self._limits
        if not limits.replace:
            self._left[row] = False
        if limits.group is not None and limits.max_per_group is not None:
            group = int(limits.group[row])
            self._taken_of_group[group] += 1
            if self._taken_of_group[group] >= limits.max_per_group:
                self._left &= limits.group != group
        if limits.cost is not None:
            self._spent += float(limits.cost[row])
        self._closed = ~self._that_fit()

    def why_none(self) -> str:
        """Why no candidate is left."""
        if self._limits.budget is not None and bool(self._left.any()):
            return "budget spent: nothing that is left fits"
        if self._limits.max_per_group is not None:
            return "no candidate left: every group is full or used up"
        return "no candidate left"

    def _that_fit(self) -> Bool[Tensor, " n"]:
        """Those left whose cost fits into the rest of the budget."""
        cost, budget = self._limits.cost, self._limits.budget
        if cost is None or budget is None:
            return self._left
        return self._left & (cost <= budget * (1.0 + numerics.BUDGET_TOLERANCE) - self._spent)
