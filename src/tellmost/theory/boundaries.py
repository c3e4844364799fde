"""Few observations that tell about a point what all of the sample space could."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import torch

from tellmost.numerics import BOUNDARY_PICKS, nonnegative
from tellmost.posterior.function_space import FunctionPosterior
from tellmost.rows.opening import check_positive, check_whole
from tellmost.shapes import Float, Int
from tellmost.theory.capacity import capacity_bound
from tellmost.theory.greedy import choose
from tellmost.theory.irreducible import leave_irreducible
from tellmost.theory.setting import Setting, check_picks, check_setting
from tellmost.theory.spans import conditioning, spanning_rows

FIRST_PICKS = 16
"""How many observations are tried first; then twice as many, and again."""


@dataclass(frozen=True, eq=False)
class MarkovBoundary:
    """Observations after which every target is within epsilon of its irreducible variance.

    One such set, found greedily; a smaller one may exist. ``size_bound`` is what the paper's
    lemma says of the smallest, and may be infinite.
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
    Markov Boundary". "undirected" observes by undirected ITL whatever the targets, the paper's
    construction, until the property holds for all of them. "directed" observes by ITL about the
    target, of which it takes one: the paper's tighter variant. Samples may come repeatedly.
    ``given`` are rows that were observed before (D).
    """
    setting = check_setting(pool, targets, kernel, noise_std)
    slack, most = check_positive(epsilon, "epsilon"), check_whole(at_most, "at_most")
    if method not in ("directed", "undirected"):
        raise ValueError(f'method must be "directed" or "undirected"; got {method!r}.')
    if method == "directed" and setting.target_count != 1:
        raise ValueError(
            f'method="directed" takes one target, whose boundary it is; got '
            f'{setting.target_count}. Ask for each, or use method="undirected".'
        )
    observed = check_picks(given, "given", len(setting.pool))
    own = setting if method == "directed" else setting.about(setting.pool)
    floor = _exact_floor(setting)
    picks, variance = _observe_until(setting, own, observed, floor + slack, most)
    bound = _size_bound(setting, slack)
    return MarkovBoundary(np.array(picks, dtype=np.int64), variance, floor, slack, bound)


def markov_boundary_size(
    pool: Any, targets: Any, epsilon: float, *, kernel: Any = None, noise_std: Any
) -> float:
    r"""How large the smallest approximate Markov boundary of any target is at most.

    .. math:: \min \Big\{ k : \frac{\gamma_k}{k} \le
        \frac{\epsilon\, \lambda_{\min}(K_{\Omega\Omega})}{2\, |\Omega|\, \sigma^2
        \tilde\sigma^2} \Big\}

    Hübotter et al. 2024, App. "Convergence outside S for ITL", lemma "Existence of an approximate
    Markov boundary", with Omega = S (repeated rows once). For inner products Omega is a basis of
    the span of S, as in App. "Generalization to Continuous S". Infinite where :math:`K_{SS}` is
    singular up to ``numerics.RANK_TOLERANCE``. :math:`\gamma_k` is replaced by
    ``capacity_bound``, so the size is not understated; it is often astronomic.
    """
    setting = check_setting(pool, targets, kernel, noise_std)
    return _size_bound(setting, check_positive(epsilon, "epsilon"))


def _exact_floor(setting: Setting) -> Float[np.ndarray, " m"]:
    found = leave_irreducible(setting)
    if not found.is_exact:
        raise ValueError(
            f"pool must be small enough for an exact irreducible variance, or the kernel an inner "
            f"product; got {len(setting.pool):,} rows, and {found.description}. Pass fewer rows."
        )
    return found.value


def _size_bound(setting: Setting, epsilon: float) -> float:
    rows = spanning_rows(setting)
    c = conditioning(setting, rows)
    if c in (0.0, inf):
        return c
    signal = setting.within(rows).signal_to_noise
    level = epsilon / c
    k = _doubled_until(lambda k: _most(k, len(rows), signal) <= level * k)
    if k is None:
        return inf
    low, high = k // 2, k  # the bound over k only falls, so bisection finds where it does
    while high - low > 1:
        middle = (low + high) // 2
        is_enough = _most(middle, len(rows), signal) <= level * middle
        low, high = (low, middle) if is_enough else (middle, high)
    return float(high)


def _most(k: int, rank: int, signal_to_noise: float) -> float:
    return capacity_bound(k, rank=rank, signal_to_noise=signal_to_noise)


def _doubled_until(is_enough: Callable[[int], bool]) -> int | None:
    """The first power of two; None where float64 ends."""
    return next((2**i for i in range(1_000) if is_enough(2**i)), None)


def _observe_until(
    setting: Setting,
    own: Setting,
    given: list[int],
    level: Float[np.ndarray, " m"],
    at_most: int,
) -> tuple[list[int], Float[np.ndarray, " m"]]:
    """Picks by ITL about the own setting's targets, until the setting's are below a level."""
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
    """The variance of each target after 0, 1, ... observations, in their order."""
    posterior = FunctionPosterior(setting.kernel, setting.pool.device)
    for row in picks:
        posterior.observe(setting.pool[row : row + 1], float(setting.noise_variance[row]))
    falls = posterior.whiten(setting.targets).square().cumsum(dim=0)
    prior = setting.kernel.diagonal(setting.targets)[None]
    return nonnegative(torch.cat([prior, prior - falls])).numpy()
