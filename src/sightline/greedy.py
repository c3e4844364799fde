"""The loop: score every candidate, choose one, condition on it, again.

Leaders are scored afresh before one is chosen, and gains within TIE_TOLERANCE of the best are ties
that go to the lowest index, so the order of the arithmetic never changes a pick.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from sightline import numerics
from sightline.eligibility import Eligibility
from sightline.posterior import Tracker
from sightline.rules import Rule
from sightline.shapes import Float, Int

Progress = Callable[[int, int | None, float], None]
"""Called after each pick with picks so far, picks at most (None: not known), and the gain."""


@dataclass(frozen=True)
class Stop:
    """When to end; ``picks`` None: only when the gains or the candidates say so."""

    picks: int | None
    min_gain: float | None = None
    min_gain_share: float | None = None

    def reason(self, gain: float, first: float) -> str | None:
        """Why a best gain this small ends the selection; None if it does not."""
        if self.min_gain is not None and gain < self.min_gain:
            return f"best gain {gain:.3g} below min_gain {self.min_gain:.3g}"
        if self.min_gain_share is not None and gain < self.min_gain_share * first:
            return f"best gain below {self.min_gain_share:.3g} of the first"
        return None


@dataclass
class Trace:
    """What happened, pick by pick."""

    rows: list[int] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)
    uncertainty: list[float] = field(default_factory=list)
    stop_reason: str = ""


def run(
    chooser: "Chooser", tracker: Tracker, eligibility: Eligibility, stop: Stop, progress: Progress
) -> Trace:
    """Pick until the stop says so or no candidate is left."""
    trace = Trace(uncertainty=[_uncertainty(tracker)])
    while stop.picks is None or len(trace.rows) < stop.picks:
        best = chooser.best(first=trace.gains[0] if trace.gains else None)
        if best is None:
            trace.stop_reason = eligibility.why_none()
            return trace
        row, gain = best
        reason = stop.reason(gain, trace.gains[0] if trace.gains else gain)
        if reason is not None:
            trace.stop_reason = reason
            return trace
        eligibility.take(row)
        is_last = len(trace.rows) + 1 == stop.picks  # nobody reads the rows after it
        tracker.observe(row, update_rows=chooser.reads_all_rows and not is_last)
        trace.rows.append(row)
        trace.gains.append(gain)
        trace.uncertainty.append(_uncertainty(tracker))
        progress(len(trace.rows), stop.picks, gain)
    trace.stop_reason = "k reached"
    return trace


def _uncertainty(tracker: Tracker) -> float:
    of_targets = tracker.targets.uncertainty()
    return tracker.mean_variance() if of_targets is None else of_targets


@runtime_checkable
class Chooser(Protocol):
    """Finds the best eligible row."""

    reads_all_rows: bool  # whether the running values of all rows must be current for it

    def best(self, first: float | None) -> tuple[int, float] | None:
        """The best row and its gain, given the first pick's gain; None if no row is eligible."""


@dataclass
class Eager:
    """Scores all rows at every step."""

    tracker: Tracker
    rule: Rule
    eligibility: Eligibility
    reads_all_rows: bool = True
    _drift_allowed: float = numerics.DRIFT_TOLERANCE

    def best(self, first: float | None) -> tuple[int, float] | None:
        leaders, running, fresh = self._leaders(first)
        if len(leaders) == 0:
            return None
        if relative_drift(running, fresh) > self._drift_allowed and self.tracker.refresh():
            leaders, running, fresh = self._leaders(first)
            # what a refresh cannot repair is no drift: the next one has to be well above it
            self._drift_allowed = max(self._drift_allowed, 10 * relative_drift(running, fresh))
        scores = self.eligibility.score_some(fresh, leaders)
        return best_of(leaders, fresh, scores, first)

    def _leaders(self, first: float | None) -> tuple[Tensor, Tensor, Tensor]:
        """The best rows by their running gains, those gains, and the same computed afresh."""
        gains = score_all(self.tracker, self.rule)
        leaders = leading(self.eligibility.score(gains), first)
        fresh = self.rule.gain(self.tracker.state(leaders)) if len(leaders) else gains[leaders]
        return leaders, gains[leaders], fresh


