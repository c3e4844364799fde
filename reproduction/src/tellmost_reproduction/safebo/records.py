"""All runs of an experiment, what they come to over the seeds, and one method against another."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tellmost.evaluation.statistics import Mean
from tellmost.safebo import SafeOptimizer
from tellmost.shapes import Float
from tellmost_reproduction.safebo.methods import Method
from tellmost_reproduction.safebo.runs import Challenge, Job, Run, make_optimizer

MEASURES = {
    "regret": "simple regret of the recommendation",
    "safe": "points known to be safe",
    "violations": "violated measurements so far",
}
"""What is followed over the rounds, in words."""


@dataclass(frozen=True)
class Experiment:
    """A task, the methods that are tried on it, and how long."""

    name: str
    title: str
    make: Callable[[], Challenge]
    methods: tuple[Method, ...]
    seeds: int
    looked_at: tuple[int, ...]  # observations after which results are written down
    make_small: Callable[[], Challenge] | None = None  # for the smoke size, where make is slow


@dataclass(frozen=True)
class Record:
    """An experiment that has been run; seeds are the same for all methods, so they are paired."""

    experiment: Experiment
    challenge: Challenge
    rounds: int
    seeds: int
    runs: tuple[Run, ...]

    def of(self, key: str) -> list[Run]:
        return [run for run in self.runs if run.method == key]

    def label(self, key: str) -> str:
        return next(one.label for one in self.experiment.methods if one.key == key)

    @property
    def keys(self) -> list[str]:
        return [one.key for one in self.experiment.methods]

    @property
    def counts(self) -> list[int]:
        """Of observations: those that are looked at, and the last."""
        few = [count for count in self.experiment.looked_at if count < self.rounds]
        return [*few, self.rounds]

    def curves(self, measure: str, key: str) -> Float[np.ndarray, "s steps"]:
        """One for each seed."""
        return np.array([curve_of(run, measure) for run in self.of(key)], dtype=np.float64)

    def mean(self, measure: str, key: str) -> Float[np.ndarray, " steps"]:
        return self.curves(measure, key).mean(axis=0)

    def error(self, measure: str, key: str) -> Float[np.ndarray, " steps"]:
        """Standard error of the mean."""
        curves = self.curves(measure, key)
        return curves.std(axis=0, ddof=1) / np.sqrt(len(curves))

    def areas(self, key: str) -> Float[np.ndarray, " s"]:
        """Mean regret over all rounds, for each seed."""
        return self.curves("regret", key)[:, 1:].mean(axis=1)

    def ask_seconds(self, key: str) -> Float[np.ndarray, " s"]:
        """For an ask and a tell, on average over the rounds, for each seed."""
        return np.array([np.nanmean(run.seconds) for run in self.of(key)])

    @property
    def total_seconds(self) -> float:
        """Of processors, for all that was asked and told."""
        return float(sum(np.nansum(run.seconds) for run in self.runs))

    def replay(self, run: Run) -> SafeOptimizer:
        """The optimizer at the end of a run: told the same again, and not asked."""
        method = next(one for one in self.experiment.methods if one.key == run.method)
        job = Job(self.challenge, method, run.seed, self.rounds)
        rng = np.random.default_rng(run.seed)
        optimizer = make_optimizer(job, rng)
        for place in run.picks.tolist():
            optimizer.tell(place, **self.challenge.measure(place, rng))
        return optimizer


def curve_of(run: Run, measure: str) -> np.ndarray:
    if measure == "violations":
        return np.concatenate([[0], np.cumsum(run.violates)])
    return np.asarray(getattr(run, measure))


@dataclass(frozen=True)
class Comparison:
    """Regrets of two methods, averaged over all rounds; the difference is paired over seeds."""

    one: str
    other: str
    means: tuple[float, float]
    difference: Mean  # the first less the other: negative is better

    @property
    def is_better(self) -> bool:
        """Clearly, at 95%."""
        return self.difference.sign < 0

    @property
    def is_worse(self) -> bool:
        return self.difference.sign > 0

    def describe(self) -> str:
        clear = "" if self.difference.sign else ", not clear"
        one, other = self.means
        return (
            f"{self.one} {one:.3g} against {self.other} {other:.3g} "
            f"(difference {self.difference.value:+.2g} ± {self.difference.error or 0:.1g}{clear})"
        )


def compare(record: Record, one: str, other: str) -> Comparison:
    first, second = record.areas(one), record.areas(other)
    return Comparison(
        record.label(one),
        record.label(other),
        (float(first.mean()), float(second.mean())),
        Mean.of(first - second),
    )


def rank(record: Record, keys: list[str]) -> list[str]:
    """The lowest mean regret first."""
    return sorted(keys, key=lambda key: float(record.areas(key).mean()))


def rounds_needed(record: Record, key: str, level: float) -> list[int | None]:
    """Of each seed: observations after which the regret is below a level for good."""
    found: list[int | None] = []
    for curve in record.curves("regret", key):
        above = np.flatnonzero(curve > level)
        first = int(above[-1]) + 1 if len(above) else 0
        found.append(first if first < len(curve) else None)
    return found


def describe_rounds(record: Record, key: str, level: float) -> str:
    """The median, and how many seeds got there."""
    found = rounds_needed(record, key, level)
    got = [count for count in found if count is not None]
    if not got:
        return f"{record.label(key)} with none of {len(found)} seeds"
    middle = np.median([len(record.mean("regret", key)) if c is None else c for c in found])
    late = f" (in {len(got)} of {len(found)} seeds)" if len(got) < len(found) else ""
    at = f"after {middle:.0f} rounds" if middle <= record.rounds else "not at all"
    return f"{record.label(key)} {at}{late}"
