"""One run: a method on a task with a seed. Many of them, side by side, kept on disk."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from time import process_time
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tellmost.running.writing import written_whole
from tellmost.safebo import MiscalibratedModel, NoSafePoint, Query, Recommendation, SafeOptimizer
from tellmost.shapes import Bool, Float, Int
from tellmost_reproduction.frame.pool import run_beside
from tellmost_reproduction.safebo.methods import Method

Place = Any
"""Where to measure, as a task takes it: the row of a finite domain, or a point of a box."""


@runtime_checkable
class Challenge(Protocol):
    """A task as a run needs it. The truth is known to it, and not to the optimizer."""

    @property
    def name(self) -> str: ...

    @property
    def rounds(self) -> int: ...

    def optimizer(self, rng: np.random.Generator, method: Method, *, seed: int) -> SafeOptimizer:
        """Make an optimizer that is told the first observations."""

    def measure(self, place: Place, rng: np.random.Generator) -> dict[str, Any]:
        """Measure with noise, as ``tell`` takes it. It draws equally often wherever it is."""

    def regret(self, place: Place) -> float:
        """The regret of a recommendation against the safe optimum."""

    def violates(self, place: Place) -> bool:
        """True if a constraint is truly violated there."""

    def count_safe(self, optimizer: SafeOptimizer) -> tuple[int, int]:
        """How many points are taken for safe now, and how many of these are not."""


@dataclass(frozen=True)
class Job:
    """A run to be made. All of it can be sent to another process."""

    challenge: Challenge
    method: Method
    seed: int
    rounds: int
    watch: Callable[[SafeOptimizer], str] | None = None  # what else to write down
    watched_at: tuple[int, ...] = ()  # after so many observations


@dataclass(frozen=True)
class Run:
    """What came of a job. Curves begin before the first round, and have a value after each.

    A run that refuses to go on keeps its last values. Its rounds after that have no pick, no
    violation and no seconds.
    """

    method: str
    seed: int
    picks: Int[np.ndarray, " t"] | Float[np.ndarray, "t d"]  # rows, or points of a box
    regret: Float[np.ndarray, " steps"]  # of the recommendation
    safe: Int[np.ndarray, " steps"]  # size of the safe set
    wrong: Int[np.ndarray, " steps"]  # how many of it are not safe
    is_best_unsafe: Bool[np.ndarray, " steps"]  # whether the recommendation violates a constraint
    violates: Bool[np.ndarray, " rounds"]
    seconds: Float[np.ndarray, " rounds"]  # of this process, for ask and tell
    refusal: str = ""  # the error that ended it
    watched: tuple[str, ...] = ()


@dataclass
class Notes:
    """What is written down during a run."""

    job: Job
    best: Place | None = None
    curves: list[tuple[float, int, int, bool]] = field(default_factory=list)
    rounds: list[tuple[Place, bool, float]] = field(default_factory=list)
    watched: list[str] = field(default_factory=list)

    def look(self, optimizer: SafeOptimizer) -> None:
        """Write down the present state. If nothing is known to be safe, the last best stands."""
        challenge, before = self.job.challenge, self.best
        try:
            self.best = place_of(optimizer.best)
        except NoSafePoint:
            self.best = first_place(optimizer) if before is None else before
        if before is not None and np.array_equal(before, self.best):
            regret, *_, is_unsafe = self.curves[-1]
        else:
            regret, is_unsafe = challenge.regret(self.best), challenge.violates(self.best)
        self.curves.append((regret, *challenge.count_safe(optimizer), is_unsafe))
        if self.job.watch is not None and len(self.rounds) in self.job.watched_at:
            self.watched.append(self.job.watch(optimizer))

    def finish(self, refusal: str) -> Run:
        most, made = self.job.rounds, len(self.rounds)
        held = self.curves + [self.curves[-1]] * (most + 1 - len(self.curves))
        regret, safe, wrong, is_unsafe = (np.array(curve) for curve in zip(*held, strict=True))
        violates, seconds = np.zeros(most, dtype=bool), np.full(most, np.nan)
        violates[:made] = [one[1] for one in self.rounds]
        seconds[:made] = [one[2] for one in self.rounds]
        picks = np.array([one[0] for one in self.rounds], dtype=None if made else np.int64)
        key, seed, watched = self.job.method.key, self.job.seed, tuple(self.watched)
        return Run(
            key, seed, picks, regret, safe, wrong, is_unsafe, violates, seconds, refusal, watched
        )


def run(job: Job) -> Run:
    """Make a run. Noise is drawn in the order of the rounds, so all methods meet the same."""
    challenge, notes, refusal = job.challenge, Notes(job), ""
    rng = np.random.default_rng(job.seed)
    optimizer = challenge.optimizer(rng, job.method, seed=job.seed)
    for _ in range(job.rounds):
        started = process_time()
        try:
            query = optimizer.ask()
        except (NoSafePoint, MiscalibratedModel) as error:
            refusal = f"{type(error).__name__}: {error}"
            break
        asked = process_time() - started
        notes.look(optimizer)
        place = place_of(query)
        told = challenge.measure(place, rng)
        started = process_time()
        optimizer.tell(query, **told)
        seconds = asked + process_time() - started
        notes.rounds.append((place, challenge.violates(place), seconds))
    notes.look(optimizer)
    return notes.finish(refusal)


def place_of(found: Query | Recommendation) -> Place:
    return found.x if found.index is None else found.index


def first_place(optimizer: SafeOptimizer) -> Place:
    """The first place that was told. There is one if a task starts with nothing safe."""
    trial = optimizer.history[0]
    return trial.x if trial.index is None else trial.index


RUNS = "runs"
"""The folder in which the runs of an experiment wait until all are there."""


def path_of(job: Job, folder: Path) -> Path:
    """The file of a run. A run of other rounds is another run."""
    return folder / f"{job.challenge.name}-{job.method.key}-{job.seed}-{job.rounds}.npz"


def keep_run(run: Run, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)  # not before there is something to keep
    with written_whole(path) as whole, whole.open("wb") as file:
        np.savez_compressed(file, **{one.name: getattr(run, one.name) for one in fields(run)})


def read_run(path: Path) -> Run:
    with np.load(path) as kept:
        return Run(
            method=str(kept["method"]),
            seed=int(kept["seed"]),
            picks=kept["picks"],
            regret=kept["regret"],
            safe=kept["safe"],
            wrong=kept["wrong"],
            is_best_unsafe=kept["is_best_unsafe"],
            violates=kept["violates"],
            seconds=kept["seconds"],
            refusal=str(kept["refusal"]),
            watched=tuple(kept["watched"].tolist()),
        )


WORKERS = 2
THREADS = 1
"""Threads of each worker. Small matrices are not faster with more."""

Tell = Callable[[Job, int], None]
"""Is told which job is done, and of how many."""


def run_all(
    jobs: Sequence[Job],
    *,
    workers: int = WORKERS,
    kept: Path | None = None,
    tell: Tell = lambda done, most: None,
) -> list[Run]:
    """Make the runs, in this process if there is one worker, else in as many others.

    ``kept`` is a folder of runs. What is in it is not run again, and what is run is kept in it.
    """
    found: dict[int, Run] = {}
    for number, job in enumerate(jobs):
        if kept is not None and path_of(job, kept).exists():
            found[number] = read_run(path_of(job, kept))
            tell(job, len(jobs))
    left = {number: job for number, job in enumerate(jobs) if number not in found}
    for number, one in _run_here(left) if workers == 1 else _run_beside(left, workers):
        if kept is not None:
            keep_run(one, path_of(jobs[number], kept))
        found[number] = one
        tell(jobs[number], len(jobs))
    return [found[number] for number in range(len(jobs))]


def _run_here(jobs: Mapping[int, Job]) -> Iterator[tuple[int, Run]]:
    return ((number, run(job)) for number, job in jobs.items())


def _run_beside(jobs: Mapping[int, Job], workers: int) -> Iterator[tuple[int, Run]]:
    for number, future in run_beside(run, jobs, workers=workers, threads=THREADS):
        yield number, future.result()
