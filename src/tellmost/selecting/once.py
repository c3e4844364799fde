"""The chooser that scores all rows at the first step only."""

from dataclasses import dataclass

from torch import Tensor

from tellmost.posterior.weight_tracker import Tracker
from tellmost.rules import Rule
from tellmost.selecting.limits import Eligibility
from tellmost.selecting.loop import (
    LeastGain,
    RowChoice,
    find_leaders,
    fresh_gain,
    largest_open,
)


@dataclass
class Once:
    """Scores all rows at the first step only.

    This is the paper's top-b, and exact for rules whose gains no observation changes. With
    ``marginal`` it reports the gain given the picks before.
    """

    tracker: Tracker
    rule: Rule
    eligibility: Eligibility
    marginal: bool
    first: float | None = None
    _gains: Tensor | None = None

    def best(self, least_of: LeastGain) -> RowChoice | None:
        if self._gains is None:
            self._gains = self.tracker.score(self.rule.gain)
            self.first = largest_open(self._gains, self.eligibility)
        gains, scores = self._gains, self.eligibility.score(self._gains, least_of(self.first))
        leaders = find_leaders(
            scores,
            self.first,
            lambda rows: (gains[rows], gains[rows], scores[rows]),
            self.eligibility.shard,
        )
        if not leaders.rows:
            return None
        row, gain = leaders.best(self.first)
        return RowChoice(row, self.gain_of(row) if self.marginal else gain)

    def gain_of(self, row: int) -> float:
        shard = self.eligibility.shard
        if self.marginal or self._gains is None:
            return fresh_gain(self.tracker, self.rule, row, shard)
        return float(self._gains[row] if shard is None else shard.entry(row, self._gains))
