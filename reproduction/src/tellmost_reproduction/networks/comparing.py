"""One configuration against another, by the seeds that both have.

The same seed gives the same targets, but where a configuration has lopsided ones or another number
of them; the first weights of the network are the same in any case.
"""

import math
from dataclasses import dataclass

import numpy as np

from tellmost.evaluation.statistics import Mean, t_quantile
from tellmost_reproduction.networks.curves import Curves

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
