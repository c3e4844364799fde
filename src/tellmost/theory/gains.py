"""The largest gains of a rule, and how far from submodular they are: synergies and redundancy.

Hübotter et al. 2024, App. "Measures of Synergies & Approximate Submodularity".
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.rows.checks import check_vector, check_whole
from tellmost.selecting.select import select_quietly
from tellmost.selecting.selection import Selection
from tellmost.shapes import Float, Int
from tellmost.theory.setting import (
    ENUMERATED,
    Joint,
    Setting,
    all_multisets,
    check_picks,
    check_rule_name,
    check_setting,
    count_multisets,
    reduce,
    reduce_singly,
    rounding_of,
    tries_all,
)


def marginal_gains(
    pool: Any, targets: Any, n: int, *, rule: str = "itl", kernel: Any = None, noise_std: Any
) -> Float[np.ndarray, " n"]:
    r"""The largest gain at each of the first n steps of a rule.

    .. math:: \Gamma_i = \max_{x \in S} \Delta_A(x \mid x_{1:i}), \qquad i = 0, \dots, n - 1

    A gain that is larger than the one before shows a synergy. The unit is the paper's: sums over
    the targets for "vtl" and "mm-itl", where ``select(...).gains`` are means.
    """
    setting, rule = check_setting(pool, targets, kernel, noise_std), check_rule_name(rule)
    return summed_gains(setting, choose(setting, check_whole(n, "n"), rule), rule)


def marginal_gains_along(
    pool: Any, targets: Any, picks: Any, *, rule: str = "itl", kernel: Any = None, noise_std: Any
) -> Float[np.ndarray, " t"]:
    r"""The largest gain after each prefix of any picks, :math:`\Gamma_0, \dots, \Gamma_n`."""
    setting = check_setting(pool, targets, kernel, noise_std)
    rule, rows = check_rule_name(rule), check_picks(picks, "picks", len(setting.pool))
    prefixes = (rows[:count] for count in range(len(rows) + 1))
    return np.array([float(reduce_singly(Joint.of(setting, p), rule).max()) for p in prefixes])


def task_complexity(gains: Any) -> Float[np.ndarray, " n"]:
    r"""A gain is so many times larger than the smallest so far: this is the price of synergies.

    .. math:: \alpha_n = \max_{0 \le i < n} \Gamma_{n-1} / \Gamma_i

    The definition "Task complexity", for each prefix: entry n - 1 is :math:`\alpha_n`, of gains 0
    to n - 1, so it can be followed online. It is at least 1, and exactly 1 while gains shrink.
    Units cancel, so ``select(...).gains`` will do. The definition asks for positive gains; here
    0 / 0 is 1.
    """
    if np.size(gains) == 0:
        raise ValueError("gains must not be empty; got none.")
    values = check_vector(gains, "gains", np.size(gains), "step").numpy()
    if (values < 0).any():
        raise ValueError(f"gains must not be negative; got {values.min():g}.")
    smallest = np.minimum.accumulate(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values == smallest, 1.0, values / smallest)


def choose(setting: Setting, n: int, rule: str, *, given: Sequence[int] = ()) -> Selection:
    """n picks by ``tm.select``, after what is given; a sample may be picked again.

    Where every sample is a target, ITL is undirected ITL, which is faster.
    """
    is_undirected = rule == "itl" and setting.pool_is_targeted
    return select_quietly(
        setting.pool,
        setting.targets,
        n,
        rule="undirected-itl" if is_undirected else rule,
        kernel=setting.kernel,
        noise_std=setting.noise_variance.sqrt(),
        observed=np.array(given, dtype=np.int64),
        replace=True,
        progress=False,
    )


def summed_gains(setting: Setting, chosen: Selection, rule: str) -> Float[np.ndarray, " n"]:
    """The gains in the paper's unit: sums over the targets, where ``select`` has means."""
    return chosen.gains if rule == "itl" else chosen.gains * len(setting.targets)


