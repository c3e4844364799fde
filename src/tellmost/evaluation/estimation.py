"""estimate(): device, memory, passes and time of a selection, before it is made.

A short selection from the first rows of the pool is timed part by part.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any

import torch
from torch import Tensor

from tellmost import numerics
from tellmost.evaluation.statistics import entry, number, paragraph
from tellmost.posterior.problem import Problem
from tellmost.posterior.weight_tracker import Tracker, track
from tellmost.rows.pool import Pool
from tellmost.rows.sources import HeldRows, Source
from tellmost.rules import Rule
from tellmost.running.memory import Sizes, in_words
from tellmost.running.stopwatch import Stopwatch
from tellmost.running.workers import team, thread_count
from tellmost.selecting.arguments import (
    check_combination,
    check_data,
    check_meaning,
    check_noise,
    check_rule,
    sizes_of,
)
from tellmost.selecting.data import Observed, SelectionData, resolve_noise
from tellmost.selecting.limits import (
    Eligibility,
    Stop,
    Task,
    check_columns_ahead,
    check_enough,
    check_limits,
    check_stop,
)
from tellmost.selecting.loop import Once, run
from tellmost.selecting.select import choose_chooser, find_rounds

TRIAL_BYTES = 64 * 2**20
"""The size of a trial's rows in their own dtype. It is more than the caches hold, so that rows are
read as in a long run, and a trial takes about a second."""

TRIAL_SECONDS = 0.5  # the second trial is made if the first takes at most a quarter of this

TRIAL_MARGIN = 1.5
"""The machine may be faster or slower than in the trial by this factor: because of other work, a
file that is no longer in memory, or caches."""


@dataclass(frozen=True)
class Range:
    """The least, the likely and the largest value."""

    least: float
    likely: float
    most: float


@dataclass(frozen=True)
class Estimate:
    """The device, memory, passes and time that a selection will take."""

    rule: str
    k: int
    rows: int
    features: int
    targets: int
    device: str
    pool: str  # held or streamed
    form: str  # weight space or function space
    data_bytes: int  # of the pool
    memory: int  # bytes needed beyond what you hold, at most
    budget: int  # bytes that may be taken
    columns_ahead: int
    passes: Range  # over the pool, after the first look at it
    seconds: Range
    trial_rows: int  # that were timed

    def facts(self) -> Iterator[tuple[str, str]]:
        """Names, with a text about each."""
        about = f"about {self.targets:,} targets " if self.targets else ""
        yield (
            "selection",
            f"{self.k:,} of {self.rows:,} rows of {self.features:,} features {about}by "
            f"{self.rule}, in {self.form}",
        )
        where = "held in memory" if self.pool == "held" else "streamed, pass by pass"
        yield "device", self.device
        yield "pool", f"{in_words(self.data_bytes)}, {where}"
        yield (
            "memory",
            f"up to {in_words(self.memory)} beyond what you hold; the budget is "
            f"{in_words(self.budget)}",
        )
        least, likely, most = (f"{count:,.0f}" for count in vars(self.passes).values())
        together = f"up to {self.columns_ahead} picks share a pass"
        about = f"about {likely}; at least {least}, at most {most}; {together}"
        yield "passes", least if self.passes.least == self.passes.most else about
        shortest, likely, longest = map(in_time, vars(self.seconds).values())
        yield "time", f"about {likely}; from {shortest} to {longest}"

    def describe(self) -> str:
        """The estimate as text for a terminal."""
        lines = [entry(name, text, 10) for name, text in self.facts()]
        caveat = (
            f"Times come from a short trial on {self.trial_rows:,} rows, on this machine as busy "
            f"as it is now."
        )
        if self.pool == "streamed":
            caveat += " A file that the trial found in memory is read more slowly from the disk."
        return "\n".join([*lines, "", paragraph(caveat)])

    def to_dict(self) -> dict[str, Any]:
        """The estimate for machines, ready for JSON."""
        return asdict(self)


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
    way: str  # how picks are found: "all rows", "once", "in rounds"


def try_out(take: Callable[[int], Task], count: int, device: torch.device) -> TimedTrial:
    """Select a few of the first ``count`` rows of the pool, and take the time."""
    watch = Stopwatch(device)
    with watch.measure("first look"):
        task = take(count)
    few = min(task.stop.picks or 1, numerics.MOST_COLUMNS_AHEAD)
    problem = task.data.problem(task.rule, task.noise, few, task.columns_ahead)
    with watch.measure("set up"):
        tracker = track(problem)
    picks = min(task.stop.picks or 1, max(2 * tracker.width, 8))
    eligibility = Eligibility(task.limits)
    rounds = find_rounds(replace(task, stop=Stop(picks)), tracker, eligibility)
    chooser = choose_chooser(task.rule, tracker, eligibility, conditional=True)
    if isinstance(chooser, Once):
        with watch.measure("set up"):
            chooser.best(task.stop.least)  # scores all rows, and never again
    at_start = tracker.passes
    with watch.measure("picks"):
        run(chooser, tracker, eligibility, Stop(picks), rounds=rounds)
    passes = tracker.passes - at_start
    if not isinstance(chooser, Once):  # which never makes a pass again
        with watch.measure("a pass"):
            tracker.look_ahead(list(range(tracker.width)))
    each_pass = watch.seconds.get("a pass", 0.0)
    way = "once" if isinstance(chooser, Once) else "all rows"
    if rounds is not None:
        way = "in rounds"
    return TimedTrial(
        rows=count,
        first_look=watch.seconds["first look"],
        set_up=watch.seconds["set up"],
        each_pass=each_pass,
        each_pick=max(watch.seconds["picks"] - passes * each_pass, 0.0) / picks,
        per_entry=time_per_entry(tracker, problem, watch),
        form=tracker.form,
        width=tracker.width,
        values=len(getattr(tracker, "running", (None,))),
        keeps_covariance=problem.keeps_covariance,
        passes_at_start=at_start,
        passes_per_pick=passes / picks,
        way=way,
    )


def time_per_entry(tracker: Tracker, problem: Problem, watch: Stopwatch) -> float:
    """The time per entry: in function space a pick reads the columns of all earlier picks."""
    if tracker.form != "function space":
        return 0.0
    columns = torch.ones(
        numerics.LEAST_BLOCK_ROWS, len(problem.rows), dtype=torch.float64, device=problem.device
    )
    weights = columns.new_ones(len(columns))
    with watch.measure("entries"):
        weights @ columns
    posteriors = 2 if problem.sees_targets else 1
    return posteriors * watch.seconds["entries"] / columns.numel()


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


def first_rows(data: SelectionData, count: int) -> SelectionData:
    """Read the first rows, with their share of the memory."""
    some = None if data.candidates is None else data.candidates[data.candidates < count]
    source = data.pool.source
    front: Any = Front(source, count)
    if source.held is not None:
        front = HeldRows(source.held[:count], source.where)
    first = replace(
        data,
        pool=replace(data.pool, source=front),
        candidates=some if some is not None and len(some) > 1 else None,
        observed=Observed(torch.empty(0, dtype=torch.int64)),
        plan=replace(data.plan, kept=data.plan.kept * count // len(data.pool)),
    )
    return first.read().with_density()


def estimate(
    pool: Any,
    targets: Any,
    k: int,
    *,
    rule: str | Rule = "vtl",
    kernel: Any = None,
    noise_ratio: float | None = None,
    noise_std: Any = None,
    normalize: str | None = "auto",
    targets_are: str | None = None,
    observed: Any = None,
    candidates: Any = None,
    target_weights: Any = None,
    replace: bool = False,
    columns_ahead: int | None = None,
    device: Any = None,
    memory: int | str | None = None,
) -> Estimate:
    """Estimate what ``select`` takes with the same arguments, from a trial of about a second.

    Only the first rows of the pool are read, so ``select`` may find a row that is not finite.
    """
    chosen = check_rule(rule)
    check_combination(chosen, targets is not None, replace, True, False)
    stop = check_stop(k, None, None, None, chosen, True)
    assert stop.picks is not None
    ahead = check_columns_ahead(columns_ahead)
    has_targets = targets is not None
    meaning = check_meaning(kernel, normalize, targets_are, chosen, has_targets=has_targets)
    data = check_data(
        pool,
        targets,
        meaning,
        chosen,
        k=stop.picks,
        observed=observed,
        candidates=candidates,
        target_weights=target_weights,
        replace=replace,
        device=device,
        memory=memory,
    )
    ratio, std = check_noise(noise_ratio, noise_std, data)
    check_enough(stop, check_limits(data, chosen, replace=replace))
    k = stop.picks

    def take(count: int) -> Task:
        """The selection of at most half of the first rows."""
        front = first_rows(data, count)
        return Task(
            data=front,
            rule=chosen,
            noise=resolve_noise(front, ratio, std[:count] if isinstance(std, Tensor) else std),
            limits=check_limits(front, chosen, replace=replace),
            stop=Stop(min(k, max(len(front.rows) // 2, 1))),
            columns_ahead=ahead,
        )

    with closing(data.pool.source), torch.inference_mode(), team():
        return sum_up(data, chosen, k, measure(data.pool, take))


def measure(pool: Pool, take: Callable[[int], Task]) -> list[TimedTrial]:
    """Try a quarter of the trial's rows and, if that was quick, all of them."""
    n, width = len(pool), pool.dimension * pool.source.dtype.itemsize
    # fewer rows than features would be treated in function space
    count = min(n, max(TRIAL_BYTES // width, 2 * pool.dimension))
    quarter = max(count // 4, min(n, 2 * pool.dimension))
    # libraries take their time at the first call
    try_out(take, min(n, max(quarter // 4, 1)), pool.device)
    trials = [try_out(take, quarter, pool.device)]
    seconds = trials[0].first_look + trials[0].set_up + trials[0].each_pass
    if count > quarter and seconds <= TRIAL_SECONDS / 4:
        trials.append(try_out(take, count, pool.device))
    return trials


def at_size(trials: list[TimedTrial], part: str, rows: int) -> float:
    """The seconds of a part for so many rows, on a line through the trials, or through zero."""
    last = trials[-1]
    value = getattr(last, part)
    if last.rows == rows:
        return value
    slope = value / last.rows
    if len(trials) > 1:
        rise = value - getattr(trials[0], part)
        slope = min(max(rise / (last.rows - trials[0].rows), 0.0), slope)
    return value + slope * (rows - last.rows)


def sum_up(data: SelectionData, rule: Rule, k: int, trials: list[TimedTrial]) -> Estimate:
    trial, pool, n = trials[-1], data.pool, len(data.pool)
    passes = passes_of(trial, k)
    first = at_size(trials, "first_look", n) + at_size(trials, "set_up", n)
    columns = trial.per_entry * n * k**2 / 2
    picks = k * at_size(trials, "each_pick", n) + columns
    each = at_size(trials, "each_pass", n)
    made = [count - trial.passes_at_start for count in (passes.least, passes.likely, passes.most)]
    least, likely, most = (first + picks + count * each for count in made)
    is_held = data.plan.holds_pool or not pool.is_streamed
    sizes = sizes_of(pool.source, data.targets, data.kernel, rule, k, data.targets_are)
    return Estimate(
        rule=rule.name,
        k=k,
        rows=n,
        features=pool.dimension,
        targets=sizes.targets,
        device=str(pool.device),
        pool="held" if is_held else "streamed",
        form=trial.form,
        data_bytes=sizes.data_bytes,
        memory=memory_of(data, sizes, trial, rule),
        budget=data.plan.budget,
        columns_ahead=trial.width,
        passes=passes,
        seconds=Range(least / TRIAL_MARGIN, likely, most * TRIAL_MARGIN),
        trial_rows=trial.rows,
    )


def passes_of(trial: TimedTrial, k: int) -> Range:
    """Passes to set up, and then one for several picks. After the last pick nothing is read."""
    start, width = trial.passes_at_start, trial.width
    if trial.way == "once":
        least = likely = most = start
    elif trial.way == "in rounds":
        least = start + ceil(k / numerics.MOST_DRAFTED)
        likely, most = max(least, start + ceil(trial.passes_per_pick * k)), start + k
    else:
        least = start + ceil((k - 1) / width)
        hoped = (k - 1) * (1 / width + (1 / numerics.FORECAST_REACH if width > 1 else 0))
        likely, most = start + ceil(hoped), max(start + k, least)
    return Range(least, min(max(likely, least), most), most)


def memory_of(data: SelectionData, sizes: Sizes, trial: TimedTrial, rule: Rule) -> int:
    """The bytes of the plan's parts, and of the columns and covariances that are kept."""
    plan = data.plan
    threads = min(plan.threads, thread_count())
    parts = sizes.for_rows + sizes.for_points + sizes.for_blocks(plan.block_bytes, threads)
    parts += sizes.data_bytes if plan.holds_pool else 0
    kept = 8 * sizes.rows * trial.width * trial.values
    reads_covariance = trial.form == "function space" or "covariance" in rule.needs
    if trial.keeps_covariance and reads_covariance:
        kept += 8 * sizes.rows * sizes.targets
    return parts + min(kept, plan.kept)


def in_time(seconds: float) -> str:
    """0.012 is 12 ms, 90 is 1.5 min."""
    for size, unit in ((3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if seconds >= size:
            return f"{number(seconds / size)} {unit}"
    return f"{number(1000 * seconds)} ms"
