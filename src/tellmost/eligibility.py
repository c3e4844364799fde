"""Which candidates may still be picked: taken ones, costs against a budget, full groups."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tellmost import numerics
from tellmost.running.processes import Place
from tellmost.shapes import Bool, Float, Int


@dataclass(frozen=True)
class Limits:
    """What restricts a selection, an entry per candidate of this process."""

    blocked: Bool[Tensor, " n"]  # observed before, so not to be picked
    replace: bool = False
    cost: Float[Tensor, " n"] | None = None
    ranks_per_cost: bool = True  # False: a cost only has to fit
    budget: float | None = None
    group: Int[Tensor, " n"] | None = None  # numbers 0, 1, ...
    max_per_group: int | None = None
    taken_of_group: Int[Tensor, " g"] | None = None  # rows of each group observed before

    def names(self) -> list[str]:
        """The arguments that limit what may be picked."""
        is_given = {"budget": self.budget, "max_per_group": self.max_per_group}
        return [name for name, value in is_given.items() if value is not None]


class Eligibility:
    """Which candidates of this process may be picked now; ``take`` uses up one of any process."""

    def __init__(self, limits: Limits, place: Place) -> None:
        self._limits = limits
        self._place = place
        self._left = ~limits.blocked  # not taken, and not of a full group
        self._spent = 0.0
        self._relative_cost = self._cost_to_rank_by()
        if limits.group is not None:
            assert limits.taken_of_group is not None and limits.max_per_group is not None
            self._taken_of_group = limits.taken_of_group.clone()
            self._left &= (self._taken_of_group < limits.max_per_group)[limits.group]
        self.closed = ~self._that_fit()

    def score(self, gains: Float[Tensor, " n"], least: float = -torch.inf) -> Float[Tensor, " n"]:
        """What the candidates are ranked by: gain, or gain per cost.

        -inf for closed ones, and for those whose gain is below ``least``.
        """
        return self._scored(gains, self._relative_cost, least).masked_fill_(
            self.closed, -torch.inf
        )

    def score_some(
        self, gains: Float[Tensor, " b"], rows: Int[Tensor, " b"], least: float = -torch.inf
    ) -> Float[Tensor, " b"]:
        """The same for some rows, all of them open."""
        cost = self._relative_cost
        return self._scored(gains, None if cost is None else cost[rows], least)

    def _scored(self, gains: Tensor, cost: Tensor | None, least: float) -> Tensor:
        scores = gains.clone() if cost is None else gains / cost
        return scores if least == -torch.inf else scores.masked_fill_(gains < least, -torch.inf)

    @property
    def repeats(self) -> bool:
        """Whether a row may be taken again."""
        return self._limits.replace

    @property
    def is_empty(self) -> bool:
        """Whether nothing may be picked any more, on any process."""
        return not self._place.is_any(not bool(self.closed.all()))

    def is_closed(self, row: int) -> bool:
        """Whether a row, by its overall number, may not be picked."""
        number = torch.tensor([row], device=self.closed.device)
        return bool(self._place.collect(number, lambda own: (self.closed[own],))[0])

    def _cost_to_rank_by(self) -> Float[Tensor, " n"] | None:
        """Relative to the mean cost, so that scores, like ties between them, are gains."""
        cost = self._limits.cost
        if cost is None or not self._limits.ranks_per_cost:
            return None
        return cost / self._place.mean(cost)

    def terms(self, rows: Int[Tensor, " b"]) -> tuple[Bool[Tensor, " b"], Float[Tensor, " b"]]:
        """Whether some rows are open, and what their gains are divided by."""
        cost, is_open = self._relative_cost, ~self.closed[rows]
        equal = torch.ones_like(is_open, dtype=torch.float64)
        return is_open, equal if cost is None else cost[rows]

    def take(self, row: int) -> None:
        """Use up a row, by its overall number."""
        own = row - self._place.first
        if not self._limits.replace and 0 <= own < self._place.count:
            self._left[own] = False
        if self._limits.cost is not None or self._limits.group is not None:
            self._take_share(row)
        self.closed = ~self._that_fit()

    def _take_share(self, row: int) -> None:
        """Of the budget, and of its group: both are about the rows of all processes."""
        cost, group = self._limits.cost, self._limits.group
        number = torch.tensor([row], device=self._left.device)
        given = [values for values in (cost, group) if values is not None]
        values = list(self._place.collect(number, lambda own: tuple(v[own] for v in given)))
        if cost is not None:
            self._spent += float(values.pop(0))
        if group is not None:
            self._count_in_group(int(values.pop(0)))

    @property
    def is_plain(self) -> bool:
        """Whether nothing but being taken closes a row, and rows are ranked by their gain."""
        limits = self._limits
        return not limits.replace and limits.cost is None and limits.group is None

    def took_directly(self) -> None:
        """Note that rows were taken by writing to ``closed``; only where the limits are plain."""
        self._left = ~self.closed

    def _count_in_group(self, group: int) -> None:
        labels, most = self._limits.group, self._limits.max_per_group
        assert labels is not None and most is not None
        self._taken_of_group[group] += 1
        if self._taken_of_group[group] >= most:
            self._left &= labels != group

    def why_none(self) -> str:
        """Why no candidate is left."""
        if self._limits.budget is not None and self._place.is_any(bool(self._left.any())):
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
