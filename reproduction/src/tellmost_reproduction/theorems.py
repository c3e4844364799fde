"""The convergence theorems with their constants: bounds on gains, variances and errors.

The quantities that they bound are those of ``tellmost.theory``. The rates of the capacity are
theirs too: they say where a theorem promises convergence.
"""

from dataclasses import dataclass
from math import exp, expm1, inf, isqrt, log, log1p, sqrt
from typing import Any

import numpy as np

from tellmost.kernels import FeatureKernel, Gaussian, Kernel, Laplace, Matern, Scaled
from tellmost.kernels.linear import check_kernel
from tellmost.rows.checks import check_number, check_positive, check_whole
from tellmost.shapes import Float
from tellmost.theory.boundaries import (
    conditioning,
    largest_variances,
    leave_irreducible,
    variance_along,
)
from tellmost.theory.capacity import find_capacity
from tellmost.theory.gains import choose, summed_gains, task_complexity
from tellmost.theory.setting import Setting, are_among, check_rule_name, check_setting


@dataclass(frozen=True)
class GainBound:
    """The gain of step n, Gamma_{n-1}, and the theorem's bound on it."""

    gain: float
    bound: float
    complexity: float  # alpha_n


def gain_bound(
    pool: Any, targets: Any, n: int, *, rule: str = "itl", kernel: Any = None, noise_std: Any
) -> GainBound:
    r"""Bound the gain of step n. Gains vanish as the capacity is used up.

    .. math::
        \text{ITL: } \Gamma_{n-1} \le \frac{\alpha_n}{n} \gamma_{A,S}(n), \quad
        \text{VTL: } \Gamma_{n-1} \le \frac{2\sigma^2 \alpha_n}{n} \sum_{a \in A}
            \gamma_{\{a\},S}(n), \quad
        \text{MM-ITL: } \Gamma_{n-1} \le \frac{\alpha_n}{n} \sum_{a \in A} \gamma_{\{a\},S}(n)

    Hübotter et al. 2024, App. "Convergence of Marginal Gain" and "Mean Marginal ITL", which takes
    :math:`\alpha_n = 1`. The theorem for ITL prints :math:`\alpha_{n_1}` where its proof needs
    :math:`\alpha_{n_1 + 1}`; the proof's is used. Capacities are taken at their upper bounds.
    """
    setting = check_setting(pool, targets, kernel, noise_std)
    return bound_gain(setting, check_whole(n, "n"), check_rule_name(rule))


def bound_gain(setting: Setting, n: int, rule: str) -> GainBound:
    gains = summed_gains(setting, choose(setting, n, rule), rule)
    complexity = float(task_complexity(gains)[-1])
    if rule == "itl":
        capacity = find_capacity(setting, n).upper
    else:
        each = (setting.about(setting.targets[a : a + 1]) for a in range(len(setting.targets)))
        capacity = sum(find_capacity(one, n).upper for one in each)
    if rule == "vtl":
        capacity *= 2.0 * float(setting.kernel.diagonal(setting.targets).max())
    return GainBound(float(gains[-1]), complexity * capacity / n, complexity)


def variance_bound_within(
    gain: float, *, rule: str = "itl", prior_variance: float, noise_variance: float
) -> float:
    r"""Bound the variance of a target that is a sample, given the largest gain.

    .. math::
        \text{ITL, MM-ITL: } \sigma_n^2(x) \le 2 \tilde\sigma^2\, \Gamma_n, \qquad
        \text{VTL: } \sigma_n^2(x) \le
            \tfrac12 \big(\Gamma_n + \sqrt{\Gamma_n^2 + 4 \rho^2 \Gamma_n}\big)

    Hübotter et al. 2024, App. "Proof of the convergence rates", lemma "Uniform convergence of
    marginal variance within S"; :math:`\tilde\sigma^2` is the largest prior variance plus the
    largest noise variance. The bound holds after any picks; ``gain`` has the unit of
    ``marginal_gains_along``. The lemma is false for VTL, whose gain shrinks as fast as the square
    of the variance. There the bound follows from what an observation of x itself would gain,
    :math:`\sigma_n^4 / (\sigma_n^2 + \rho^2) \le \Gamma_n`.
    """
    rule = check_rule_name(rule)
    prior = check_positive(prior_variance, "prior_variance")
    noise = check_positive(noise_variance, "noise_variance")
    gain = check_number(gain, "gain", least=0)
    if rule == "vtl":
        return 0.5 * (gain + sqrt(gain**2 + 4.0 * noise * gain))
    return 2.0 * (prior + noise) * gain


