"""Targets that follow the posterior: possible maximizers, expanders, and points near a level."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from tellmost.rows.checks import check_number, check_whole
from tellmost.rows.sources import spans
from tellmost.shapes import Bool, Float
from tellmost.targets.known import Known, Targets

SAMPLED_ROWS = 10_000  # at most so many have functions drawn jointly: 0.8 GB of covariances


LEVELS, SURE, SAFE_ENOUGH = 64, 6.0, 0.99
"""The integral is taken at so many levels. They begin so many standard deviations below the mean
of some point that is safe with this probability, and end as many above the highest one."""

LEAST_WEIGHT = 1e-4
"""A point that is the best one with less than this share of the largest probability is none of
the targets."""

IN_CACHE = 256
"""The integrand of so many points is made at a time: it takes 260 kB."""

LEAST_SHARE = 1e-9
"""A standard deviation below this share of the largest counts as this one."""


@dataclass(frozen=True)
class PotentialMaximizers(Targets):
    r"""Points that may be safe and whose upper bound reaches the best lower bound of a safe one.

    .. math::
        A_n = \{x \in \hat S_n : u_n(x) \ge \max_{x' \in S_n} l_n(x')\}, \qquad
        u_n, l_n = \mu_n \pm \beta \sigma_n

    Hübotter et al. 2024, Sec. 5. Without constraints both safe sets are the whole pool. Where
    nothing is known to be safe, every point that may be safe is a target. If f is minimised, the
    same holds for -f.
    """

    beta: float | None = None  # None: that of the learner

    def __post_init__(self) -> None:
        if self.beta is not None:
            check_number(self.beta, "PotentialMaximizers(beta)", least=0)

    def choose(self, known: Known) -> Bool[np.ndarray, " n"]:
        lower, upper = known.rising_bounds(self.beta)
        best = lower[known.is_safe].max(initial=-np.inf)
        return known.may_be_safe & (upper >= best)


@dataclass(frozen=True)
class ProbableMaximizers(Targets):
    r"""Points by the probability that each is the best safe one, as if all were independent.

    .. math::
        p(x) = p_s(x) \int \phi_x(t) \prod_{z \ne x} \big(1 - p_s(z) P(f_z > t)\big) \, dt

    with :math:`p_s` the probability that the constraints are kept. Hübotter et al. 2024, Sec. 5,
    name such weights in a footnote; the closed form is that of Menet et al. 2025 (LITE) with
    safety. A limit of f itself bounds t. Points below a share of ``LEAST_WEIGHT`` of the largest
    are no targets. ``SafeOptimizer`` weighs targets; where weights have no place, all are alike.
    """

    def choose(self, known: Known) -> Bool[np.ndarray, " n"]:
        return self.weights(known) > 0

    def weights(self, known: Known) -> Float[np.ndarray, " n"]:
        """The probabilities. They add up to 1 where some point may be safe."""
        sign = -1.0 if known.is_minimized else 1.0
        mean, std = torch.from_numpy(sign * known.mean), torch.from_numpy(known.std)
        low, high = sorted(sign * limit for limit in known.within)
        is_open = torch.from_numpy(known.may_be_safe)
        found = torch.zeros_like(mean)
        if not bool(is_open.any()):
            return found.numpy()
        std = std.clamp(min=LEAST_SHARE * (float(std[is_open].max()) or 1.0))
        chance = torch.ones_like(mean) if known.chance is None else torch.from_numpy(known.chance)
        near, is_sure = mean - SURE * std, is_open & (chance >= SAFE_ENOUGH)
        is_sure &= mean + SURE * std <= high
        lowest = near[is_sure].max() if bool(is_sure.any()) else near[is_open].min()
        least = max(float(lowest), low)
        rows = (is_open & (mean + SURE * std >= least)).nonzero()[:, 0]
        mean, std, chance = mean[rows, None], std[rows, None], chance[rows, None]
        most = max(min(float((mean + SURE * std).max()), high), least + 1e-9 * float(std.max()))
        found[rows] = integrate(mean, std, chance, (least, most), high)
        found[found < LEAST_WEIGHT * found.max()] = 0.0
        return (found / found.sum()).numpy() if float(found.max()) > 0 else found.numpy()


def integrate(
    mean: Float[Tensor, "b 1"],
    std: Float[Tensor, "b 1"],
    chance: Float[Tensor, "b 1"],
    between: tuple[float, float],
    high: float,
) -> Float[Tensor, " b"]:
    """The integral of ProbableMaximizers between two levels, where f is at most ``high``.

    With the share that lies between two levels over the probability to be no better, the product
    over all others is the product over all, which is the same for every point.
    """
    levels = torch.linspace(*between, 2 * LEVELS - 1, dtype=torch.float64)  # and middles
    share = mean.new_empty(len(mean), LEVELS - 1)
    log_worse = torch.zeros(LEVELS - 1, dtype=torch.float64)
    for start, stop in spans(len(mean), IN_CACHE):
        some = slice(start, stop)
        below = torch.special.ndtr((levels - mean[some]).div_(std[some]))  # P(f <= t)
        above = torch.special.ndtr((high - mean[some]) / std[some]) - below[:, 1::2]
        better = above.mul_(chance[some]).clamp_(min=0.0, max=1 - 1e-15)
        log_worse += torch.log1p(-better).sum(dim=0)
        share[some] = below[:, ::2].diff(dim=1).div_(1.0 - better)
    return chance[:, 0] * (share @ log_worse.exp())


@dataclass(frozen=True)
class ThompsonMaximizers(Targets):
    r"""Points of the pool at which one of ``K`` functions drawn from the posterior is largest.

    .. math:: A_n = \{\arg\max_{x : g^j(x) \ge 0} f^j(x) : j \le K\}, \qquad
        f^j, g^j \sim f, g \mid D_n

    Hübotter et al. 2024, App. "A More Exploitative Stochastic Target Space". Objective and
    constraints are drawn together. If no point is safe in a draw, its target is the point nearest
    to safety: its smallest margin is the largest. The functions are drawn jointly at all n points,
    which costs O(n^3) a round for rough kernels, and less for smooth ones.
    """

    K: int = 10

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
class PotentialExpanders(Targets):
    r"""Points that may be safe but are not known to be: pure expansion of the safe set.

    .. math:: E_n = \hat S_n \setminus S_n

    Hübotter et al. 2024, App. on convergence to the reachable safe set. They are about the
    constraints alone. None is left once every point is known to be safe or unsafe, and without
    constraints there are none.
    """

    about_objective: ClassVar[bool] = False

    def choose(self, known: Known) -> Bool[np.ndarray, " n"]:
        return known.may_be_safe & ~known.is_safe


@dataclass(frozen=True)
class LevelSet(Targets):
    r"""Points that may be safe and cannot be told yet to lie above or below ``tau``.

    .. math:: A_n = \{x \in \hat S_n : l_n(x) \le \tau \le u_n(x)\}, \qquad
        l_n, u_n = \mu_n \mp \beta \sigma_n

    Gotovos et al. 2013; Bogunovic et al. 2016; with constraints Hübotter et al. 2024, App. on
    convergence to the reachable safe set. None is left once every point is classified.
    """

    tau: float
    beta: float | None = None  # None: that of the learner

    def __post_init__(self) -> None:
        if self.beta is not None:
            check_number(self.beta, "LevelSet(beta)", least=0)
        check_number(self.tau, "LevelSet(tau)")

    def choose(self, known: Known) -> Bool[np.ndarray, " n"]:
        lower, upper = known.bounds(self.beta)
        return known.may_be_safe & (lower <= self.tau) & (self.tau <= upper)
