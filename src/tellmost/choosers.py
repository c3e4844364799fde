"""How the best row is found: scoring all rows at every step, once, or only the promising ones."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from tellmost import numerics
from tellmost.eligibility import Eligibility
from tellmost.forecasting import find_shortlist, forecast, scores_to_come
from tellmost.leaders import (
    Leaders,
    best_of,
    best_of_all,
    find_leaders,
    largest,
    largest_open,
    leading,
    tie_width,
)
from tellmost.posterior.tracking import Tracker
from tellmost.rules import Rule
from tellmost.rules.rule import is_random
from tellmost.running.processes import Place
from tellmost.shapes import Float, Int

LeastGain = Callable[[float | None], float]
"""The smallest gain that is still picked, given the largest gain at the first step."""


@runtime_checkable
class Chooser(Protocol):
    """Finds the best eligible row."""

    reads_all_rows: bool  # whether the running values of all rows must be current for it
    first: float | None  # the largest gain at the first step: the scale of all gains

    def best(self, least_of: LeastGain) -> tuple[int, float] | None:
        """The best eligible row and its gain; None if no gain reaches the least."""

    def expected(self, row: int, left: int | None) -> list[int]:
        """The row just chosen and those likely to be chosen next, at most ``left`` in all."""


@dataclass
class Eager:
    """Scores all rows at every step."""

    tracker: Tracker
    rule: Rule
    eligibility: Eligibility
    place: Place  # of the rows among those of all processes
    shortlist: int  # rows that a forecast looks at
    reads_all_rows: bool = True
    first: float | None = None
    _drift_allowed: float = numerics.DRIFT_TOLERANCE
    _scores: Tensor = field(default_factory=lambda: torch.empty(0))  # of the last step

    def best(self, least_of: LeastGain) -> tuple[int, float] | None:
        leaders = self._leaders(least_of)
        if not leaders.rows:
            return None
        if leaders.drift > self._drift_allowed and self.tracker.refresh():
            leaders = self._leaders(least_of)
            # what a refresh cannot repair is no drift: the next one has to be well above it
            beyond = numerics.DRIFT_MARGIN * leaders.drift
            self._drift_allowed = max(self._drift_allowed, beyond)
        return leaders.best(self.first)

    def expected(self, row: int, left: int | None) -> list[int]:
        width = self.tracker.width
        count = width if left is None else min(width, left)
        if count <= 1:
            return [row]
        scores = self._scores
        if is_random(self.rule):
            scores = scores_to_come(self.tracker, self.rule, self.eligibility, count - 1)
        shortlist = find_shortlist(
            scores, self.tracker, self.eligibility, self.place, self.shortlist
        )
        repeats = self.eligibility.repeats
        expected = forecast(self.tracker, self.rule, shortlist, row, count, repeats=repeats)
        unknown = [-1] * (count - len(expected))
        # rounding may differ between processes, and the columns to make may not
        agreed = self.place.exchange.gather(torch.tensor(expected + unknown))[0]
        return agreed[agreed >= 0].tolist()

    def _leaders(self, least_of: LeastGain) -> Leaders:
        """The best rows by their running gains, measured afresh."""
        gains = score_all(self.tracker, self.rule)
        if self.first is None:
            self.first = largest_open(gains, self.eligibility, self.place)
        self._scores = self.eligibility.score(gains, least_of(self.first))

        def measure(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            fresh = self.rule.gain(self.tracker.state(rows)) if len(rows) else gains[rows]
            return gains[rows], fresh, self.eligibility.score_some(fresh, rows)

        return find_leaders(self.place, self._scores, self.first, measure)


@dataclass
class Once:
    """Scores all rows at the first step only: the paper's top-b, and rules whose gains no
    observation changes. With ``marginal`` it reports the gain given the picks before."""

    tracker: Tracker
    rule: Rule
    eligibility: Eligibility
    place: Place  # of the rows among those of all processes
    marginal: bool
    reads_all_rows: bool = False
    first: float | None = None
    _gains: Tensor | None = None

    def best(self, least_of: LeastGain) -> tuple[int, float] | None:
        if self._gains is None:
            self._gains = score_all(self.tracker, self.rule)
            self.first = largest_open(self._gains, self.eligibility, self.place)
        gains, scores = self._gains, self.eligibility.score(self._gains, least_of(self.first))
        leaders = find_leaders(
            self.place, scores, self.first, lambda rows: (gains[rows], gains[rows], scores[rows])
        )
        if not leaders.rows:
            return None
        row, gain = leaders.best(self.first)
        return row, self._gain_of(row) if self.marginal else gain

    def _gain_of(self, row: int) -> float:
        """Given the picks so far, from the process that has the row."""

        def read(rows: Tensor) -> tuple[Tensor]:
            empty = torch.empty(0, dtype=torch.float64, device=rows.device)
            return (self.rule.gain(self.tracker.state(rows)) if len(rows) else empty,)

        number = torch.tensor([row], device=self.tracker.device)
        return float(self.place.collect(number, read)[0])

    def expected(self, row: int, left: int | None) -> list[int]:
        return [row]


@dataclass
class Lazy:
    """Scores only rows whose last gain could still be the best: exact where gains only shrink."""

    tracker: Tracker
    rule: Rule
    eligibility: Eligibility
    place: Place  # of all rows: one process holds them
    rows_per_pass: int  # scoring so many rows afresh costs as much as a pass over all
    reads_all_rows: bool = False
    first: float | None = None
    _bounds: Tensor | None = None

    def best(self, least_of: LeastGain) -> tuple[int, float] | None:
        if self._bounds is None:
            self._bounds = score_all(self.tracker, self.rule).clone()  # written to below
            self.first = largest_open(self._bounds, self.eligibility, self.place)
        least = least_of(self.first)
        current = self._score_rivals(self._bounds, least)
        if current is None:  # too many rivals: one pass settles them all
            self._bounds = score_all(self.tracker, self.rule).clone()
            scores = self.eligibility.score(self._bounds, least)
            current, _ = leading(scores, self.first, best_of_all([largest(scores)]))
        gains = self._bounds[current]
        scores = self.eligibility.score_some(gains, current, least)
        if len(current) == 0 or float(scores.max()) == -torch.inf:
            return None
        return best_of(current.tolist(), gains.tolist(), scores.tolist(), self.first)

    def expected(self, row: int, left: int | None) -> list[int]:
        return [row]

    def _score_rivals(self, bounds: Tensor, least: float) -> Int[Tensor, " c"] | None:
        """Rows scored afresh until no other can reach the best of them; None if that is dearer
        than a pass."""
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


def score_all(tracker: Tracker, rule: Rule) -> Float[Tensor, " n"]:
    """The gain of every row, from the running values."""
    pieces = [rule.gain(state) for _, _, state in tracker.states()]
    none = torch.empty(0, dtype=torch.float64, device=tracker.device)
    return pieces[0] if len(pieces) == 1 else torch.cat([none, *pieces])