@dataclass
class Once:
    """Scores all rows at the first step only: the paper's top-b, and rules whose gains no
    observation changes. With ``marginal`` it reports the gain given the picks before."""

    tracker: Tracker
    rule: Rule
    eligibility: Eligibility
    marginal: bool
    reads_all_rows: bool = False
    _gains: Tensor | None = None

    def best(self, first: float | None) -> tuple[int, float] | None:
        if self._gains is None:
            self._gains = score_all(self.tracker, self.rule)
        scores = self.eligibility.score(self._gains)
        leaders = leading(scores, first)
        if len(leaders) == 0:
            return None
        row, gain = best_of(leaders, self._gains[leaders], scores[leaders], first)
        if not self.marginal:
            return row, gain
        state = self.tracker.state(torch.tensor([row], device=leaders.device))
        return row, float(self.rule.gain(state))


@dataclass
class Lazy:
    """Scores only rows whose last gain could still be the best: exact where gains only shrink."""

    tracker: Tracker
    rule: Rule
    eligibility: Eligibility
    rows_per_pass: int  # scoring so many rows afresh costs as much as a pass over all
    reads_all_rows: bool = False
    _bounds: Tensor | None = None

    def best(self, first: float | None) -> tuple[int, float] | None:
        if self._bounds is None:
            self._bounds = score_all(self.tracker, self.rule).clone()  # written to below
        current = self._score_rivals(self._bounds, first)
        if current is None:  # too many rivals: one pass settles them all
            self._bounds = score_all(self.tracker, self.rule).clone()
            current = leading(self.eligibility.score(self._bounds), first)
        if len(current) == 0:
            return None
        gains = self._bounds[current]
        return best_of(current, gains, self.eligibility.score_some(gains, current), first)

    def _score_rivals(self, bounds: Tensor, first: float | None) -> Int[Tensor, " c"] | None:
        """Rows scored afresh until no other can reach the best of them; None if that is dearer
        than a pass."""
        current = torch.empty(0, dtype=torch.int64, device=bounds.device)
        best, batch = -torch.inf, max(self.rows_per_pass // 8, 4)
        while True:
            waiting = self.eligibility.score(bounds)
            waiting[current] = -torch.inf
            top = waiting.topk(min(batch, len(waiting)))
            rivals = top.indices[
                (top.values > -torch.inf) & (top.values >= best - tie_width(best, first))
            ]
            if len(rivals) == 0:
                return current
            if len(current) + len(rivals) > self.rows_per_pass:
                return None
            bounds[rivals] = self.rule.gain(self.tracker.state(rivals))
            scores = self.eligibility.score_some(bounds[rivals], rivals)
            best, batch = max(best, float(scores.max())), 2 * batch
            current = torch.cat([current, rivals])


def score_all(tracker: Tracker, rule: Rule) -> Float[Tensor, " n"]:
    """The gain of every row, from the running values."""
    pieces = [rule.gain(state) for _, _, state in tracker.states()]
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


def leading(scores: Float[Tensor, " n"], first: float | None) -> Int[Tensor, " b"]:
    """The rows that may be the best once scored afresh, in ascending order."""
    best = float(scores.max())
    if best == -torch.inf:
        return torch.empty(0, dtype=torch.int64, device=scores.device)
    if best != best:
        raise ValueError("the rule gave NaN as a gain; sightline.testing.check_rule says where.")
    band = numerics.LEADER_BAND * abs(best) + tie_width(best, first)
    leaders = (scores >= best - band).nonzero()[:, 0]
    if len(leaders) <= numerics.LEADERS:
        return leaders
    ties = (scores >= best - tie_width(best, first)).nonzero()[: numerics.LEADERS, 0]
    highest = leaders[scores[leaders].topk(numerics.LEADERS).indices]
    return torch.unique(torch.cat([ties, highest]))


def best_of(
    rows: Int[Tensor, " b"], gains: Tensor, scores: Tensor, first: float | None
) -> tuple[int, float]:
    """The first of the rows whose scores are the best up to ties, and its gain."""
    scored = scores.tolist()  # a few numbers: plain Python is faster here
    best = max(scored)
    least = best - tie_width(best, first)
    numbers = rows.tolist()
    winner = min((n, i) for i, n in enumerate(numbers) if scored[i] >= least)[1]
    return numbers[winner], float(gains[winner])


def tie_width(best: float, first: float | None) -> float:
    """How far below the best a score still ties with it."""
    if best == -torch.inf:
        return 0.0
    return numerics.TIE_TOLERANCE * abs(best) + numerics.TIE_FLOOR * abs(first or 0.0)


def relative_drift(running: Float[Tensor, " b"], fresh: Float[Tensor, " b"]) -> float:
    """How far the running gains of the leaders are from the fresh ones."""
    pairs = list(zip(running.tolist(), fresh.tolist(), strict=True))
    scale = max(abs(value) for _, value in pairs)
    return max(abs(old - new) for old, new in pairs) / scale if scale > 0 else 0.0
