"""A few observations can tell almost as much about targets as all samples do.

Hübotter et al. 2024, Sec. 3.1 and App. "Existence of an Approximate Markov Boundary" and
"Generalization to Continuous S for Finite Dimensional RKHSs".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.linear import feature_form
from tellmost.numerics import RANK_TOLERANCE
from tellmost.posterior.floor import compute_floor
from tellmost.posterior.function_space import FunctionPosterior
from tellmost.posterior.problem import Problem, nonnegative
from tellmost.rows.checks import check_positive, check_whole, check_word
from tellmost.rows.pool import Pool
from tellmost.shapes import Float, Int
from tellmost.theory.capacity import capacity_bound
from tellmost.theory.gains import choose
from tellmost.theory.setting import Setting, check_picks, check_rule_name, check_setting

BOUNDARY_PICKS = 1_000  # a Markov boundary has so many at most, unless the caller says
FIRST_PICKS = 16  # so many are tried first, then twice as many, and so on


@dataclass(frozen=True, eq=False)
class IrreducibleVariance:
    """eta^2 of each target, or an upper bound of it where ``is_exact`` is False."""

    value: Float[np.ndarray, " m"]
    is_exact: bool
    description: str


def irreducible_variance(pool: Any, targets: Any, *, kernel: Any = None) -> IrreducibleVariance:
    r"""The variance left at each target if f were known at every sample.

    .. math:: \eta_S^2(x) = \mathrm{Var}[f_x \mid f_S] = \|\phi(x)\|^2_{\Pi_\Phi}, \qquad
        \Pi_\Phi = I - \Phi^\top (\Phi \Phi^\top)^{-1} \Phi

    Hübotter et al. 2024, Sec. 3.1, and for kernels that are inner products the form with features
    of App. "Generalization to Continuous S for Finite Dimensional RKHSs". It is zero within S and,
    for inner products, within the span of S. Eigenvalues below ``numerics.RANK_TOLERANCE`` count
    as zero. For more than ``numerics.FLOOR_EXACT_ROWS`` samples of a kernel that is no inner
    product it is an upper bound, and says so. ``select(..., floor=True).floor`` is the same.
    """
    return leave_irreducible(check_setting(pool, targets, kernel, 1.0))


def leave_irreducible(setting: Setting) -> IrreducibleVariance:
    problem = Problem(
        kernel=setting.kernel,
        rows=Pool.of(setting.pool),
        noise_variance=setting.noise_variance,
        prior_variance=setting.kernel.diagonal(setting.pool),
        targets=setting.targets,
        target_weights=torch.full((len(setting.targets),), 1.0 / len(setting.targets)).double(),
    )
    found = compute_floor(problem, [])
    return IrreducibleVariance(found.floor.numpy(), found.is_exact, found.description)


@dataclass(frozen=True, eq=False)
class MarkovBoundary:
    """Observations after which every target is within epsilon of its irreducible variance.

    They were found greedily, so a smaller set may exist. ``size_bound`` is the paper's bound on
    the size of the smallest, and may be infinite.
    """

    indices: Int[np.ndarray, " b"]
    variance: Float[np.ndarray, " m"]
    floor: Float[np.ndarray, " m"]
    epsilon: float
    size_bound: float

    def __len__(self) -> int:
        return len(self.indices)


def markov_boundary(
    pool: Any,
    targets: Any,
    epsilon: float,
    *,
    kernel: Any = None,
    noise_std: Any,
    given: Any = (),
    method: str = "directed",
    at_most: int = BOUNDARY_PICKS,
) -> MarkovBoundary:
    r"""An approximate Markov boundary of a point in the pool, or one for several points.

    .. math:: \mathrm{Var}[f_x \mid D_n, y_B] \le \eta_S^2(x) + \epsilon

    Hübotter et al. 2024, App. "Convergence outside S for ITL" and "Existence of an Approximate
    Markov Boundary". "undirected" is the paper's construction: it observes by undirected ITL until
    the property holds for all targets. "directed" is the paper's tighter variant: it takes one
    target and observes by ITL about it. Samples may come repeatedly. ``given`` are rows that were
    observed before (D).
    """
    setting = check_setting(pool, targets, kernel, noise_std)
    slack, most = check_positive(epsilon, "epsilon"), check_whole(at_most, "at_most")
    check_word(method, "method", ("directed", "undirected"))
    if method == "directed" and len(setting.targets) != 1:
        raise ValueError(
            f'method="directed" takes one target, whose boundary it is; got '
            f'{len(setting.targets)}. Ask for each, or use method="undirected".'
        )
    observed = check_picks(given, "given", len(setting.pool))
    own = setting if method == "directed" else setting.about(setting.pool)
    found = leave_irreducible(setting)
    if not found.is_exact:
        raise ValueError(
            f"pool must be small enough for an exact irreducible variance, or the kernel an inner "
            f"product; got {len(setting.pool):,} rows, and {found.description}. Pass fewer rows."
        )
    floor = found.value
    picks, variance = _observe_until(setting, own, observed, floor + slack, most)
    bound = _size_bound(setting, slack)
    return MarkovBoundary(np.array(picks, dtype=np.int64), variance, floor, slack, bound)


def markov_boundary_size(
    pool: Any, targets: Any, epsilon: float, *, kernel: Any = None, noise_std: Any
) -> float:
    r"""An upper bound on the size of the smallest approximate Markov boundary of any target.

    .. math:: \min \Big\{ k : \frac{\gamma_k}{k} \le
        \frac{\epsilon\, \lambda_{\min}(K_{\Omega\Omega})}{2\, |\Omega|\, \sigma^2
        \tilde\sigma^2} \Big\}

    Hübotter et al. 2024, App. "Convergence outside S for ITL", lemma "Existence of an approximate
    Markov boundary", with Omega = S (repeated rows once). For inner products Omega is a basis of
    the span of S, as in App. "Generalization to Continuous S". The bound is infinite where
    :math:`K_{SS}` is singular up to ``numerics.RANK_TOLERANCE``. :math:`\gamma_k` is replaced by
    ``capacity_bound``, so the size is never understated; it is often astronomic.
    """
    setting = check_setting(pool, targets, kernel, noise_std)
    return _size_bound(setting, check_positive(epsilon, "epsilon"))


def _size_bound(setting: Setting, epsilon: float) -> float:
    c, omega = conditioning(setting)
    if c in (0.0, inf):
        return c
    return observations_until(omega, epsilon / c)


def observations_until(setting: Setting, level: float) -> float:
    r"""The smallest k with :math:`\gamma_k / k` at most a level, by ``capacity_bound``."""
    rank, signal = len(setting.pool), setting.signal_to_noise

    def is_enough(k: int) -> bool:
        return capacity_bound(k, rank=rank, signal_to_noise=signal) <= level * k

    high = next((2**i for i in range(1_000) if is_enough(2**i)), None)  # to where float64 ends
    if high is None:
        return inf
    low = high // 2  # the bound over k only falls, so bisection finds where it does
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return float(high)


def rounds_to_safe_optimum(
    safe: Any,
    targets: Any,
    epsilon: float,
    *,
    rule: str = "itl",
    kernel: Any = None,
    noise_std: Any,
    ratio: float = 1.0,
) -> tuple[float, float]:
    r"""n' and n*: rounds until the safe set has grown once, and until the safe optimum is known.

    .. math:: n' = \min \{ n : \nu_{n,\tilde\epsilon^2} \le \tilde\epsilon \}, \quad
        \tilde\epsilon = \tfrac{\epsilon}{2}, \qquad n^* = (|S^*| + 1)\, n', \qquad
        \nu^2_{n,\tilde\epsilon^2} = \frac{2 \sigma^2 b}{\bar\kappa} \frac{\gamma_{n+1}}{n+1}

    Hübotter et al. 2024, App. "Convergence to Safe Optimum"; ``safe`` is the true safe set
    :math:`S^*`, ``targets`` are A_0. The paper does not define :math:`\nu_{n,\epsilon^2}`. Here
    it is the gain's part in the proof of "Convergence rates", times the number of targets but for
    ITL, and b the size of a :math:`\tilde\epsilon^2`-approximate Markov boundary, so that
    :math:`\sigma_{n'}(x) \le \eta_S(x) + \epsilon`. ``capacity_bound`` stands for
    :math:`\gamma_n`: nothing is understated, and much is astronomic. ``ratio`` is a lower bound on
    information ratios; the paper assumes 1. Each output asks for its own number.
    """
    setting = check_setting(safe, targets, kernel, noise_std)
    slack, weakness = check_positive(epsilon, "epsilon") / 2.0, check_positive(ratio, "ratio")
    size = _size_bound(setting, slack**2)
    if size in (0.0, inf):
        return size, size
    learned = 1 if check_rule_name(rule) == "itl" else len(setting.targets)
    per_nat = 2.0 * largest_variances(setting)[0] * size * learned / weakness
    omega = setting.within(spanning_rows(setting))
    rounds = observations_until(omega, slack**2 / per_nat) - 1.0
    return rounds, (len(setting.pool) + 1.0) * rounds


def _observe_until(
    setting: Setting, own: Setting, given: list[int], level: Float[np.ndarray, " m"], at_most: int
) -> tuple[list[int], Float[np.ndarray, " m"]]:
    """Picks by ITL about the targets of ``own``, until those of ``setting`` are below a level."""
    count = 0
    while True:
        picks = choose(own, count, "itl", given=given).indices.tolist() if count else []
        along = variance_along(setting, [*given, *picks])[len(given) :]
        reached = np.flatnonzero((along <= level).all(axis=1))
        if len(reached):
            return picks[: reached[0]], along[reached[0]]
        if count == at_most:
            excess = float((along[-1] - level).max())
            raise ValueError(
                f"at_most={at_most} observations do not reach epsilon: {excess:.3g} of variance "
                f"above the wanted level are left. Allow more, or a larger epsilon."
            )
        count = min(max(2 * count, FIRST_PICKS), at_most)


def variance_along(setting: Setting, picks: Sequence[int]) -> Float[np.ndarray, "t m"]:
    """The variance of each target after 0, 1, ... of the picks, in their order."""
    posterior = FunctionPosterior(setting.kernel, setting.pool.device)
    for row in picks:
        posterior.observe(setting.pool[row : row + 1], float(setting.noise_variance[row]))
    falls = posterior.whiten(setting.targets).square().cumsum(dim=0)
    prior = setting.kernel.diagonal(setting.targets)[None]
    return nonnegative(torch.cat([prior, prior - falls])).numpy()


def spanning_rows(setting: Setting) -> Int[Tensor, " r"]:
    """Rows that determine f on the pool: a basis for inner products, else all that differ."""
    if feature_form(setting.kernel) is None:
        points = setting.pool.reshape(len(setting.pool), -1)
        _, group = torch.unique(points, dim=0, return_inverse=True)
        numbers = group.tolist()
        return torch.tensor(sorted({number: row for row, number in enumerate(numbers)}.values()))
    posterior, chosen = FunctionPosterior(setting.kernel, setting.pool.device), list[int]()
    enough = RANK_TOLERANCE * float(setting.kernel.diagonal(setting.pool).max())
    while float((left := posterior.variance(setting.pool)).max()) > enough:
        chosen.append(int(left.argmax()))
        posterior.observe(setting.pool[chosen[-1] : chosen[-1] + 1], 0.0)
    return torch.tensor(chosen, dtype=torch.int64)


def conditioning(setting: Setting) -> tuple[float, Setting]:
    r"""The paper's c, and Omega: how hard it is to learn f at all samples by learning it there.

    .. math:: c = 2 |\Omega| \sigma^2 \tilde\sigma^2 / \lambda_{\min}(K_{\Omega\Omega})
    """
    omega = setting.within(spanning_rows(setting))
    if len(omega.pool) == 0:
        return 0.0, omega
    values = torch.linalg.eigvalsh(setting.kernel.block(omega.pool, omega.pool))
    if float(values[0]) <= RANK_TOLERANCE * float(values[-1]):
        return inf, omega
    sigma, noisy = largest_variances(setting)
    return 2.0 * len(omega.pool) * sigma * noisy / float(values[0]), omega


def largest_variances(setting: Setting) -> tuple[float, float]:
    r""":math:`\sigma^2` over samples and targets, :math:`\tilde\sigma^2` over samples."""
    of_pool = setting.kernel.diagonal(setting.pool)
    sigma = max(float(of_pool.max()), float(setting.kernel.diagonal(setting.targets).max()))
    return sigma, float((of_pool + setting.noise_variance).max())
