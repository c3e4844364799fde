"""Curves of an experiment, and one configuration against another."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tellmost.evaluation.statistics import Mean, t_quantile
from tellmost.shapes import Float, Int
from tellmost_reproduction.frame.folders import Cells
from tellmost_reproduction.networks.configurations import Configuration
from tellmost_reproduction.networks.experiments import Experiment
from tellmost_reproduction.networks.problems import TASKS
from tellmost_reproduction.networks.runs import Run, RunId

MEASURES = {"accuracy": "accuracy", "share": "share of picks from the task's classes"}


@dataclass(frozen=True, eq=False)
class Curves:
    """All runs of an experiment that there are; some configurations may have none, or few."""

    experiment: Experiment
    runs: Mapping[RunId, Run]

    @staticmethod
    def of(experiment: Experiment, runs: Mapping[RunId, Run]) -> "Curves":
        names = {one.name for one in experiment.configurations}
        return Curves(experiment, {key: run for key, run in runs.items() if key[0] in names})

    def configuration(self, name: str) -> Configuration:
        return next(one for one in self.experiment.configurations if one.name == name)

    def label(self, name: str) -> str:
        return self.configuration(name).label

    def of_name(self, name: str) -> list[Run]:
        return [run for key, run in sorted(self.runs.items()) if key[0] == name]

    def has(self, *names: str) -> bool:
        """Each with two seeds or more, so that there is an error to speak of."""
        return all(len(self.of_name(name)) > 1 for name in names)

    def is_stuck(self, name: str) -> bool:
        """Whether no seed bought as many labels of the task as it has classes.

        Such a network knows one class or two and answers nothing else, so that its curve says
        little about the rule that chose.
        """
        least = len(TASKS[self.configuration(name).dataset])
        return all(run.in_task[-1] < least for run in self.of_name(name))

    def stuck(self) -> list[str]:
        """All such configurations that there are runs of."""
        counts = self.counts()
        return [name for name in counts if counts[name] and self.is_stuck(name)]

    def idle(self, name: str) -> float:
        """The share of rounds that brought no image of the task, and so trained nothing."""
        return float(np.mean([np.diff([0, *run.in_task]) == 0 for run in self.of_name(name)]))

    def seeds(self, name: str) -> list[int]:
        return [run.seed for run in self.of_name(name)]

    def labels(self, name: str) -> Int[np.ndarray, " rounds"]:
        """How many were bought after each round."""
        run = self.of_name(name)[0]
        return run.batch * np.arange(1, len(run.accuracy) + 1)

    def values(self, measure: str, name: str) -> Float[np.ndarray, "seeds rounds"]:
        runs = self.of_name(name)
        return np.array([getattr(run, measure) for run in runs], dtype=np.float64)

    def at(self, measure: str, name: str, labels: int) -> Float[np.ndarray, " seeds"]:
        """After so many labels; a curve that ended before keeps its last value."""
        bought = self.labels(name)
        place = min(int(np.searchsorted(bought, labels)), len(bought) - 1)
        return self.values(measure, name)[:, place]

    def mean_at(self, measure: str, name: str, labels: int) -> Mean:
        return Mean.of(self.at(measure, name, labels))

    def last(self, measure: str, name: str) -> Mean:
        return Mean.of(self.values(measure, name)[:, -1])

    def area(self, measure: str, name: str) -> Mean:
        """The mean over all rounds."""
        return Mean.of(self.values(measure, name).mean(axis=1))

    def seconds(self, name: str, activity: str) -> float:
        """Of a round, the median over the runs; several of them shared a device."""
        return float(np.median([run.seconds[activity] for run in self.of_name(name)]))

    def counts(self) -> dict[str, int]:
        """Seeds of each configuration, those without any included."""
        return {one.name: len(self.of_name(one.name)) for one in self.experiment.configurations}


ALL_ROUNDS = slice(None)


@dataclass(frozen=True)
class Comparison:
    """The mean of both over rounds, and of their difference, seed by seed."""

    one: str
    other: str
    measure: str
    means: tuple[float, float]
    difference: Mean

    @property
    def wins(self) -> bool:
        """Better than the other beyond chance at 95%."""
        return self.difference.sign == 1

    @property
    def loses(self) -> bool:
        return self.difference.sign == -1

    @property
    def interval(self) -> tuple[float, float]:
        """Of the difference, at 95%; without bounds where one seed alone is known."""
        if self.difference.error is None:
            return -math.inf, math.inf
        half = t_quantile(self.difference.count - 1) * self.difference.error
        return self.difference.value - half, self.difference.value + half

    def describe(self) -> str:
        return (
            f"{self.one} {100 * self.means[0]:.1f} against {self.other} {100 * self.means[1]:.1f} "
            f"({100 * self.difference.value:+.1f} ± {100 * (self.difference.error or 0.0):.1f})"
        )


def compare(
    curves: Curves,
    one: str,
    other: str,
    measure: str = "accuracy",
    *,
    at: int | None = None,
    rounds: slice = ALL_ROUNDS,
) -> Comparison:
    """Over all rounds or some of them, or after ``at`` labels."""
    both = sorted(set(curves.seeds(one)) & set(curves.seeds(other)))
    first, second = (_by_seed(curves, name, measure, at, rounds, both) for name in (one, other))
    return Comparison(
        curves.label(one),
        curves.label(other),
        measure,
        (float(first.mean()), float(second.mean())),
        Mean.of(first - second),
    )


def _by_seed(
    curves: Curves, name: str, measure: str, at: int | None, rounds: slice, seeds: list[int]
) -> np.ndarray:
    values = curves.values(measure, name)[:, rounds]
    scores = values.mean(axis=1) if at is None else curves.at(measure, name, at)
    return scores[[curves.seeds(name).index(seed) for seed in seeds]]


def compare_ends(curves: Curves, one: str, other: str, measure: str = "accuracy") -> Comparison:
    """After the last round of each, however many labels that is."""
    return compare(curves, one, other, measure, rounds=slice(-1, None))


def tenths(curves: Curves, name: str) -> tuple[slice, slice]:
    """The first tenth of the rounds, and the last."""
    count = max(len(curves.labels(name)) // 10, 1)
    return slice(count), slice(-count, None)


def bars_apart(curves: Curves, one: str, other: str, labels: int) -> bool:
    """Whether the first is better after so many labels by more than both standard errors."""
    first, second = (curves.mean_at("accuracy", name, labels) for name in (one, other))
    return first.value - (first.error or 0.0) > second.value + (second.error or 0.0)


Pair = tuple[str, str]


@dataclass(frozen=True)
class Equality:
    """Configurations that are one rule, and why; the first is the one to speak of."""

    names: tuple[str, ...]
    words: str
    reason: str
    is_drawn: bool = False  # picks are random, so that the same rule makes others


BY_COSINE = (
    "with nothing observed, Cor[f_x, f_a] is the cosine of the two embeddings, and b = 1 pick a "
    "round is made before anything is"
)
EQUALITIES = (
    Equality(("mnist/ctl", "mnist/cosine"), "CTL and CosineSimilarity, on MNIST", BY_COSINE),
    Equality(
        ("mnist/scarce/ctl", "mnist/scarce/cosine"),
        "CTL and CosineSimilarity, on MNIST",
        BY_COSINE,
    ),
    Equality(
        ("mnist/max-dist", "mnist/undirected-itl", "mnist/uncertainty"),
        "MaxDist, Undirected ITL and UnSa, on MNIST",
        "the first pick of a round is the longest embedding for all three, as log(1 + k(x, x) / "
        "rho²) grows with k(x, x) and MaxDist has nothing yet to be far from, and b = 1",
    ),
    Equality(
        ("mnist/random", "mnist/badge"),
        "Random and BADGE, on MNIST",
        "BADGE draws the first pick of a batch uniformly, and b = 1",
        is_drawn=True,
    ),
    Equality(
        ("cifar100/cosine", "cifar100/ctl-last-top-1"),
        "CosineSimilarity and L-CTL (top-b), on CIFAR-100",
        "the b best by Cor[f_x, f_a] with nothing observed are the b best by cosine",
    ),
)


def one_rule(name: str) -> str:
    """The name that stands for all that are the same rule."""
    return next((one.names[0] for one in EQUALITIES if name in one.names), name)


def is_same_rule(pair: Pair) -> bool:
    one, other = map(one_rule, pair)
    return one == other


def repeats(pairs: Sequence[Pair]) -> list[Pair]:
    """Those of a rule with itself, and those that say what another says.

    Of these the one by the first names counts, or the one that comes first.
    """
    counted: dict[Pair, Pair] = {}
    for pair in pairs:
        rules = one_rule(pair[0]), one_rule(pair[1])
        counted[rules] = pair if pair == rules else counted.get(rules, pair)
    return [pair for pair in pairs if is_same_rule(pair) or pair not in counted.values()]


def common_starts(equality: Equality, runs: Mapping[RunId, Run]) -> list[int]:
    """How many first picks two of them share, for every two and every seed that both have."""
    return [
        starts_alike(runs[one, seed].picks, runs[other, seed].picks)
        for one, other in combinations(equality.names, 2)
        for name, seed in runs
        if name == one and (other, seed) in runs
    ]


def starts_alike(picks: Sequence[int], others: Sequence[int]) -> int:
    differ = (i for i, (one, other) in enumerate(zip(picks, others, strict=True)) if one != other)
    return next(differ, len(picks))


def tabulate_equalities() -> Cells:
    """Each in words, once, and why."""
    reasons = {one.words: one.reason for one in EQUALITIES}
    return [["the same", "because"], *([words, reason] for words, reason in reasons.items())]
