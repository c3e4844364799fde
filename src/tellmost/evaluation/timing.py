"""A short selection from the first rows of a pool, with the time that each part of it takes."""

import time
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tellmost import numerics
from tellmost.posterior.problem import Problem
from tellmost.posterior.weight_tracker import Tracker, track
from tellmost.rows.sources import HeldRows, Source
from tellmost.rules import Rule
from tellmost.selecting.choosers import Chooser, Lazy, Once, choose_chooser
from tellmost.selecting.data import Observed, SelectionData, resolve_noise
from tellmost.selecting.limits import Eligibility, Stop, check_limits
from tellmost.selecting.loop import run
from tellmost.selecting.select import Task, find_rounds

WAYS = {Once: "once", Lazy: "lazily"}
"""Words for how these choosers find a row. Others score all rows each time."""


@dataclass(frozen=True)
class Request:
    """A selection whose arguments are checked and whose pool is not read yet."""

    data: SelectionData
    rule: Rule
    ratio: float | None
    std: float | Tensor | None
    k: int
    columns_ahead: int | None
    replace: bool

    def of_front(self, count: int) -> Task:
        """Read the first rows, with their share of the memory, to pick at most half of them."""
        data, n = self.data, len(self.data.pool)
        candidates = data.candidates
        some = None if candidates is None else candidates[candidates < count]
        some = some if some is not None and len(some) > 1 else None
        std = self.std[:count] if isinstance(self.std, Tensor) else self.std
        data = replace(
            data,
            pool=replace(data.pool, source=front_of(data.pool.source, count)),
            candidates=some,
            observed=Observed(torch.empty(0, dtype=torch.int64)),
            plan=replace(data.plan, kept=data.plan.kept * count // n),
        ).read()
        return Task(
            data=data,
            rule=self.rule,
            noise=resolve_noise(data, self.ratio, std),
            limits=check_limits(data, self.rule, replace=self.replace),
            stop=Stop(min(self.k, max(len(data.rows) // 2, 1))),
            columns_ahead=self.columns_ahead,
        )


@dataclass(frozen=True)
class TimedTrial:
    """The seconds that each part of a selection takes for so many rows."""

    rows: int
    first_look: float  # reading, checking, normalising
    set_up: float
    each_pass: float  # that makes columns
    each_pick: float  # beside its share of passes
    per_entry: float  # of a column of an earlier pick, for one row; function space only
    form: str
    width: int  # columns that a pass makes
    values: int  # running values per row
    keeps_covariance: bool
    passes_at_start: int
    passes_per_pick: float
    way: str  # how picks are found: "all rows", "once", "lazily", "in rounds"


class Watch:
    """The seconds since the last lap. A GPU finishes its work first."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._last = device, 0.0
        self.lap()

    def lap(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        now = time.perf_counter()
        passed, self._last = now - self._last, now
        return passed


def try_out(request: Request, count: int) -> TimedTrial:
    """Select a few of the first ``count`` rows of the pool, and take the time."""
    watch = Watch(request.data.pool.device)
    task = request.of_front(count)
    first_look = watch.lap()
    few = min(task.stop.picks or 1, numerics.MOST_COLUMNS_AHEAD)
    problem = task.data.problem(request.rule, task.noise, few, request.columns_ahead)
    watch.lap()
    tracker = track(problem)
    set_up = watch.lap()
    picks = min(task.stop.picks or 1, max(2 * tracker.width, 8))
    eligibility = Eligibility(task.limits)
    rounds = find_rounds(replace(task, stop=Stop(picks)), tracker, eligibility)
    chooser = choose_chooser(
        task.rule, problem, tracker, eligibility, conditional=True, has_rounds=rounds is not None
    )
    watch.lap()
    if isinstance(chooser, Once | Lazy):
        chooser.best(task.stop.least)  # scores all rows, and never again
    set_up, at_start = set_up + watch.lap(), tracker.passes
    run(chooser, tracker, eligibility, Stop(picks), rounds=rounds)
    running, passes = watch.lap(), tracker.passes - at_start
    each_pass = time_of_pass(tracker, chooser, watch)
    return TimedTrial(
        rows=count,
        first_look=first_look,
        set_up=set_up,
        each_pass=each_pass,
        each_pick=max(running - passes * each_pass, 0.0) / picks,
        per_entry=time_per_entry(tracker, problem, watch),
        form=tracker.form,
        width=tracker.width,
        values=len(getattr(tracker, "running", (None,))),
        keeps_covariance=problem.keeps_covariance,
        passes_at_start=at_start,
        passes_per_pick=passes / picks,
        way="in rounds" if rounds is not None else WAYS.get(type(chooser), "all rows"),
    )


def time_of_pass(tracker: Tracker, chooser: Chooser, watch: Watch) -> float:
    """The seconds to make as many columns as a pass makes, or 0 if no pass is ever made."""
    if isinstance(chooser, Once):
        return 0.0
    watch.lap()
    tracker.look_ahead(list(range(tracker.width)))
    return watch.lap()


def time_per_entry(tracker: Tracker, problem: Problem, watch: Watch) -> float:
    """The time per entry: in function space a pick reads the columns of all earlier picks."""
    if tracker.form != "function space":
        return 0.0
    columns = torch.ones(
        numerics.LEAST_BLOCK_ROWS, len(problem.rows), dtype=torch.float64, device=problem.device
    )
    weights = columns.new_ones(len(columns))
    watch.lap()
    weights @ columns
    posteriors = 2 if problem.sees_targets else 1
    return posteriors * watch.lap() / columns.numel()


def front_of(source: Source, count: int) -> Source:
    """A view of rows in memory, or else the same reading of fewer rows."""
    if source.held is not None:
        return HeldRows(source.held[:count], source.where)
    front: Any = Front(source, count)
    return front


class Front:
    """The first rows of a source that is read whenever rows are needed."""

    held = None

    def __init__(self, source: Source, count: int) -> None:
        self._source = source
        self.shape = (count, *source.shape[1:])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)  # the first rows are read as all rows are

    def close(self) -> None:
        """Leave the source open, since it is still needed."""
