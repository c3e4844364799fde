"""Two methods on one measure: who is ahead, and whether that is more than chance."""

import math
from dataclasses import dataclass

import numpy as np

from tellmost.evaluation.statistics import LEVEL, Mean, t_tail
from tellmost.numerics import SAME_VALUES
from tellmost.shapes import Float


def t_quantile(freedom: int) -> float:
    """Student's t that chance exceeds in size in 5% of all cases, by halving an interval."""
    low, high = 0.0, 16.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if t_tail(middle, freedom) > LEVEL else (low, middle)
    return high


@dataclass(frozen=True)
class PairedComparison:
    """A score of two methods, compared seed by seed."""

    one: str  # labels
    other: str
    means: tuple[float, float]
    difference: Mean  # the first less the other
    sign: int  # 1 if the first is better beyond chance at 95%, -1 if it is worse, else 0

    @property
    def is_better(self) -> bool:
        return self.sign > 0

    @property
    def is_worse(self) -> bool:
        return self.sign < 0

    @property
    def interval(self) -> tuple[float, float]:
        """The difference lies here with 95%. One seed alone gives no bounds."""
        if self.difference.error is None:
            return -math.inf, math.inf
        half = t_quantile(self.difference.count - 1) * self.difference.error
        return self.difference.value - half, self.difference.value + half


def compare_scores(
    labels: tuple[str, str],
    first: Float[np.ndarray, " a"],
    second: Float[np.ndarray, " b"],
    *,
    rises: bool,
    is_exact: bool = False,
) -> PairedComparison:
    """Compare scores by seed, of which more is better if the measure ``rises``.

    ``is_exact``: one score stands for all seeds, so that every difference beyond rounding counts.
    """
    difference = Mean.of(first - second)
    sign = difference.sign
    if is_exact and difference.count == 1:
        is_clear = abs(difference.value) > SAME_VALUES * abs(float(second[0]))
        sign = int(np.sign(difference.value)) if is_clear else 0
    means = float(first.mean()), float(second.mean())
    return PairedComparison(*labels, means, difference, sign if rises else -sign)
