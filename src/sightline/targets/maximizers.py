"""Targets: where the maximum of f may be."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sightline.numerics import SAMPLED_ROWS
from sightline.shapes import Bool
from sightline.targets.known import Known, check_beta, check_count


@dataclass(frozen=True)
class PotentialMaximizers:
    r"""Points of the pool whose upper bound reaches the best lower bound.

    .. math::
        A_n = \{x : \mu_n(x) + \beta \sigma_n(x) \ge \max_{x'} \mu_n(x') - \beta \sigma_n(x')\}

    Hübotter et al. 2024, Sec. 5, here without constraints. Never empty.
    """

    beta: float | None = None  # None: as the learner says

    is_fixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_beta(self.beta, "PotentialMaximizers")

    def choose(self, known: Known) -> Bool[np.ndarray, " n"]:
        lower, upper = known.bounds(self.beta)
        return upper >= lower.max()


@dataclass(frozen=True)
class ThompsonMaximizers:
    """Points of the pool at which one of ``K`` functions drawn from the posterior is largest.

    Hübotter et al. 2024, App. on Thompson sampling of the target space. The functions are drawn
    jointly at all n points, which costs O(n^3) a round for rough kernels, less for smooth ones.
    """

    K: int = 10

    is_fixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "K", check_count(self.K, "ThompsonMaximizers(K)"))

    def choose(self, known: Known) -> Bool[np.ndarray, " n"]:
        n = len(known.points)
        if n > SAMPLED_ROWS:
            raise ValueError(
                f"ThompsonMaximizers draws functions jointly at all points of the pool, at most "
                f"{SAMPLED_ROWS:,}; the pool has {n:,}. Thin the pool, or use PotentialMaximizers."
            )
        mask = np.zeros(n, dtype=bool)
        mask[known.sample(self.K).argmax(axis=1)] = True
        return mask