@dataclass(frozen=True, eq=False)
class Interaction:
    """It compares what each part of a set tells by itself with what all tell together.

    The difference ``value`` is their multivariate information: redundancy if it is positive,
    synergy if it is negative. A value smaller than ``rounding`` means nothing.
    """

    apart: Float[np.ndarray, " p"]
    together: float
    rounding: float

    @property
    def value(self) -> float:
        return float(self.apart.sum()) - self.together

    @property
    def is_redundant(self) -> bool:
        return self.value > self.rounding

    @property
    def is_synergistic(self) -> bool:
        return self.value < -self.rounding

    @property
    def ratio(self) -> float:
        """``apart`` over ``together``; 1 where nothing is told."""
        if self.together <= self.rounding:
            return 1.0
        return float(self.apart.sum()) / self.together


def multivariate_information(
    pool: Any, targets: Any, parts: Any, *, kernel: Any = None, noise_std: Any, given: Any = ()
) -> Interaction:
    r"""Compute how far parts of a set of observations repeat each other, or need each other.

    .. math::
        I(f_A; y_Y; y_Z \mid y_D) = I(f_A; y_Y \mid y_D) + I(f_A; y_Z \mid y_D)
            - I(f_A; y_Y, y_Z \mid y_D)

    Hübotter et al. 2024, App. "Information Theory"; Murphy 2023. ``parts`` are row numbers, or
    lists of them. Two parts are the paper's Y and Z. For more parts the value is the sum of what
    each tells minus what all tell, and zero where they do not interact.
    """
    setting = check_setting(pool, targets, kernel, noise_std)
    n = len(setting.pool)
    each = [parts] if isinstance(parts, int | np.integer) else parts
    rows = [check_picks(np.atleast_1d(part), "parts", n) for part in each]
    joint = Joint.of(setting, check_picks(given, "given", n))
    return interact(joint, rows, "itl")


def information_ratio(
    pool: Any,
    targets: Any,
    picks: Any,
    *,
    rule: str = "itl",
    kernel: Any = None,
    noise_std: Any,
    given: Any = (),
) -> float:
    r"""Divide what observations tell one by one by what they tell together.

    .. math:: \bar\kappa(X \mid D) = \frac{\sum_{x \in X} \Delta_A(x \mid D)}{\Delta_A(X \mid D)}

    Hübotter et al. 2024, App. "The Information Ratio". Above 1 the observations are redundant,
    below 1 synergistic; 0 / 0 is 1, as in the paper. The ratio is positive for Gaussians, but has
    no positive lower bound: even uncorrelated observations can be worth nothing alone.
    """
    setting = check_setting(pool, targets, kernel, noise_std)
    joint = Joint.of(setting, check_picks(given, "given", len(setting.pool)))
    parts = [[row] for row in check_picks(picks, "picks", len(setting.pool))]
    return interact(joint, parts, check_rule_name(rule)).ratio


def interact(joint: Joint, parts: list[list[int]], rule: str) -> Interaction:
    whole = [row for part in parts for row in part]
    *apart, together = (
        float(reduce(joint, torch.tensor([rows], dtype=torch.int64), rule))
        for rows in [*parts, whole]
    )
    return Interaction(np.array(apart), together, rounding_of(joint, rule))


@dataclass(frozen=True, eq=False)
class SubmodularityRatio:
    """The least information ratio that was found, and where. It is an upper bound or exact."""

    value: float
    subset: Int[np.ndarray, " s"]  # X
    given: Int[np.ndarray, " g"]  # D
    is_exact: bool
    rule: str
    size: int  # up to this cardinality
    repeats: bool = True  # X and D are multisets; else sets of rows


