"""The loop: score every candidate, choose one, condition on it, and repeat.

The best rows are scored afresh before one is chosen. Gains within TIE_TOLERANCE of the best are
ties, and go to the lowest index, so the order of the arithmetic never changes a pick.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tellmost.posterior.weight_tracker import Tracker
from tellmost.selecting.checkpoint import Checkpoint
from tellmost.selecting.choosers import DRIFT_TOLERANCE, NO_NUMBERS, Chooser, Eager
from tellmost.selecting.data import Pick
from tellmost.selecting.limits import Eligibility, Stop

if TYPE_CHECKING:
    from tellmost.selecting.fused_rounds import FusedRounds

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
    log: Checkpoint | None = None,
    rounds: "FusedRounds | None" = None,
) -> Trace:
    """Pick until the stop says so or no candidate is left."""
    trace = Trace(_uncertainty(tracker))
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


def why_stopped(eligibility: Eligibility, stop: Stop, first: float | None) -> str:
    """Say why no candidate was picked."""
    if eligibility.is_empty:
        return eligibility.why_none()
    if stop.min_gain is None and stop.min_gain_share is None:
        raise ValueError(NO_NUMBERS)  # every gain is below any number
    return stop.reason(first)


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
    # nobody reads the running values of all rows after the last pick
    tracker.observe(row, update_rows=isinstance(chooser, Eager) and not is_last)
    return [Pick(row, best.gain, _uncertainty(tracker))]


def repeat(
    log: Checkpoint,
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
    reads = isinstance(chooser, Eager) and goes_on
    reads = reads or tracker.targets.uncertainty() is None  # it is the mean over the rows then
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
        left = _uncertainty(tracker)
        compare(log, number, "uncertainty", pick.uncertainty, left, trace.uncertainty_before)
        trace.picks.append(pick)
        trace.resumed += 1
    if goes_on:
        tracker.refresh()  # no choice has looked at the running values on the way
    return True


def compare(
    log: Checkpoint, number: int, name: str, stored: float, own: float, scale: float
) -> None:
    """Refuse the log if a value of its pick of this number is not what this run finds.

    Running gains drift, and rounding is relative to the ``scale`` at the first step.
    """
    if not abs(stored - own) <= DRIFT_TOLERANCE * abs(own) + log.rounding * scale:
        log.contradict(number, f"its {name} is {stored:.9g} there, and {own:.9g} here")


def _uncertainty(tracker: Tracker) -> float:
    of_targets = tracker.targets.uncertainty()
    return tracker.mean_variance() if of_targets is None else of_targets
