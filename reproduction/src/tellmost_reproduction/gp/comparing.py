"""One method against another: who is ahead, by how much, and for how many observations."""

from dataclasses import dataclass

import numpy as np

from tellmost.evaluation.statistics import Mean
from tellmost.numerics import RANK_TOLERANCE, SAME_VALUES
from tellmost.shapes import Float
from tellmost_reproduction.gp.curves import Curves
from tellmost_reproduction.gp.measures import RISING, information_at

LOOSE_CUT = 1e-4
TOLERANCES = (LOOSE_CUT, 1e-6, 1e-8, RANK_TOLERANCE, 1e-12)
"""At which the rank of K_AA might be cut when entropies are measured."""


@dataclass(frozen=True)
class Comparison:
    """Two methods on one measure, by the means of their curves over 1 to t observations."""

    measure: str
    one: str
    other: str
    means: tuple[float, float]
    ahead: float  # share of the observations after which the first is better
    is_clear: bool  # the difference is no chance of the seeds, and no rounding

    @property
    def wins(self) -> bool:
        better = self.means[0] > self.means[1]
        return self.is_clear and better == (self.measure in RISING)

    def describe(self) -> str:
        one, other = self.means
        return f"{self.one} {one:.4g} against {self.other} {other:.4g}"

    @property
    def margin(self) -> float:
        """How far apart they are, as a share of the other's."""
        one, other = self.means
        return abs(one / other - 1) if other else 0.0

    @property
    def difference(self) -> str:
        """In nats, or as a share of the other's."""
        one, other = self.means
        if self.measure in RISING:
            return f"{one - other:+.1f} nats"
        return f"{100 * (one / other - 1):+.2g}%"


def compare(curves: Curves, measure: str, one: str, other: str) -> Comparison:
    """The first against the other; both keys."""
    first, second = curves.seeds(measure, one)[:, 1:], curves.seeds(measure, other)[:, 1:]
    mean, rival = first.mean(axis=0), second.mean(axis=0)
    ahead = mean > rival if measure in RISING else mean < rival
    return Comparison(
        measure=measure,
        one=curves.label(one),
        other=curves.label(other),
        means=(float(mean.mean()), float(rival.mean())),
        ahead=float(ahead.mean()),
        is_clear=_differ(first.mean(axis=1), second.mean(axis=1)),
    )


def _differ(one: Float[np.ndarray, " a"], other: Float[np.ndarray, " b"]) -> bool:
    """Beyond chance at 95% where seeds differ; beyond rounding where they do not."""
    difference = one - other  # a single curve serves every seed
    if len(difference) > 1:
        return Mean.of(difference).sign != 0
    return bool(abs(difference[0]) > SAME_VALUES * abs(other[0]))


def spread(curves: Curves, measure: str, keys: tuple[str, ...]) -> float:
    """How much the worst of these methods lacks to the best, as a share of the best."""
    means = [curves.area(measure, key) for key in keys]
    return max(means) / min(means) - 1 if measure not in RISING else 1 - min(means) / max(means)


def rank(curves: Curves, measure: str) -> list[str]:
    """The paper's methods, the best first."""
    keys = [method.key for method in curves.methods if not method.is_extra]
    areas = {key: curves.area(measure, key) for key in keys}
    return sorted(keys, key=lambda key: areas[key], reverse=measure in RISING)


def fall_of(curves: Curves, key: str, tolerance: float) -> float:
    """Mean fall of the entropy of f on A, had the rank been cut elsewhere; picks as they are."""
    runs = [information_at(curves.setting, run.picks, tolerance)[1:] for run in curves.of(key)]
    return float(np.mean(runs))
