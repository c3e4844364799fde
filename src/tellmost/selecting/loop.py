"""The loop: score every candidate, choose one, condition on it, and repeat.

The rows that may be the best are found by running gains, and measured afresh. Gains within
TIE_TOLERANCE of the best are ties, and go to the lowest index, so the order of the arithmetic
never changes a pick. ``Eager`` also forecasts which rows will be picked next, so that one pass
over the rows prepares several picks. A wrong forecast costs a pass, never a pick.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.posterior.problem import State
from tellmost.posterior.weight_tracker import Tracker
from tellmost.rules import Rule, is_random
from tellmost.running.processes import Shard
from tellmost.selecting.data import Pick
from tellmost.selecting.limits import NO_NUMBERS, Eligibility, Stop, why_stopped
from tellmost.shapes import Bool, Float, Int

if TYPE_CHECKING:
    from tellmost.selecting.checkpoint import Checkpoint
    from tellmost.selecting.fused_rounds import FusedRounds

DRIFT_TOLERANCE = 1e-6
"""The running values are rebuilt when the running and the fresh gains of the leaders differ by
more than this relative distance. It is a tenth of LEADER_BAND, so the true best stays a leader."""

DRIFT_MARGIN = 10.0
"""After a rebuild the drift has to be so many times larger before the next one."""

LEADERS = 64
"""So many of the best rows are scored afresh from the posterior before one is chosen."""

REMEMBERED = 1_024
"""So many of the best rows are kept during a pass over rows that cannot be read singly."""

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


Progress = Callable[[int, int | None, float], None]
"""Is called after each pick with picks so far, picks at most (None: not known), and the gain."""


@dataclass
class Trace:
    """A trace tells what happened, pick by pick."""

    uncertainty_before: float
    picks: list[Pick] = field(default_factory=list)
    stop_reason: str = ""
    resumed: int = 0  # how many picks came from the log


def run(
    chooser: Chooser,
    tracker: Tracker,
    eligibility: Eligibility,
    stop: Stop,
    progress: Progress | None = None,
    log: "Checkpoint | None" = None,
    rounds: "FusedRounds | None" = None,
) -> Trace:
    """Pick until the stop says so or no candidate is left."""
    trace = Trace(_uncertainty(tracker))
    close_copies(tracker, eligibility)
    if (
        log is not None
        and log.made
        and not repeat(log, chooser, tracker, eligibility, stop, trace)
    ):
        trace.stop_reason = stop.reason(chooser.first)
        return trace
    while stop.picks is None or len(trace.picks) < stop.picks:
        left = None if stop.picks is None else stop.picks - len(trace.picks)
        picks = [] if rounds is None else rounds.advance(stop, left, chooser.first)
        picks = picks or pick_one(chooser, tracker, eligibility, stop, left)
        for pick in picks:
            chooser.first = pick.gain if chooser.first is None else chooser.first
            trace.picks.append(pick)
            if log is not None:
                log.add(pick)
            if progress is not None:
                progress(len(trace.picks), stop.picks, pick.gain)
        if not picks:
            trace.stop_reason = why_stopped(eligibility, stop, chooser.first)
            return trace
    trace.stop_reason = "k reached"
    return trace


def pick_one(
    chooser: Chooser, tracker: Tracker, eligibility: Eligibility, stop: Stop, left: int | None
) -> list[Pick]:
    """Choose and observe the best candidate. The list is empty if no gain reaches the least."""
    best = chooser.best(stop.least)
    if best is None:
        return []
    row, is_last = best.row, left == 1
    eligibility.take(row)
    if isinstance(chooser, Eager) and not is_last and not tracker.is_at_hand(row):
        tracker.look_ahead(chooser.expected(best, None if left is None else left - 1))
    tracker.observe(row, update_rows=reads_rows(chooser, tracker, eligibility, is_last=is_last))
    close_copies(tracker, eligibility)
    return [Pick(row, best.gain, _uncertainty(tracker))]


def reads_rows(
    chooser: Chooser, tracker: Tracker, eligibility: Eligibility, *, is_last: bool
) -> bool:
    """Say whether somebody reads the running values of all rows after this pick."""
    if eligibility.is_deduplicated or tracker.targets.state is None:  # mean variance of all rows
        return True
    return isinstance(chooser, Eager) and not is_last


def close_copies(tracker: Tracker, eligibility: Eligibility) -> None:
    """Close the rows that are too similar to what was observed, if copies are not wanted."""
    if eligibility.is_deduplicated:
        eligibility.close_copies(tracker.score(lambda state: state.similarity_to_chosen))


def repeat(
    log: "Checkpoint",
    chooser: Chooser,
    tracker: Tracker,
    eligibility: Eligibility,
    stop: Stop,
    trace: Trace,
) -> bool:
    """Condition on the picks made before, and say whether all of them reach the least gain."""
    chooser.best(stop.least)  # the scale of all gains comes from the first step
    least = stop.least(chooser.first)
    scale = max(abs(chooser.first or 0.0), log.least_scale)
    goes_on = stop.picks is None or len(log.made) < stop.picks
    reads = reads_rows(chooser, tracker, eligibility, is_last=not goes_on)
    made = log.made[: stop.picks]
    for number, pick in enumerate(made, start=1):
        if eligibility.is_closed(pick.row):
            log.contradict(number, "its row may not be picked there")
        if reads and not tracker.is_at_hand(pick.row):
            tracker.look_ahead([p.row for p in made[number - 1 :][: tracker.width]])
        compare(log, number, "gain", pick.gain, chooser.gain_of(pick.row), scale)
        if pick.gain < least - DRIFT_TOLERANCE * abs(least):  # chosen by running gains
            return False
        eligibility.take(pick.row)
        tracker.observe(pick.row, update_rows=reads)
        close_copies(tracker, eligibility)
        left = _uncertainty(tracker)
        compare(log, number, "uncertainty", pick.uncertainty, left, trace.uncertainty_before)
        trace.picks.append(pick)
        trace.resumed += 1
    if goes_on:
        tracker.refresh()  # no choice has looked at the running values on the way
    return True


def compare(
    log: "Checkpoint", number: int, name: str, stored: float, own: float, scale: float
) -> None:
    """Refuse the log if a value of its pick of this number is not what this run finds.

    Running gains drift, and rounding is relative to the ``scale`` at the first step.
    """
    if not abs(stored - own) <= DRIFT_TOLERANCE * abs(own) + log.rounding * scale:
        log.contradict(number, f"its {name} is {stored:.9g} there, and {own:.9g} here")


def _uncertainty(tracker: Tracker) -> float:
    of_targets = tracker.targets.uncertainty()
    return tracker.mean_variance() if of_targets is None else of_targets


@dataclass
class Eager:
    """Scores all rows at every step."""

    tracker: Tracker
    rule: Rule
    eligibility: Eligibility
    first: float | None = None
    _drift_allowed: float = DRIFT_TOLERANCE
    _foreseen: int = 0  # rows of the last forecast
    _since: int = 0  # picks since then
    _held: int = 0  # picks that were foreseen, over all forecasts
    _failed: int = 0  # forecasts that missed a pick

    def best(self, least_of: LeastGain) -> RowChoice | None:
        self._since += 1
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
        gains = self.tracker.score(self.rule.gain)
        if self.first is None:
            self.first = largest_open(gains, self.eligibility)
        scores = self.eligibility.score(gains, least_of(self.first))

        def measure(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            running = fresh = gains[rows]
            if not self.tracker.is_exact and len(rows):
                fresh = self.rule.gain(self.tracker.state(rows))
            return running, fresh, self.eligibility.score_some(fresh, rows)

        return scores, find_leaders(scores, self.first, measure, self.eligibility.shard)

    def expected(self, choice: RowChoice, left: int | None) -> list[int]:
        """The row just chosen and those likely to be chosen next, at most ``left`` in all."""
        width, shard = self._width(), self.eligibility.shard
        count = width if left is None else min(width, left)
        expected = [choice.row] if count <= 1 else self._forecast(choice, count)
        self._foreseen, self._since = len(expected), 0
        if shard is None or count <= 1:
            return expected
        # rounding may differ between processes, and the columns to make may not
        unknown = [-1] * (count - len(expected))
        agreed = shard.group.gather(torch.tensor(expected + unknown))[0]
        return agreed[agreed >= 0].tolist()

    def _width(self) -> int:
        """How many rows to prepare: fewer where the forecasts so far did not reach far.

        What is expected of all forecasts counts as one that failed.
        """
        self._held += min(self._since, self._foreseen)
        self._failed += self._since < self._foreseen
        reach = (self._held + numerics.FORECAST_REACH) / (self._failed + 1)
        return self.tracker.width_for(reach)

    def _forecast(self, choice: RowChoice, count: int) -> list[int]:
        """Greedy selection on the best rows of now; it ignores budget and groups."""
        scores = choice.scores
        assert scores is not None  # the choice is this chooser's own
        if is_random(self.rule):
            scores = self._scores_to_come(count - 1)
        rows, is_open, cost = self._find_shortlist(scores, choice.row)
        if not self.tracker.has_drafts:
            return rows[: 2 * count].tolist()
        draft, expected, is_closed = self.tracker.draft(rows), [0], ~is_open
        while len(expected) < count:
            draft.observe(expected[-1])
            is_closed[expected[-1]] |= not self.eligibility.repeats
            scores = self.rule.gain(draft.state) / cost
            best = int(scores.masked_fill_(is_closed, -torch.inf).argmax())
            if float(scores[best]) == -torch.inf:
                break
            expected.append(best)
        return rows[expected].tolist()

    def _find_shortlist(
        self, scores: Float[Tensor, " n"], leader: int
    ) -> tuple[Int[Tensor, " b"], Bool[Tensor, " b"], Float[Tensor, " b"]]:
        """The leader and the best rows of all processes, from the scores of the rows here.

        With their overall numbers come whether they are open, and what gains are divided by.
        """
        length, shard = self.tracker.shortlist, self.eligibility.shard
        most = min(max(length, REMEMBERED), len(scores))
        rows = self.tracker.problem.rows.at_hand(scores.topk(most).indices)[:length]
        own = leader if shard is None else leader - shard.first
        if 0 <= own < len(scores):
            rows = torch.cat([rows.new_tensor([own]), rows[rows != own]])
        is_open, cost = self.eligibility.terms(rows)
        if shard is None:
            return rows, is_open, cost
        ranks = scores[rows].masked_fill(rows == own, torch.inf)  # the leader first
        numbers = (rows + shard.first).double()
        table = torch.stack([numbers, ranks, is_open.double(), cost], dim=1)
        table, _ = shard.group.join(table[:length], [], length)
        best = table[table[:, 1].topk(min(length, len(table))).indices].to(scores.device)
        return best[:, 0].long(), best[:, 2] > 0, best[:, 3]

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


def fresh_gain(tracker: Tracker, rule: Rule, row: int, shard: Shard | None) -> float:
    """The gain of a row given the picks so far, from the process that has the row."""

    def read(rows: Tensor) -> tuple[Tensor]:
        empty = torch.empty(0, dtype=torch.float64, device=rows.device)
        return (rule.gain(tracker.state(rows)) if len(rows) else empty,)

    number = torch.tensor([row], device=tracker.problem.device)
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
    rows, _ = leading(scores, first, refuse_nan(best))
    return Leaders(rows.tolist(), *(values.tolist() for values in measure(rows)))


def _leaders_of_all(
    best: float, scores: Float[Tensor, " n"], first: float | None, measure: Measure, shard: Shard
) -> Leaders:
    """The leaders of all processes, which decide alike.

    A process compares its rows with the best of its own, which is at most the best of all, so no
    row that ties with the best of all is left out. Where a process had to cut a long list of ties
    short, all make their lists again, compared with the best of all.
    """

    def join(best: float) -> tuple[Leaders, list[list[float]]]:
        rows, is_cut = leading(scores, first, best)
        table = torch.stack([(rows + shard.first).double(), *measure(rows)], dim=1)
        joined, about = shard.group.join(table, [best, is_cut], 2 * LEADERS)
        rows, *values = joined.T.tolist()
        return Leaders([int(row) for row in rows], *values), about

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
    if not len(values):
        return -torch.inf
    return float(values.numpy().max() if values.is_cpu else values.max())


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
    if scores.is_cpu:  # numpy takes a quarter of the time
        leaders = torch.from_numpy(np.flatnonzero(scores.numpy() >= best - band))
    else:
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
