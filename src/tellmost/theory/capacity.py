"""The most that n observations can tell about the targets."""

from dataclasses import dataclass
from math import e, expm1, log1p
from typing import Any

import numpy as np

from tellmost.rows.checks import check_positive, check_whole
from tellmost.shapes import Int
from tellmost.theory.gains import SubmodularityRatio, choose
from tellmost.theory.setting import (
    Joint,
    Setting,
    all_multisets,
    check_setting,
    count_multisets,
    reduce,
    tries_all,
)

EXACT = "exact: every choice was tried"
SUBMODULAR = "greedy, at least 1 - 1/e of the capacity: every sample is a target"
WEAKLY_SUBMODULAR = "greedy, at least 1 - exp(-kappa) of the capacity: kappa was given"
NO_GUARANTEE = "greedy, of no known share of the capacity: samples are not targets"


@dataclass(frozen=True, eq=False)
class Capacity:
    """An information capacity in nats, which lies between ``value`` and ``upper``.

    ``subset`` reaches ``value``, and ``guarantee`` says what is known of it. Take ``upper`` where
    a bound must not be understated.
    """

    value: float
    upper: float
    subset: Int[np.ndarray, " n"]
    guarantee: str
    is_of_samples: bool  # every sample is a target: it bounds all that n observations can tell

    @property
    def is_exact(self) -> bool:
        return self.guarantee == EXACT


def information_capacity(
    pool: Any,
    targets: Any,
    n: int,
    *,
    kernel: Any = None,
    noise_std: Any,
    method: str = "auto",
    ratio: SubmodularityRatio | None = None,
) -> Capacity:
    r"""The most that n observations of the pool can tell about the targets.

    .. math:: \gamma_{A,S}(n) = \max_{X \subseteq S,\, |X| \le n} I(f_A; y_X)

    Hübotter et al. 2024, Sec. 2; X is a multiset, as in its footnote. Without targets it is
    :math:`\gamma_S(n)`, the maximal information gain of Srinivas et al. 2009.

    "exact" tries every X, "greedy" picks by ITL, and "auto" is exact up to
    ``ENUMERATED`` choices. Greedy reaches :math:`1 - 1/e` of the capacity where every
    sample is a target (Nemhauser et al. 1978). In general it reaches :math:`1 - e^{-\kappa}` (Das
    and Kempe 2018), if ``ratio`` gives the exact ``submodularity_ratio`` of n picks. ``upper`` is
    the smallest of what follows from that, of :math:`\gamma_{A,S}(n) \le \gamma_S(n)` (data
    processing), and of ``capacity_bound``, so there is always an upper bound.
    """
    setting, count = check_setting(pool, targets, kernel, noise_std), check_whole(n, "n")
    is_ratio = isinstance(ratio, SubmodularityRatio) and ratio.is_exact and ratio.rule == "itl"
    if ratio is not None and not (is_ratio and ratio.repeats):
        raise ValueError(
            "ratio must be an exact submodularity_ratio of rule 'itl', of multisets; got "
            f"{ratio!r}. A sampled one is an upper bound, and one of sets allows no repeats."
        )
    if ratio is not None and ratio.size != count:
        raise ValueError(
            f"ratio must be that of n picks; got n={count} and a ratio of {ratio.size}."
        )
    return find_capacity(setting, count, method=method, ratio=ratio)


def find_capacity(
    setting: Setting, n: int, *, method: str = "auto", ratio: SubmodularityRatio | None = None
) -> Capacity:
    choices = count_multisets(len(setting.pool), n)
    if tries_all(method, "greedy", choices, "choice of n samples"):
        subsets = all_multisets(len(setting.pool), n)
        values = reduce(Joint.of(setting), subsets, "itl")
        best = int(values.argmax())  # a smaller set tells no more
        value = float(values[best])
        return Capacity(value, value, subsets[best].numpy(), EXACT, setting.pool_is_targeted)
    return _greedy(setting, n, ratio)


def capacity_bound(n: int, *, rank: int, signal_to_noise: float) -> float:
    r"""An upper bound on the capacity of a kernel of finite rank, whatever the samples.

    .. math:: \gamma_n \le \tfrac{r}{2} \log\big(1 + n s / r\big), \qquad
        r = \min(n, \text{rank}), \quad s = \max_x k(x, x) / \rho^2(x)

    This is the kernel-agnostic :math:`O(|X| \log n)` of the paper's table of rates, with its
    constant. The r positive eigenvalues of :math:`P^{-1/2} K_{XX} P^{-1/2}` have a sum of at most
    n s, and equal ones have the largest determinant. The rank is at most the number of samples,
    or of features.
    """
    count, most = check_whole(n, "n"), check_whole(rank, "rank")
    r = min(count, most)
    return 0.5 * r * log1p(count * check_positive(signal_to_noise, "signal_to_noise") / r)


def _greedy(setting: Setting, n: int, ratio: SubmodularityRatio | None) -> Capacity:
    is_of_samples, own = setting.pool_is_targeted, setting.about(setting.pool)
    signal = setting.signal_to_noise
    if signal == 0:  # nothing to learn, so all samples are alike
        return Capacity(0.0, 0.0, np.zeros(n, dtype=np.int64), EXACT, is_of_samples)
    chosen = choose(setting, n, "itl")
    value, guarantee = float(chosen.gains.sum()), NO_GUARANTEE
    agnostic = capacity_bound(n, rank=len(own.pool), signal_to_noise=signal)
    upper = min(float(choose(own, n, "itl").gains.sum()) / (1.0 - 1.0 / e), agnostic)
    if is_of_samples:
        guarantee = SUBMODULAR
    elif ratio is not None:
        upper, guarantee = min(upper, value / -expm1(-ratio.value)), WEAKLY_SUBMODULAR
    return Capacity(value, max(upper, value), chosen.indices, guarantee, is_of_samples)
