"""The best row is found by scoring all rows at every step, once, or only the promising ones.

The rows that may be the best are found by running gains, measured afresh, and compared up to
ties. ``Eager`` also forecasts which rows will be picked next, so that one pass over the rows
prepares several picks. A wrong forecast costs a pass, never a pick.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from tellmost import numerics
from tellmost.posterior.columns_ahead import shortlist_length
from tellmost.posterior.problem import Problem, State
from tellmost.posterior.weight_tracker import Tracker
from tellmost.rules import CosineSimilarity, Random, Rule, TopK, is_random
from tellmost.running.processes import Shard
from tellmost.selecting.limits import Eligibility
from tellmost.shapes import Bool, Float, Int

DRIFT_TOLERANCE = 1e-7
"""The running values are rebuilt when the running and the fresh gains of the leaders differ by
more than this relative distance. It is a hundredth of LEADER_BAND, so the true best stays a
leader."""

DRIFT_MARGIN = 10.0
"""After a rebuild the drift has to be so many times larger before the next one."""

LEADERS = 64
"""So many of the best rows are scored afresh from the posterior before one is chosen."""

REMEMBERED = 1_024
"""So many of the best rows are kept during a pass over rows that cannot be read singly."""

FIXED = (CosineSimilarity, Random, TopK)
"""Rules whose gains no observation changes, so that they are scored once."""

NO_NUMBERS = (
    "the rule gave NaN or an infinity as a gain. (a) The noise is so small beside the prior "
    "variance that float64 cannot tell what is left from rounding: raise noise_std or "
    "noise_ratio; a ratio of 1e-12 is safe. (b) The rule is your own: "
    "tellmost.testing.check_rule says where."
)

LeastGain = Callable[[float | None], float]
"""The smallest gain that is still picked, given the largest gain at the first step."""


@dataclass(frozen=True)
class RowChoice:
    """The best eligible row by its overall number, its gain, and what it was compared with."""

    row: int
    gain: float
    scores: Float[Tensor, " n"] | None = None  # of all rows here, where all were scored for it


@runtime_checkable
class Chooser(Protocol):
    """Finds the best eligible row."""

    first: float | None  # the largest gain at the first step: the scale of all gains

    def best(self, least_of: LeastGain) -> RowChoice | None:
        """The best eligible row; None if no gain reaches the least."""

    def gain_of(self, row: int) -> float:
        """The gain that a row, by its overall number, would be picked with now."""


def choose_chooser(
    rule: Rule,
    problem: Problem,
    tracker: Tracker,
    eligibility: Eligibility,
    *,
    conditional: bool,
    has_rounds: bool,
) -> Chooser:
    changes = not isinstance(rule, FIXED) or eligibility.repeats
    if not conditional or not changes:
        return Once(tracker, rule, eligibility, marginal=changes)
    can_wait = rule.needs <= {"variance"}  # other running values are brought up to date each time
    can_jump = problem.rows.source.jumps  # else the rows to score afresh cost a pass
    can_be_lazy = rule.gains_only_shrink and can_wait and can_jump and problem.targets is not None
    if can_be_lazy and not has_rounds and problem.shard is None:
        rows_per_pass = len(problem.rows) // max(problem.rows.dimension, 1)
        return Lazy(tracker, rule, eligibility, rows_per_pass)
    return Eager(tracker, rule, eligibility, shortlist_length(problem, tracker.width))


@dataclass
class Eager:
    """Scores all rows at every step."""

    tracker: Tracker
    rule: Rule
    eligibility: Eligibility
    shortlist: int  # rows that a forecast looks at
    first: float | None = None
    _drift_allowed: float = DRIFT_TOLERANCE

    def best(self, least_of: LeastGain) -> RowChoice | None:
        scores, leaders = self._leaders(least_of)
        if not leaders.rows:
            return None
        if leaders.drift > self._drift_allowed and self.tracker.refresh():
            scores, leaders = self._leaders(least_of)
            # what a refresh cannot repair is no drift: the next one has to be well above it
            beyond = DRIFT_MARGIN * leaders.drift
            self._drift_allowed = max(self._drift_allowed, beyond)
        return RowChoice(*leaders.best(self.first), scores)

    def gain_of(self, row: int) -> float:
        return fresh_gain(self.tracker, self.rule, row, self.eligibility.shard)

    def _leaders(self, least_of: LeastGain) -> "tuple[Float[Tensor, ' n'], Leaders]":
        """The scores of all rows, and the best rows by these, measured afresh."""
        gains = score_all(self.tracker, self.rule)
        if self.first is None:
            self.first = largest_open(gains, self.eligibility)
        scores = self.eligibility.score(gains, least_of(self.first))

        def measure(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            fresh = self.rule.gain(self.tracker.state(rows)) if len(rows) else gains[rows]
            return gains[rows], fresh, self.eligibility.score_some(fresh, rows)

        return scores, find_leaders(scores, self.first, measure, self.eligibility.shard)

    def expected(self, choice: RowChoice, left: int | None) -> list[int]:
        """The row just chosen and those likely to be chosen next, at most ``left`` in all."""
        width = self.tracker.width
        count = width if left is None else min(width, left)
        if count <= 1:
            return [choice.row]
        expected = self._forecast(choice, count)
        shard = self.eligibility.shard
        if shard is None:
            return expected
        # rounding may differ between processes, and the columns to make may not
        unknown = [-1] * (count - len(expected))
        agreed = shard.group.gather(torch.tensor(expected + unknown))[0]
        return agreed[agreed >= 0].tolist()

    def _forecast(self, choice: RowChoice, count: int) -> list[int]:
        """Greedy selection on the best rows of now; it ignores budget and groups."""
        scores = choice.scores
        assert scores is not None  # the choice is this chooser's own
        if is_random(self.rule):
            scores = self._scores_to_come(count - 1)
        shortlist = self._find_shortlist(scores).led_by(choice.row)
        draft, expected = self.tracker.draft(shortlist.rows), [0]
        is_open = shortlist.is_open.clone()
        while len(expected) < count:
            draft.observe(expected[-1])
            is_open[expected[-1]] &= self.eligibility.repeats
            scores = self.rule.gain(draft.state) / shortlist.cost
            scores = scores.masked_fill(~is_open, -torch.inf)
            best = int(scores.argmax())
            if float(scores[best]) == -torch.inf:
                break
            expected.append(best)
        return shortlist.rows[expected].tolist()

    def _find_shortlist(self, scores: Float[Tensor, " n"]) -> "Shortlist":
        """The best rows of all processes, from the scores of the rows here."""
        length = self.shortlist
        most = min(max(length, REMEMBERED), len(scores))
        rows = self.tracker.shortlisted(scores.topk(most).indices)[:length]
        is_open, cost = self.eligibility.terms(rows)
        table = torch.stack([rows.double(), scores[rows], is_open.double(), cost], dim=1)
        if (shard := self.eligibility.shard) is not None:
            table[:, 0] += shard.first
            table, _ = shard.group.join(table, [], length)
        best = table[table[:, 1].topk(min(length, len(table))).indices].to(scores.device)
        return Shortlist(best[:, 0].long(), best[:, 2] > 0, best[:, 3])

    def _scores_to_come(self, steps: int) -> Float[Tensor, " n"]:
        """Score how near each row comes to the best of any of the next steps, by draws alone.

        A rule that draws at random draws anew at each step, and a draw is known before its step.
        """
        nearest = torch.full_like(self.eligibility.closed, -torch.inf, dtype=torch.float64)
        for ahead in range(1, steps + 1):

            def gain(state: State, ahead: int = ahead) -> Tensor:
                return self.rule.gain(replace(state, step=state.step + ahead))

            scores = self.eligibility.score(self.tracker.score(gain))
            best = float(scores.max()) if len(scores) else 0.0
            nearest = torch.maximum(nearest, scores / best if best > 0 else scores)
        return nearest


@dataclass(frozen=True)
class Shortlist:
    """The best rows by their scores, with their overall numbers."""

    rows: Int[Tensor, " b"]
    is_open: Bool[Tensor, " b"]
    cost: Float[Tensor, " b"]  # what gains are divided by

    def led_by(self, row: int) -> "Shortlist":
        """The same with this row, which may be missing, in front."""
        order = torch.cat([(self.rows == row).nonzero()[:, 0], (self.rows != row).nonzero()[:, 0]])
        led = Shortlist(self.rows[order], self.is_open[order], self.cost[order])
        if len(led.rows) and int(led.rows[0]) == row:
            return led
        return Shortlist(
            torch.cat([led.rows.new_tensor([row]), led.rows]),
            torch.cat([led.is_open.new_zeros(1), led.is_open]),
            torch.cat([led.cost.new_ones(1), led.cost]),
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


def score_all(tracker: Tracker, rule: Rule) -> Float[Tensor, " n"]:
    """The gain of every row, from the running values."""
    return tracker.score(rule.gain)


def fresh_gain(tracker: Tracker, rule: Rule, row: int, shard: Shard | None) -> float:
    """The gain of a row given the picks so far, from the process that has the row."""

    def read(rows: Tensor) -> tuple[Tensor]:
        empty = torch.empty(0, dtype=torch.float64, device=rows.device)
        return (rule.gain(tracker.state(rows)) if len(rows) else empty,)

    number = torch.tensor([row], device=tracker.device)
    return float((read(number) if shard is None else shard.collect(number, read))[0])


Measure = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
"""The running gains, fresh gains and scores of some rows of this process."""


@dataclass(frozen=True)
class Leaders:
    """Rows by their overall numbers, with their running gains, fresh gains and scores."""

    rows: list[int]
    running: list[float]
    gains: list[float]
    scores: list[float]

    def best(self, first: float | None) -> tuple[int, float]:
        return best_of(self.rows, self.gains, self.scores, first)

    @classmethod
    def of(cls, table: Float[Tensor, "b 4"]) -> "Leaders":
        """Leaders from a table with a row for each."""
        rows, *values = table.T.tolist()
        return cls([int(row) for row in rows], *values)

    @property
    def drift(self) -> float:
        """The running gains are so far from the fresh ones, relative to the largest."""
        scale = max(abs(gain) for gain in self.gains)
        pairs = zip(self.running, self.gains, strict=True)
        return max(abs(old - new) for old, new in pairs) / scale if scale > 0 else 0.0


def find_leaders(
    scores: Float[Tensor, " n"], first: float | None, measure: Measure, shard: Shard | None
) -> Leaders:
    """The rows of all processes that may be the best, from the scores of the rows here."""
    best = largest(scores)
    if shard is not None:
        return _leaders_of_all(best, scores, first, measure, shard)
    table, _ = _compared_with(refuse_nan(best), scores, first, measure)
    return Leaders.of(table)


def _compared_with(
    best: float, scores: Float[Tensor, " n"], first: float | None, measure: Measure
) -> tuple[Float[Tensor, "b 4"], bool]:
    """The leaders here if this is the best score, and whether some of them are left out."""
    rows, is_cut = leading(scores, first, best)
    return torch.stack([rows.to(torch.float64), *measure(rows)], dim=1), is_cut


def _leaders_of_all(
    best: float, scores: Float[Tensor, " n"], first: float | None, measure: Measure, shard: Shard
) -> Leaders:
    """The leaders of all processes, which decide alike.

    A process compares its rows with the best of its own, which is at most the best of all, so no
    row that ties with the best of all is left out. Where a process had to cut a long list of ties
    short, all make their lists again, compared with the best of all.
    """

    def join(best: float) -> tuple[Leaders, list[list[float]]]:
        table, is_cut = _compared_with(best, scores, first, measure)
        table[:, 0] += shard.first
        joined, about = shard.group.join(table, [best, is_cut], 2 * LEADERS)
        return Leaders.of(joined), about

    leaders, about = join(best)
    overall = max(refuse_nan(best) for best, _ in about)
    least = overall - tie_width(overall, first)
    if any(is_cut and least <= best < overall for best, is_cut in about):
        leaders, _ = join(overall)
    return leaders


def refuse_nan(best: float) -> float:
    if best != best:
        raise ValueError(NO_NUMBERS)
    return best


def largest(values: Float[Tensor, " n"]) -> float:
    return float(values.max()) if len(values) else -torch.inf


def largest_open(gains: Float[Tensor, " n"], eligibility: Eligibility) -> float | None:
    """The largest gain of an eligible row, whatever it costs; None if there is none."""
    here = largest(gains.masked_fill(eligibility.closed, -torch.inf))
    overall = here if eligibility.shard is None else eligibility.shard.most(here)
    return None if overall == -torch.inf else overall


def leading(
    scores: Float[Tensor, " n"], first: float | None, best: float
) -> tuple[Int[Tensor, " b"], bool]:
    """The rows that may be the best once scored afresh, and whether some are left out."""
    if best == -torch.inf or best != best:
        return torch.empty(0, dtype=torch.int64, device=scores.device), False
    band = numerics.LEADER_BAND * abs(best) + tie_width(best, first)
    leaders = (scores >= best - band).nonzero()[:, 0]
    if len(leaders) <= LEADERS:
        return leaders, False
    ties = (scores >= best - tie_width(best, first)).nonzero()[:LEADERS, 0]
    highest = leaders[scores[leaders].topk(LEADERS).indices]
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
    """A score may lie so far below the best and still tie with it."""
    if best == -torch.inf:
        return 0.0
    return numerics.TIE_TOLERANCE * abs(best) + numerics.TIE_FLOOR * abs(first or 0.0)
