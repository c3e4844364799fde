"""Curves of an experiment: accuracy and share of picks, after every round of every seed.

Configurations are compared by the seeds that both have. Some rules differ by name and come to the
same choice, so that evidence of one is no second evidence. Their curves still differ, since
rounding on a GPU is not the same twice and training amplifies it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tellmost.evaluation.statistics import Mean
from tellmost.shapes import Float, Int
from tellmost_reproduction.frame.comparing import PairedComparison, compare_scores
from tellmost_reproduction.networks.configurations import Configuration
from tellmost_reproduction.networks.experiments import Experiment
from tellmost_reproduction.networks.problems import PUBLISHED, TASKS
from tellmost_reproduction.networks.runs import Run, RunId

MEASURES = {"accuracy": "accuracy", "share": "share of picks from the task's classes"}


@dataclass(frozen=True, eq=False)
class Curves:
    """All runs of an experiment that there are. Some configurations may have few or none.

    Runs stand under the names of the experiment, however their networks were trained.
    """

    experiment: Experiment
    runs: Mapping[RunId, Run]
    trained: Mapping[str, str]  # datasets, with the name of the way in which networks are trained

    @staticmethod
    def of(experiment: Experiment, runs: Mapping[RunId, Run]) -> "Curves":
        """The runs that are judged: trained as by the published code where most have such runs,
        and else as the paper's text says."""
        return Curves.trained_as(
            experiment, runs, {d: way_of(experiment, d, runs) for d in experiment.datasets}
        )

    @staticmethod
    def beside(experiment: Experiment, runs: Mapping[RunId, Run]) -> "Curves":
        """The runs as the paper's text says, of the datasets that are judged by others."""
        others = [d for d in experiment.datasets if way_of(experiment, d, runs) != d]
        return Curves.trained_as(experiment, runs, {d: d for d in others})

    @staticmethod
    def trained_as(
        experiment: Experiment, runs: Mapping[RunId, Run], trained: Mapping[str, str]
    ) -> "Curves":
        names = {
            one.name.replace(one.dataset, trained[one.dataset], 1): one.name
            for one in experiment.configurations
            if one.dataset in trained
        }
        found = {(names[key[0]], key[1]): run for key, run in runs.items() if key[0] in names}
        return Curves(experiment, found, trained)

    def configuration(self, name: str) -> Configuration:
        return next(one for one in self.experiment.configurations if one.name == name)

    def label(self, name: str) -> str:
        return self.configuration(name).label

    def of_name(self, name: str) -> list[Run]:
        return [run for key, run in sorted(self.runs.items()) if key[0] == name]

    def has(self, *names: str) -> bool:
        """True if each has two seeds or more, so that there is a standard error."""
        return all(len(self.of_name(name)) > 1 for name in names)

    def is_stuck(self, name: str) -> bool:
        """True if no seed bought as many labels of the task as it has classes.

        Such a network knows one class or two and answers nothing else, so its curve says little
        about the rule that chose.
        """
        least = len(TASKS[self.configuration(name).dataset])
        return all(run.in_task[-1] < least for run in self.of_name(name))

    def stuck(self) -> list[str]:
        """The configurations with runs that are stuck."""
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
        """The values after so many labels. A curve that ended before keeps its last value."""
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
        """The median over the runs, of a round. Several runs shared a device."""
        return float(np.median([run.seconds[activity] for run in self.of_name(name)]))

    def counts(self) -> dict[str, int]:
        """How many seeds each configuration has, which may be none."""
        return {one.name: len(self.of_name(one.name)) for one in self.experiment.configurations}


MOST = 0.75
"""An experiment is judged by the published training if so many of its curves were run so."""


def way_of(experiment: Experiment, dataset: str, runs: Mapping[RunId, Run]) -> str:
    """The name of the training by which a dataset is judged."""
    way, known = PUBLISHED[dataset], {name for name, _ in runs}
    names = [one.name for one in experiment.on(dataset) if not one.is_past]
    are_run = [name.replace(dataset, way, 1) in known for name in names]
    return way if np.mean(are_run) >= MOST else dataset


ALL_ROUNDS = slice(None)
AT_THE_END = slice(-1, None)


def compare(
    curves: Curves,
    one: str,
    other: str,
    measure: str = "accuracy",
    *,
    at: int | None = None,
    rounds: slice = ALL_ROUNDS,
) -> PairedComparison:
    """Compare by the seeds that both have: over all rounds or some, or after ``at`` labels.

    The same seed gives the same targets, except where a configuration has lopsided ones or another
    number of them. The first weights of the network are the same in any case.
    """
    both = sorted(set(curves.seeds(one)) & set(curves.seeds(other)))
    first, second = (_by_seed(curves, name, measure, at, rounds, both) for name in (one, other))
    return compare_scores((curves.label(one), curves.label(other)), first, second, rises=True)


def _by_seed(
    curves: Curves, name: str, measure: str, at: int | None, rounds: slice, seeds: list[int]
) -> np.ndarray:
    values = curves.values(measure, name)[:, rounds]
    scores = values.mean(axis=1) if at is None else curves.at(measure, name, at)
    return scores[[curves.seeds(name).index(seed) for seed in seeds]]


def compare_ends(
    curves: Curves, one: str, other: str, measure: str = "accuracy"
) -> PairedComparison:
    """Compare after the last round of each, however many labels that is."""
    return compare(curves, one, other, measure, rounds=AT_THE_END)


def tenths(curves: Curves, name: str) -> tuple[slice, slice]:
    """The first tenth of the rounds, and the last."""
    count = max(len(curves.labels(name)) // 10, 1)
    return slice(count), slice(-count, None)


def bars_apart(curves: Curves, one: str, other: str, labels: int) -> bool:
    """True if the first is better after so many labels by more than both standard errors."""
    first, second = (curves.mean_at("accuracy", name, labels) for name in (one, other))
    return first.value - (first.error or 0.0) > second.value + (second.error or 0.0)


Pair = tuple[str, str]


@dataclass(frozen=True)
class Equality:
    """Configurations that are one rule, and why. The first stands for all."""

    names: tuple[str, ...]
    words: str
    reason: str
    is_drawn: bool = False  # picks are random, so the same rule makes others


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
    """Find pairs of a rule with itself, and pairs that say what another says.

    Of pairs that say the same the one by the first names counts, or else the first of them.
    """
    counted: dict[Pair, Pair] = {}
    for pair in pairs:
        rules = one_rule(pair[0]), one_rule(pair[1])
        counted[rules] = pair if pair == rules else counted.get(rules, pair)
    return [pair for pair in pairs if is_same_rule(pair) or pair not in counted.values()]


def common_starts(equality: Equality, runs: Mapping[RunId, Run]) -> list[int]:
    """How many first picks two of the names share, for every two and every seed of both."""
    return [
        starts_alike(runs[one, seed].picks, runs[other, seed].picks)
        for one, other in combinations(equality.names, 2)
        for name, seed in runs
        if name == one and (other, seed) in runs
    ]


def starts_alike(picks: Sequence[int], others: Sequence[int]) -> int:
    differ = (i for i, (one, other) in enumerate(zip(picks, others, strict=True)) if one != other)
    return next(differ, len(picks))
