"""How the best row is found: scoring all rows at every step, once, or only the promising ones.

The rows that may be the best: found by running gains, measured afresh, compared up to ties.

Processes that share a pool bring their own leaders together and decide alike. A process compares
its rows with the best of its own, which is at most the best of all, so no row that ties with the
best of all is left out; where it had to cut a long list of ties short, it makes the list again,
compared with the best of all.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from tellmost import numerics
from tellmost.posterior.weight_tracker import Tracker
from tellmost.rules import Rule, is_random
from tellmost.running.processes import Place
from tellmost.selecting.forecast import find_shortlist, forecast, scores_to_come
from tellmost.selecting.limits import Eligibility
from tellmost.shapes import Float, Int

DRIFT_MARGIN = 10.0
"""How far above the drift that a rebuild leaves the next one has to be."""


Measure = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
"""Running gains, gains and scores of some rows of this process."""


NO_NUMBERS = (
    "the rule gave NaN or an infinity as a gain. (a) The noise is so small beside the prior "
    "variance that float64 cannot tell what is left from rounding: raise noise_std or "
    "noise_ratio; a ratio of 1e-12 is safe. (b) The rule is your own: "
    "tellmost.testing.check_rule says where."
)


@dataclass(frozen=True)
class Leaders:
    """Rows by their overall numbers, with their running gains, fresh gains and scores."""

    rows: list[int]
    running: list[float]
    gains: list[float]
    scores: list[float]

    def best(self, first: float | None) -> tuple[int, float]:
        return best_of(self.rows, self.gains, self.scores, first)

    @property
    def drift(self) -> float:
        """How far the running gains are from the fresh ones, relative to the largest."""
        scale = max(abs(gain) for gain in self.gains)
        pairs = zip(self.running, self.gains, strict=True)
        return max(abs(old - new) for old, new in pairs) / scale if scale > 0 else 0.0


def find_leaders(
    place: Place, scores: Float[Tensor, " n"], first: float | None, measure: Measure
) -> Leaders:
    """The leaders of all processes, from the scores of the rows here."""
    leaders, about = _compared_with(largest(scores), place, scores, first, measure)
    overall = best_of_all([best for best, _ in about])
    if _is_lossy(about, overall, first):
        leaders, _ = _compared_with(overall, place, scores, first, measure)
    return leaders


def _compared_with(
    best: float, place: Place, scores: Float[Tensor, " n"], first: float | None, measure: Measure
) -> tuple[Leaders, list[list[float]]]:
    """The leaders of all, and of each process its best and whether its list was cut short."""
    rows, is_cut = leading(scores, first, best)
    numbers = (rows + place.first).to(torch.float64)
    table = torch.stack([numbers, *measure(rows)], dim=1)
    joined, about = place.exchange.join(table, [best, is_cut], 2 * numerics.LEADERS)
    columns = joined.T.tolist()
    return Leaders([int(number) for number in columns[0]], *columns[1:]), about


def best_of_all(bests: list[float]) -> float:
    if any(best != best for best in bests):
        raise ValueError(NO_NUMBERS)
    return max(bests)


def _is_lossy(about: list[list[float]], overall: float, first: float | None) -> bool:
    """Whether a process cut its leaders short in a comparison with less than the best of all."""
    least = overall - tie_width(overall, first)
    return any(is_cut and least <= best < overall for best, is_cut in about)


def largest(values: Float[Tensor, " n"]) -> float:
    return float(values.max()) if len(values) else -torch.inf


def largest_open(
    gains: Float[Tensor, " n"], eligibility: Eligibility, place: Place
) -> float | None:
    """The largest gain of an eligible row, whatever it costs; None if there is none."""
    here = largest(gains.masked_fill(eligibility.closed, -torch.inf))
    overall = float(place.exchange.gather(torch.tensor(here, dtype=torch.float64)).max())
    return None if overall == -torch.inf else overall


def leading(
    scores: Float[Tensor, " n"], first: float | None, best: float
) -> tuple[Int[Tensor, " b"], bool]:
    """The rows that may be the best once scored afresh, ascending; whether some are left out."""
    if best == -torch.inf or best != best:
        return torch.empty(0, dtype=torch.int64, device=scores.device), False
    band = numerics.LEADER_BAND * abs(best) + tie_width(best, first)
    leaders = (scores >= best - band).nonzero()[:, 0]
    if len(leaders) <= numerics.LEADERS:
        return leaders, False
    ties = (scores >= best - tie_width(best, first)).nonzero()[: numerics.LEADERS, 0]
    highest = leaders[scores[leaders].topk(numerics.LEADERS).indices]
    return torch.unique(torch.cat([ties, highest])), True


def best_of(
    rows: list[int], gains: list[float], scores: list[float], first: float | None
) -> tuple[int, float]:
    """The first of the rows whose scores are the best up to ties, and its gain."""
    best = max(scores)  # a few numbers: plain Python is faster here
    if not all(score < inf for score in scores):  # NaN is not; -inf is: a gain below the least
        raise ValueError(NO_NUMBERS)
    least = best - tie_width(best, first)
    winner = min((row, i) for i, row in enumerate(rows) if scores[i] >= least)[1]
    return rows[winner], gains[winner]


def tie_width(best: float, first: float | None) -> float:
    """How far below the best a score still ties with it."""
    if best == -torch.inf:
        return 0.0
    return numerics.TIE_TOLERANCE * abs(best) + numerics.TIE_FLOOR * abs(first or 0.0)


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
            beyond = DRIFT_MARGIN * leaders.drift
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