def submodularity_ratio(
    pool: Any,
    targets: Any,
    n: int,
    *,
    rule: str = "itl",
    kernel: Any = None,
    noise_std: Any,
    method: str = "auto",
    draws: int = 1_000,
    seed: int = 0,
    repeats: bool = True,
) -> SubmodularityRatio:
    r"""The least information ratio up to n observations.

    .. math:: \kappa_A(n) = \min_{D \subseteq x_{1:n},\; X \subseteq S,\; |X| \le n,\;
        D \cap X = \emptyset} \bar\kappa(X \mid D)

    Hübotter et al. 2024, App. "The Submodularity Ratio", after Das and Kempe 2018;
    :math:`x_{1:n}` are the rule's own picks. The ratio is at most 1, since single points have
    ratio 1, and it is 1 if the reduction is submodular. Repeated observations count as different
    elements, so X may repeat what is in D. Without ``repeats`` D and X are sets of rows that have
    none in common, as printed; that ratio is as large or larger, and no guarantee where a rule
    observes a row again.

    "exact" tries all sets. "sampled" gives the least of ``draws`` random ratios, an upper bound
    that guarantees nothing. "auto" is exact up to ``setting.ENUMERATED`` ratios.
    """
    setting = check_setting(pool, targets, kernel, noise_std)
    rule, size = check_rule_name(rule), check_whole(n, "n")
    picks = [int(row) for row in choose(setting, size, rule).indices]
    picks = picks if repeats else list(dict.fromkeys(picks))
    sizes, parts, n_rows = range(2, size + 1), _parts(picks), len(setting.pool)
    count = len(parts) * sum(count_multisets(n_rows, s) for s in sizes)
    is_exact = tries_all(method, "sampled", count, "pair of sets")
    cases: Cases
    if is_exact:
        cases = ((part, all_multisets(n_rows, s)) for part in sorted(parts) for s in sizes)
    else:
        cases = _drawn_cases(setting, picks, check_whole(draws, "draws"), seed)
    if not repeats:
        cases = ((part, some) for part, x in cases if len(some := _sets_beside(part, x)))
    value, subset, given = _least(setting, cases, rule)
    return SubmodularityRatio(value, subset, given, is_exact, rule, size, repeats)


def _sets_beside(part: tuple[int, ...], subsets: Int[Tensor, "c s"]) -> Int[Tensor, "k s"]:
    """The multisets that repeat no row and have none of ``part``."""
    has_part = torch.isin(subsets, torch.tensor(part, dtype=torch.int64)).any(dim=1)
    return subsets[~has_part & (subsets.sort(dim=1).values.diff(dim=1) > 0).all(dim=1)]


Cases = Iterator[tuple[tuple[int, ...], Int[Tensor, "c s"]]]
"""Pairs of what is given and multisets of one size."""


def _least(setting: Setting, cases: Cases, rule: str) -> tuple[float, np.ndarray, np.ndarray]:
    least, where = 1.0, np.array([0])  # a single point, given nothing
    given = np.empty(0, dtype=np.int64)
    known: tuple[tuple[int, ...], Joint] | None = None
    for observed, subsets in cases:
        if known is None or known[0] != observed:
            known = observed, Joint.of(setting, observed)
        joint = known[1]
        together = reduce(joint, subsets, rule)
        apart = reduce_singly(joint, rule)[subsets].sum(dim=1)
        ratios = torch.where(together > rounding_of(joint, rule), apart / together, 1.0)
        best = int(ratios.argmin())
        if float(ratios[best]) < least:
            least, where = float(ratios[best]), subsets[best].numpy()
            given = np.array(observed, dtype=np.int64)
    return least, where, given


def _parts(picks: list[int]) -> set[tuple[int, ...]]:
    """All sub-multisets, until there are too many to be enumerated."""
    parts: set[tuple[int, ...]] = {()}
    for pick in picks:
        parts |= {tuple(sorted((*part, pick))) for part in parts}
        if len(parts) > ENUMERATED:
            break
    return parts


def _drawn_cases(setting: Setting, picks: list[int], draws: int, seed: int) -> Cases:
    rng = np.random.default_rng(seed)
    for _ in range(draws if len(picks) > 1 else 0):
        observed = tuple(pick for pick in picks if rng.random() < 0.5)
        size = int(rng.integers(2, len(picks) + 1))
        yield observed, torch.from_numpy(rng.integers(len(setting.pool), size=(1, size)))