@dataclass(frozen=True, eq=False)
class VarianceBound:
    """The variance of each target after n picks, and the bound of the convergence theorem.

    ``bound`` uses the gain that was reached, ``a_priori`` the most that ``gain_bound`` allows.
    """

    variance: Float[np.ndarray, " m"]
    floor: Float[np.ndarray, " m"]
    bound: Float[np.ndarray, " m"]
    a_priori: Float[np.ndarray, " m"]

    @property
    def reducible(self) -> Float[np.ndarray, " m"]:
        """nu^2, the part of the bound above the floor."""
        return np.maximum(self.bound - self.floor, 0.0)


def variance_bound(
    pool: Any,
    targets: Any,
    n: int,
    *,
    rule: str = "itl",
    kernel: Any = None,
    noise_std: Any,
    ratio: float = 1.0,
) -> VarianceBound:
    r"""Bound how uncertain each target can be after n picks of a rule.

    .. math:: \sigma_n^2(x) \le \eta_S^2(x) + \frac{2 \sigma^2 k}{\bar\kappa}\, \Gamma_n
        + c\, \frac{\gamma_k}{k}, \qquad
        c = \frac{2 |\Omega| \sigma^2 \tilde\sigma^2}{\lambda_{\min}(K_{\Omega\Omega})}, \quad
        k = \lfloor \sqrt n \rfloor

    Hübotter et al. 2024, Thm. "Convergence rates" and its proof, with the constants. For VTL there
    is no :math:`2\sigma^2` before the gain. Omega is S or, for inner products, a basis of its
    span; the bound is infinite where :math:`K_{SS}` is singular. Targets that are samples have the
    bound of ``variance_bound_within`` too, and get the smaller one. ``ratio`` is a lower bound on
    information ratios. The paper assumes submodularity, which is ``ratio`` 1: it holds for ITL
    where every sample is a target, and elsewhere the bound is as good as that assumption. The
    theorem has :math:`\gamma_{A,S}` in both terms. Its proof gives it for the gain, and the
    capacity of the samples for the other term.
    """
    setting = check_setting(pool, targets, kernel, noise_std)
    rule, count = check_rule_name(rule), check_whole(n, "n")
    weakness = check_positive(ratio, "ratio")
    chosen = choose(setting, count + 1, rule)
    gain = float(summed_gains(setting, chosen, rule)[-1])
    floor = leave_irreducible(setting).value
    most = bound_gain(setting, count + 1, rule).bound
    return VarianceBound(
        variance=variance_along(setting, chosen.indices[:-1].tolist())[-1],
        floor=floor,
        bound=_bound(setting, floor, gain, count, rule, weakness),
        a_priori=_bound(setting, floor, most, count, rule, weakness),
    )


def error_bound(width: float, bound: VarianceBound) -> Float[np.ndarray, " m"]:
    r"""Bound how far the posterior mean can be from the true function at each target.

    .. math:: |f(x) - \mu_n(x)| \le \beta_n(\delta)\, [\eta_S(x) + \nu_{A,S}(n)]

    Hübotter et al. 2024, App. "Proof of Convergence in Non-probabilistic Setting", Thm. "Bound on
    approximation error for ITL and VTL"; ``width`` is the ``confidence_width``.
    """
    beta = check_positive(width, "width")
    return beta * (np.sqrt(bound.floor) + np.sqrt(bound.reducible))


def _bound(
    setting: Setting, floor: np.ndarray, gain: float, n: int, rule: str, ratio: float
) -> Float[np.ndarray, " m"]:
    sigma, noisy = largest_variances(setting)
    noise = float(setting.noise_variance.max())
    k = isqrt(n)
    per_gain = k * (1.0 if rule == "vtl" else 2.0 * sigma) / ratio
    beyond = floor + per_gain * gain
    c, omega = conditioning(setting)
    # c gamma_k / k is the variance above the floor that k observations of the samples leave
    beyond = beyond + (c if c in (0.0, inf) else c * find_capacity(omega, k).upper / k)
    if rule == "vtl":
        within = variance_bound_within(gain, rule=rule, prior_variance=sigma, noise_variance=noise)
    else:
        within = 2.0 * noisy * gain
    return np.where(are_among(setting.targets, setting.pool), np.minimum(beyond, within), beyond)


@dataclass(frozen=True)
class StochasticTargetBound:
    r"""With probability 1 - ``failure`` at least ``rounds`` of n rounds had a target near a point.

    "Near" means within a ball of weight p, and ``share`` is the probability of that in a round,
    :math:`\nu = 1 - (1-p)^K`. The paper takes :math:`\nu \approx K p`, which is larger. So its
    numbers, ``approximate_rounds`` and ``approximate_failure``, promise too much unless K p is
    small.
    """

    share: float
    rounds: float
    failure: float
    approximate_rounds: float
    approximate_failure: float

    def reducible(
        self, capacity: float, *, constant: float, lipschitz: float, radius: float
    ) -> float:
        r"""The reducible variance in the paper's sketch, of which only the order is proved.

        .. math:: C L_I \gamma\, \gamma_{k(n)} / \sqrt{k(n)}

        ``capacity`` is that of k(n) = ``rounds`` observations, ``constant`` is C of the
        convergence theorem, ``lipschitz`` that of the ITL objective, ``radius`` that of the ball.
        """
        factors = {"constant": constant, "lipschitz": lipschitz, "radius": radius}
        product = check_positive(capacity, "capacity") / sqrt(self.rounds)
        for name, factor in factors.items():
            product *= check_positive(factor, name)
        return product


