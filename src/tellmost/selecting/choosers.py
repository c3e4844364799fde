"""Choosers that score fewer rows than all at every step: once, or only those that may be best."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tellmost.posterior.weight_tracker import Tracker
from tellmost.rules import Rule
from tellmost.selecting.limits import Eligibility
from tellmost.selecting.loop import (
    LeastGain,
    RowChoice,
    best_of,
    find_leaders,
    fresh_gain,
    largest,
    largest_open,
    leading,
    refuse_nan,
    score_all,
    tie_width,
)
from tellmost.shapes import Int


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
            self._gains = score_all(self.tracker, self.rule)
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


@dataclass
class Lazy:
    """Scores only rows whose last gain could still be the best: exact where gains only shrink."""

    tracker: Tracker
    rule: Rule
    eligibility: Eligibility
    rows_per_pass: int  # scoring so many rows afresh costs as much as a pass over all
    first: float | None = None
    _bounds: Tensor | None = None

    def best(self, least_of: LeastGain) -> RowChoice | None:
        if self._bounds is None:
            self._bounds = score_all(self.tracker, self.rule)
            self.first = largest_open(self._bounds, self.eligibility)
        least = least_of(self.first)
        current = self._score_rivals(self._bounds, least)
        if current is None:  # too many rivals: one pass settles them all
            self._bounds = score_all(self.tracker, self.rule)
            scores = self.eligibility.score(self._bounds, least)
            current, _ = leading(scores, self.first, refuse_nan(largest(scores)))
        gains = self._bounds[current]
        scores = self.eligibility.score_some(gains, current, least)
        if len(current) == 0 or float(scores.max()) == -torch.inf:
            return None
        return RowChoice(*best_of(current.tolist(), gains.tolist(), scores.tolist(), self.first))

    def gain_of(self, row: int) -> float:
        return fresh_gain(self.tracker, self.rule, row, None)

    def _score_rivals(self, bounds: Tensor, least: float) -> Int[Tensor, " c"] | None:
        """The rows that were scored afresh until no other can reach the best of them.

        None if that costs more than a pass.
        """
        current = torch.empty(0, dtype=torch.int64, device=bounds.device)
        best, batch = -torch.inf, max(self.rows_per_pass // 8, 4)
        while True:
            waiting = self.eligibility.score(bounds, least)
            waiting[current] = -torch.inf
            top = waiting.topk(min(batch, len(waiting)))
            rivals = top.indices[
                (top.values > -torch.inf) & (top.values >= best - tie_width(best, self.first))
            ]
            if len(rivals) == 0:
                return current
            if len(current) + len(rivals) > self.rows_per_pass:
                return None
            bounds[rivals] = self.rule.gain(self.tracker.state(rivals))
            scores = self.eligibility.score_some(bounds[rivals], rivals, least)
            best, batch = max(best, float(scores.max())), 2 * batch
            current = torch.cat([current, rivals])
