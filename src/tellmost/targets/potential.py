"""Targets that follow the posterior: possible maximizers, expanders, and points near a level."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tellmost.rows.checks import check_whole
from tellmost.shapes import Bool
from tellmost.targets.known import Known, check_beta

SAMPLED_ROWS = 10_000  # at most so many have functions drawn jointly: 0.8 GB of covariances


@dataclass(frozen=True)
class PotentialMaximizers:
    r"""Points that may be safe and whose upper bound reaches the best lower bound of a safe one.

    .. math::
        A_n = \{x \in \hat S_n : u_n(x) \ge \max_{x' \in S_n} l_n(x')\}, \qquad
        u_n, l_n = \mu_n \pm \beta \sigma_n

    Hübotter et al. 2024, Sec. 5. Without constraints both safe sets are the whole pool. Where
    nothing is known to be safe, every point that may be safe is a target. If f is minimised, the
    same holds for -f.
    """

    beta: float | None = None  # None: that of the learner

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
    constraints are drawn together. If no point is safe in a draw, its target is the point nearest
    to safety: its smallest margin is the largest. The functions are drawn jointly at all n points,
    which costs O(n^3) a round for rough kernels, and less for smooth ones.
    """

    K: int = 10

    is_fixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "K", check_whole(self.K, "ThompsonMaximizers(K)"))

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

    Hübotter et al. 2024, App. on convergence to the reachable safe set. They are about the
    constraints alone. None is left once every point is known to be safe or unsafe, and without
    constraints there are none.
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
    convergence to the reachable safe set. None is left once every point is classified.
    """

    tau: float
    beta: float | None = None  # None: that of the learner

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