def stochastic_target_bound(n: int, *, size: int, weight: float) -> StochasticTargetBound:
    r"""Bound how many of n rounds see a target near a point, if each draws ``size`` targets.

    .. math:: \Pr\Big[ \sum_{i \le n} X_i \ge \tfrac12 n \nu \Big] \ge 1 - e^{-n \nu / 8}, \qquad
        \nu = 1 - (1 - p)^K \approx K p

    Hübotter et al. 2024, App. "Stochastic Target Spaces": Chernoff's bound for n independent
    rounds, where K = ``size`` and p = ``weight`` is the probability of the ball. The proposition
    prints a failure of :math:`e^{-(1-p) n / (8K)}`, which falls as the ball gets lighter and rises
    with more targets. Its proof gives :math:`e^{-K p n / 8}`, which is the approximate form here.
    """
    count, K, p = check_whole(n, "n"), check_whole(size, "size"), check_positive(weight, "weight")
    if p > 1:
        raise ValueError(f"weight is the probability of a ball, at most 1; got {weight}.")
    share = 1.0 if p == 1 else -expm1(K * log1p(-p))
    return StochasticTargetBound(
        share=share,
        rounds=count * share / 2.0,
        failure=exp(-count * share / 8.0),
        approximate_rounds=K * p * count / 2.0,
        approximate_failure=exp(-K * p * count / 8.0),
    )


@dataclass(frozen=True)
class CapacityRate:
    """scale * n^power * log(n)^log_power, up to a constant and to further logarithms."""

    scale: float
    power: float
    log_power: float

    def at(self, n: int) -> float:
        count = check_whole(n, "n")
        return self.scale * count**self.power * log(count) ** self.log_power

    @property
    def is_sublinear(self) -> bool:
        """If true, targets within the samples are learned, as the convergence theorems ask."""
        return self.power < 1.0

    @property
    def is_below_root(self) -> bool:
        """If true, rate / sqrt(n) vanishes, so targets beyond the samples reach their floor."""
        return self.power < 0.5

    def __str__(self) -> str:
        parts = [f"{self.scale:g}"] if self.scale != 1 else []
        parts += [f"n^{self.power:.3g}"] if self.power else []
        parts += ["log(n)" if self.log_power == 1 else f"log(n)^{self.log_power:.3g}"]
        return " ".join(parts)


def capacity_rate(kernel: Any, dimension: int, *, size: int | None = None) -> CapacityRate:
    r"""The rate at which :math:`\gamma_n` grows with n on a compact domain.

    .. math::
        \text{Linear } O(d \log n), \quad \text{Gaussian } \tilde O(\log^{d+1} n), \quad
        \text{Matérn } \tilde O\big(n^{\frac{d}{2\nu+d}} \log^{\frac{2\nu}{2\nu+d}} n\big)

    Hübotter et al. 2024, table of rates, after Srinivas et al. 2009 (Thm. 5) and Vakili et al.
    2021 (Remark 2). Laplace has the rate of Matérn with nu = 1/2, which it is in one dimension.
    Rates have no constant: a number that bounds is ``information_capacity(...).upper`` or
    ``capacity_bound``. ``dimension`` is that of the points; for inner products it is the number of
    features. For a kernel that is not in the table give the ``size`` of a finite domain:
    :math:`O(|X| \log n)` holds for any kernel.
    """
    known = _in_table(check_kernel(kernel), check_whole(dimension, "dimension"))
    if known is not None:
        return known
    if size is None:
        raise ValueError(
            f"no rate is known for {kernel!r}: the table has Linear and other inner products, "
            f"Gaussian, Laplace, Matern, and these scaled. Give size, the number of points of a "
            f"finite domain."
        )
    return CapacityRate(check_whole(size, "size"), 0.0, 1.0)


def _in_table(kernel: Kernel, d: int) -> CapacityRate | None:
    if isinstance(kernel, Scaled):
        return _in_table(kernel.kernel, d)
    if isinstance(kernel, FeatureKernel):
        return CapacityRate(d, 0.0, 1.0)
    if isinstance(kernel, Gaussian):
        return CapacityRate(1.0, 0.0, d + 1.0)
    if isinstance(kernel, Laplace | Matern):
        smoothness = 2 * kernel.nu if isinstance(kernel, Matern) else 1.0
        return CapacityRate(1.0, d / (smoothness + d), smoothness / (smoothness + d))
    return None
