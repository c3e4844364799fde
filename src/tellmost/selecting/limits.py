"""Picks are limited by k, least gains, costs and a budget, groups, and rows taken."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.rows.checks import (
    check_all_positive,
    check_number,
    check_positive,
    check_vector,
    check_whole,
)
from tellmost.rules import Rule, is_random
from tellmost.running.processes import Group, Shard
from tellmost.selecting.data import SelectionData, SelectionNoise, mean_of
from tellmost.shapes import Bool, Float, Int

BUDGET_TOLERANCE = 1e-12
"""Rounding may add this share to a budget: ten costs of 0.07 are to fit into 0.7."""


NO_NUMBERS = (
    "the rule gave NaN or an infinity as a gain. (a) The noise is so small beside the prior "
    "variance that float64 cannot tell what is left from rounding: raise noise_std or "
    "noise_ratio; a ratio of 1e-12 is safe. (b) The rule is your own: "
    "tellmost.testing.check_rule says where."
)


@dataclass(frozen=True)
class Stop:
    """It says when to end. Without ``picks`` only gains or candidates end a selection."""

    picks: int | None
    min_gain: float | None = None
    min_gain_share: float | None = None

    def least(self, first: float | None) -> float:
        """The smallest gain that is still picked, given the largest gain at the first step."""
        by_share = -torch.inf
        if self.min_gain_share is not None and first is not None:
            by_share = self.min_gain_share * first
        return max(by_share, -torch.inf if self.min_gain is None else self.min_gain)

    def reason(self, first: float | None) -> str:
        """Say why candidates are left that are not worth picking."""
        if self.min_gain is not None and self.least(first) == self.min_gain:
            return f"no gain is left that reaches min_gain {self.min_gain:.3g}"
        return (
            f"no gain is left that reaches {self.min_gain_share:.3g} of the first (min_gain_share)"
        )


@dataclass(frozen=True)
class Limits:
    """Limits restrict a selection, by an entry per candidate of this process."""

    blocked: Bool[Tensor, " n"]  # observed before, so not to be picked
    replace: bool = False
    cost: Float[Tensor, " n"] | None = None
    ranks_per_cost: bool = True  # False: a cost only has to fit
    budget: float | None = None
    group: Int[Tensor, " n"] | None = None  # numbers 0, 1, ...
    max_per_group: int | None = None
    taken_of_group: Int[Tensor, " g"] | None = None  # rows of each group observed before
    dedupe: float | None = None  # rows are closed that are so similar to one observed or picked

    def names(self) -> list[str]:
        """The arguments that limit what may be picked."""
        is_given = {
            "budget": self.budget,
            "max_per_group": self.max_per_group,
            "dedupe": self.dedupe,
        }
        return [name for name, value in is_given.items() if value is not None]


class Eligibility:
    """It knows which candidates here may be picked; ``take`` uses up one of any process."""

    def __init__(self, limits: Limits, shard: Shard | None = None) -> None:
        self._limits = limits
        self.shard = shard
        self._left = ~limits.blocked  # not taken, and not of a full group
        self._spent = 0.0
        self.copies = 0  # rows here that were closed as copies
        self._cost = self._cost_to_rank_by()
        if limits.group is not None:
            assert limits.taken_of_group is not None and limits.max_per_group is not None
            self._taken_of_group = limits.taken_of_group.clone()
            self._left &= (self._taken_of_group < limits.max_per_group)[limits.group]
        self.closed = ~self._that_fit()

    def score(self, gains: Float[Tensor, " n"], least: float = -torch.inf) -> Float[Tensor, " n"]:
        """Make what the candidates are ranked by: gain, or gain per cost.

        The score is -inf for closed candidates, and where the gain is below ``least``.
        """
        scores = gains if self._cost is None else gains / self._cost
        closed = self.closed if least == -torch.inf else self.closed | (gains < least)
        return scores.masked_fill(closed, -torch.inf)

    def score_some(
        self, gains: Float[Tensor, " b"], rows: Int[Tensor, " b"]
    ) -> Float[Tensor, " b"]:
        """The scores of some rows, all of them open."""
        return gains if self._cost is None else gains / self._cost[rows]

    @property
    def repeats(self) -> bool:
        return self._limits.replace

    @property
    def is_empty(self) -> bool:
        """If true, nothing may be picked any more, on any process."""
        return not self._is_any(~self.closed)

    def is_closed(self, row: int) -> bool:
        """Say whether a row, by its overall number, may not be picked."""
        return bool(self._entry(row, self.closed))

    def _is_any(self, mask: Bool[Tensor, " n"]) -> bool:
        """Say whether a mask holds anywhere, on any process."""
        here = bool(mask.any())
        return here if self.shard is None else self.shard.is_any(here)

    def _entry(self, row: int, values: Tensor) -> Tensor:
        """The entry of a row, by its overall number."""
        return values[row] if self.shard is None else self.shard.entry(row, values)

    def _cost_to_rank_by(self) -> Float[Tensor, " n"] | None:
        """Costs relative to their mean, so that scores, like ties between them, are gains."""
        cost = self._limits.cost
        if cost is None or not self._limits.ranks_per_cost:
            return None
        return cost / mean_of(cost, self.shard)

    def terms(self, rows: Int[Tensor, " b"]) -> tuple[Bool[Tensor, " b"], Float[Tensor, " b"]]:
        """Say whether some rows are open, and what their gains are divided by."""
        is_open = ~self.closed[rows]
        cost = torch.ones_like(rows).double() if self._cost is None else self._cost[rows]
        return is_open, cost

    def take(self, row: int) -> None:
        """Use up a row, by its overall number."""
        cost, group = self._limits.cost, self._limits.group
        own = row if self.shard is None else row - self.shard.first
        if not self._limits.replace and 0 <= own < len(self._left):
            self._left[own] = False
        if cost is not None:
            self._spent += float(self._entry(row, cost))
        if group is not None:
            self._count_in_group(int(self._entry(row, group)))
        self.closed = ~self._that_fit()

    @property
    def is_deduplicated(self) -> bool:
        return self._limits.dedupe is not None

    def close_copies(self, similarity: Float[Tensor, " n"]) -> None:
        """Close the rows that are too similar to one that was observed or picked."""
        assert self._limits.dedupe is not None
        copies = self._left & (similarity >= self._limits.dedupe - numerics.SAME_POINT)
        self.copies += int(copies.sum())
        self._left &= ~copies
        self.closed = ~self._that_fit()

    @property
    def copies_of_all(self) -> int:
        """The number of rows of all processes that were closed as copies."""
        return (
            self.copies
            if self.shard is None
            else int(self.shard.group.sum(torch.tensor(self.copies)))
        )

    @property
    def is_plain(self) -> bool:
        """If true, nothing but being taken closes a row, and rows are ranked by their gain."""
        limits = self._limits
        is_free = limits.cost is None and limits.group is None and limits.dedupe is None
        return is_free and not limits.replace

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
        if self._limits.budget is not None and self._is_any(self._left):
            return "budget spent: nothing that is left fits"
        if self._limits.dedupe is not None:
            return "no candidate left: all others are copies of picks"
        if self._limits.max_per_group is not None:
            return "no candidate left: every group is full or used up"
        return "no candidate left"

    def _that_fit(self) -> Bool[Tensor, " n"]:
        """The rows that are left and whose cost fits into the rest of the budget."""
        cost, budget = self._limits.cost, self._limits.budget
        if cost is None or budget is None:
            return self._left
        return self._left & (cost <= budget * (1.0 + BUDGET_TOLERANCE) - self._spent)


def why_stopped(eligibility: Eligibility, stop: Stop, first: float | None) -> str:
    """Say why no candidate was picked."""
    if eligibility.is_empty:
        return eligibility.why_none()
    if stop.min_gain is None and stop.min_gain_share is None:
        raise ValueError(NO_NUMBERS)  # every gain is below any number
    return stop.reason(first)


@dataclass(frozen=True)
class Task:
    """A selection to make, every argument checked and the pool read."""

    data: SelectionData
    rule: Rule
    noise: SelectionNoise
    limits: Limits
    stop: Stop
    conditional: bool = True
    floor: bool = False
    columns_ahead: int | None = None
    checkpoint: Path | None = None


def check_stop(
    k: Any, budget: Any, min_gain: Any, min_gain_share: Any, rule: Rule, conditional: bool
) -> Stop:
    if k is None and budget is None and min_gain is None and min_gain_share is None:
        raise ValueError(
            "say how much to pick: k picks, a budget with cost, min_gain or min_gain_share."
        )
    if k is not None:
        k = check_whole(k, "k")
    if budget is not None:
        check_positive(budget, "budget")
    min_gain = _check_least_gain(min_gain, "min_gain", rule, conditional)
    min_gain_share = _check_least_gain(min_gain_share, "min_gain_share", rule, conditional, 1.0)
    return Stop(k, min_gain, min_gain_share)


def _check_least_gain(
    value: Any, name: str, rule: Rule, conditional: bool, most: float = float("inf")
) -> float | None:
    if value is None:
        return None
    if rule.is_signed or is_random(rule):
        raise ValueError(
            f"{name} has no meaning for rule {rule.name!r}, whose gain has no unit. "
            f"Give k, or use vtl, itl or mm-itl."
        )
    if not conditional:
        raise ValueError(
            f"{name} needs conditional=True, since a first score is no marginal gain; got "
            f"conditional=False. Give k instead."
        )
    return check_number(value, name, above=0, most=most)


def check_limits(
    data: SelectionData,
    rule: Rule,
    *,
    cost: Any = None,
    budget: Any = None,
    groups: Any = None,
    max_per_group: Any = None,
    dedupe: Any = None,
    replace: bool = False,
    conditional: bool = True,
) -> Limits:
    """Everything that keeps a candidate from being picked."""
    n = len(data.pool)
    group = None if data.shard is None else data.shard.group
    with data.together():
        costs = check_cost(cost, budget, rule, n)
        most = check_max_per_group(groups, max_per_group)
        cosine = check_dedupe(dedupe, replace, conditional)
        labels = None if most is None else check_labels(groups, n)
    observed = data.observed_here
    numbers, taken = None, None
    if labels is not None:
        numbers, count = number_labels(labels, group)
        taken = torch.bincount(numbers[observed], minlength=count)
        taken = taken if group is None else group.sum(taken)
    blocked = torch.zeros(n, dtype=torch.bool, device=data.pool.device)
    if not replace and len(observed):
        blocked[observed.to(blocked.device)] = True
    return Limits(
        blocked=data.cut(blocked),
        replace=replace,
        cost=None if costs is None else data.cut(costs),
        ranks_per_cost=not is_random(rule),
        budget=None if budget is None else check_positive(budget, "budget"),
        group=None if numbers is None else data.cut(numbers),
        max_per_group=most,
        taken_of_group=None if taken is None else taken.to(data.pool.device),
        dedupe=cosine,
    )


def check_cost(cost: Any, budget: Any, rule: Rule, n: int) -> Float[Tensor, " n"] | None:
    if cost is None:
        if budget is not None:
            raise ValueError(
                f"budget needs cost, a positive number per pool row; got budget {budget} without."
            )
        return None
    if rule.is_signed:
        raise ValueError(
            f"cost has no meaning for rule {rule.name!r}: its gain may be negative, and gain per "
            f"cost would then prefer the dearer point. Use vtl, itl or mm-itl."
        )
    vector = check_vector(cost, "cost", n, "pool row")
    check_all_positive(vector, "cost")
    return vector


def check_dedupe(dedupe: Any, replace: bool, conditional: bool) -> float | None:
    if dedupe is None:
        return None
    cosine = check_number(dedupe, "dedupe, a cosine such as 0.98,", above=0, most=1)
    if replace or not conditional:
        other = "replace=True" if replace else "conditional=False"
        raise ValueError(
            f"dedupe has no meaning with {other}, which picks without regard to what was picked. "
            f"Drop one of them."
        )
    return cosine


def check_max_per_group(groups: Any, max_per_group: Any) -> int | None:
    if groups is None and max_per_group is None:
        return None
    if groups is None or max_per_group is None:
        given = "max_per_group" if groups is None else "groups"
        raise ValueError(
            f"groups and max_per_group go together: give both or neither; got only {given}."
        )
    return check_whole(max_per_group, "max_per_group")


def check_labels(groups: Any, n: int) -> np.ndarray:
    """The groups as one label per row, all of a kind that can be ordered."""
    try:
        labels = groups.cpu().numpy() if isinstance(groups, Tensor) else np.asarray(groups)
        np.unique(labels)
    except (TypeError, ValueError) as error:  # labels that have no order, nested lists
        raise TypeError(
            f"groups must be labels of one kind, all numbers or all strings; numpy says: "
            f"{str(error).rstrip('.')}."
        ) from error
    if labels.shape != (n,):
        raise ValueError(f"groups must have one label per pool row, ({n},); got {labels.shape}.")
    return labels


def number_labels(labels: np.ndarray, group: Group | None) -> tuple[Int[Tensor, " n"], int]:
    """The labels as numbers that mean the same on all processes, and how many labels there are."""
    names, numbers = np.unique(labels, return_inverse=True)
    if group is None:
        return torch.from_numpy(numbers.astype(np.int64)), len(names)
    texts = group.texts(json.dumps(names.tolist(), default=str))
    everyone = [json.loads(text) for text in texts]
    _, common = np.unique([name for own in everyone for name in own], return_inverse=True)
    first = sum(len(own) for own in everyone[: group.rank])
    table = common.astype(np.int64)[first : first + len(names)]
    return torch.from_numpy(table[numbers]), int(common.max()) + 1


def check_enough(stop: Stop, limits: Limits, shard: Shard | None = None) -> None:
    """Refuse a k that is larger than the candidates, and repeats that nothing ends."""
    if limits.replace:
        if stop.picks is None and limits.budget is None and stop.min_gain is None:
            raise ValueError(
                "replace=True needs k, a budget or min_gain; got only min_gain_share, which never "
                "ends a selection whose first gain is 0."
            )
        return
    open_here = (~limits.blocked).sum()
    open_rows = int(open_here if shard is None else shard.group.sum(open_here))
    if stop.picks is not None and stop.picks > open_rows:
        raise ValueError(
            f"k = {stop.picks} is larger than the {open_rows} candidates that may be picked. "
            f"Ask for fewer, or pass replace=True to allow repeats."
        )


def check_columns_ahead(columns_ahead: Any) -> int | None:
    return None if columns_ahead is None else check_whole(columns_ahead, "columns_ahead")
