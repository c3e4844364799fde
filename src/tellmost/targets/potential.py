"""Targets: where the maximum of f may be.

Targets: what may be safe and is not known to be.

Targets: where f may lie on either side of a level.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tellmost.shapes import Bool
from tellmost.targets.known import Known, check_beta, check_count

SAMPLED_ROWS = 10_000
"""Rows at which functions are drawn jointly, at most: their covariance takes 0.8 GB."""


@dataclass(frozen=True)
class PotentialMaximizers:
    r"""Points that may be safe and whose upper bound reaches the best lower bound of a safe one.

    .. math::
        A_n = \{x \in \hat S_n : u_n(x) \ge \max_{x' \in S_n} l_n(x')\}, \qquad
        u_n, l_n = \mu_n \pm \beta \sigma_n

    Hübotter et al. 2024, Sec. 5. Without constraints both safe sets are the whole pool; where
    nothing is known to be safe, every point that may be safe may be the best. Where f is to be
    small, the same of -f.
    """

    beta: float | None = None  # None: as the learner says

    is_fixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_beta(self.beta, "PotentialMaximizers")

    def choose(self, known: Known) -> Bool[np.ndarray, " n"]:
        lower, upper = known.rising_bounds(self.beta)
        best = lower[known.is_safe].max(initial=-np.inf)
        return known.may_be_safe & (upper >= best)


@dataclass(frozen=True)
class ThompsonMaximizers:
    r"""Points of the pool at which one of ``K`` functions drawn from the posterior is largest.

    .. math:: A_n = \{\arg\max_{x : g^j(x) \ge 0} f^j(x) : j \le K\}, \qquad
        f^j, g^j \sim f, g \mid D_n

    Hübotter et al. 2024, App. "A More Exploitative Stochastic Target Space". Objective and
    constraints are drawn together; a draw in which no point is safe names the one that is nearest
    to it, of the largest smallest margin. The functions are drawn jointly at all n points, which
    costs O(n^3) a round for rough kernels, less for smooth ones.
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
        values, margins = known.sample_jointly(self.K)
        values = -values if known.is_minimized else values
        if margins is not None:
            values = np.where(margins >= 0, values, -np.inf)
            has_none = (margins < 0).all(axis=1)
            values[has_none] = margins[has_none]
        mask = np.zeros(n, dtype=bool)
        mask[values.argmax(axis=1)] = True
        return mask


@dataclass(frozen=True)
class PotentialExpanders:
    r"""Points that may be safe but are not known to be: pure expansion of the safe set.

    .. math:: E_n = \hat S_n \setminus S_n

    Hübotter et al. 2024, App. on convergence to the reachable safe set. Only the constraints are
    learned about. Empty once every point is known to be safe or unsafe, and without constraints.
    """

    is_fixed: ClassVar[bool] = False
    about_objective: ClassVar[bool] = False

    def choose(self, known: Known) -> Bool[np.ndarray, " n"]:
        return known.may_be_safe & ~known.is_safe


@dataclass(frozen=True)
class LevelSet:
    r"""Points that may be safe and cannot be told yet to lie above or below ``tau``.

    .. math:: A_n = \{x \in \hat S_n : l_n(x) \le \tau \le u_n(x)\}, \qquad
        l_n, u_n = \mu_n \mp \beta \sigma_n

    Gotovos et al. 2013; Bogunovic et al. 2016; with constraints Hübotter et al. 2024, App. on
    convergence to the reachable safe set. Empty once every point is classified.
    """

    tau: float
    beta: float | None = None  # None: as the learner says

    is_fixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_beta(self.beta, "LevelSet")
        tau: Any = self.tau
        is_number = isinstance(tau, int | float | np.number) and not isinstance(tau, bool)
        if not is_number or not np.isfinite(tau):
            raise ValueError(f"LevelSet(tau) must be a finite number; got {tau!r}.")

    def choose(self, known: Known) -> Bool[np.ndarray, " n"]:
        lower, upper = known.bounds(self.beta)
        return known.may_be_safe & (lower <= self.tau) & (self.tau <= upper)
