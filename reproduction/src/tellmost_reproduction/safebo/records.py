"""All runs of an experiment, what they come to over the seeds, and one method against another."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tellmost.safebo import SafeOptimizer
from tellmost.shapes import Float
from tellmost_reproduction.frame.comparing import PairedComparison, compare_scores
from tellmost_reproduction.safebo.methods import Method
from tellmost_reproduction.safebo.runs import Challenge, Run

MEASURES = ("regret", "safe", "violations")
"""What is followed over the rounds: regret of the recommendation, safe set, violations."""


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
    """An experiment that has been run. All methods have the same seeds, so they are paired."""

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
        """Numbers of observations after which results are written down, the last included."""
        few = [count for count in self.experiment.looked_at if count < self.rounds]
        return [*few, self.rounds]

    def curves(self, measure: str, key: str) -> Float[np.ndarray, "s steps"]:
        """A curve for each seed."""
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
        """Seconds of an ask and a tell for each seed, on average over the rounds."""
        return np.array([np.nanmean(run.seconds) for run in self.of(key)])

    @property
    def total_seconds(self) -> float:
        """Processor time of all that was asked and told."""
        return float(sum(np.nansum(run.seconds) for run in self.runs))

    def replay(self, run: Run) -> SafeOptimizer:
        """Make the optimizer at the end of a run. It is told the same again, and not asked."""
        method = next(one for one in self.experiment.methods if one.key == run.method)
        rng = np.random.default_rng(run.seed)
        optimizer = self.challenge.optimizer(rng, method, seed=run.seed)
        for place in run.picks.tolist():
            where = {"row": place} if isinstance(place, int) else {"x": place}
            optimizer.tell(**where, **self.challenge.measure(place, rng))
        return optimizer


def curve_of(run: Run, measure: str) -> np.ndarray:
    if measure == "violations":
        return np.concatenate([[0], np.cumsum(run.violates)])
    return np.asarray(getattr(run, measure))


def compare(record: Record, one: str, other: str) -> PairedComparison:
    """Compare regrets, averaged over all rounds, of which less is better."""
    labels = record.label(one), record.label(other)
    return compare_scores(labels, record.areas(one), record.areas(other), rises=False)


def describe(one: PairedComparison) -> str:
    clear = "" if one.sign else ", not clear"
    mean, rival = one.means
    return (
        f"{one.one} {mean:.3g} against {one.other} {rival:.3g} "
        f"(difference {one.difference.value:+.2g} ± {one.difference.error or 0:.1g}{clear})"
    )


def rank(record: Record, keys: list[str]) -> list[str]:
    """The lowest mean regret first."""
    return sorted(keys, key=lambda key: float(record.areas(key).mean()))


def rounds_needed(record: Record, key: str, level: float) -> list[int | None]:
    """Observations after which the regret is below a level for good, for each seed."""
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
