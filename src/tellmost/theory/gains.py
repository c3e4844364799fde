"""The largest marginal gains, and how much harder synergies make a task.

Which samples a rule picks, one after the other: by ``tm.select``.

Whether observations tell the same about the targets, or more together than apart.

How far from submodular a reduction of uncertainty is.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.numerics import ENUMERATED
from tellmost.rows.checks import check_vector, check_whole
from tellmost.selecting.select import select
from tellmost.selecting.selection import Selection
from tellmost.shapes import Float, Int
from tellmost.theory.setting import (
    Joint,
    Setting,
    all_multisets,
    check_enumerable,
    check_picks,
    check_rule_name,
    check_setting,
    count_multisets,
    reduce,
    reduce_singly,
    rounding_of,
)


def marginal_gains(
    pool: Any, targets: Any, n: int, *, rule: str = "itl", kernel: Any = None, noise_std: Any
) -> Float[np.ndarray, " n"]:
    r"""The largest gain at each of the first n steps of a rule.

    .. math:: \Gamma_i = \max_{x \in S} \Delta_A(x \mid x_{1:i}), \qquad i = 0, \dots, n - 1

    Hübotter et al. 2024, App. "Measures of Synergies & Approximate Submodularity". A gain above
    the one before shows a synergy. In the paper's unit: sums over the targets for "vtl" and
    "mm-itl", where ``select(...).gains`` are means.
    """
    setting = check_setting(pool, targets, kernel, noise_std)
    rule = check_rule_name(rule)
    return summed_gains(setting, choose(setting, check_whole(n, "n"), rule), rule)


def marginal_gains_along(
    pool: Any, targets: Any, picks: Any, *, rule: str = "itl", kernel: Any = None, noise_std: Any
) -> Float[np.ndarray, " t"]:
    r"""The same along any picks: :math:`\Gamma_0, \dots, \Gamma_n`, after each prefix of them."""
    setting = check_setting(pool, targets, kernel, noise_std)
    rule, rows = check_rule_name(rule), check_picks(picks, "picks", len(setting.pool))
    prefixes = (rows[:count] for count in range(len(rows) + 1))
    return np.array([float(reduce_singly(Joint.of(setting, p), rule).max()) for p in prefixes])


def task_complexity(gains: Any) -> Float[np.ndarray, " n"]:
    r"""How much larger a gain is than the smallest so far: the price of synergies.

    .. math:: \alpha_n = \max_{0 \le i < n} \Gamma_{n-1} / \Gamma_i

    Hübotter et al. 2024, App. "Measures of Synergies & Approximate Submodularity", definition
    "Task complexity", of each prefix: entry n - 1 is :math:`\alpha_n`, from gains 0 to n - 1, so
    it can be followed online. At least 1; exactly 1 while gains shrink. Units cancel:
    ``select(...).gains`` will do. The definition asks for positive gains; here 0 / 0 is 1.
    """
    count = np.size(gains)
    if count == 0:
        raise ValueError("gains must not be empty; got none.")
    values = check_vector(gains, "gains", count, "step").numpy()
    if (values < 0).any():
        raise ValueError(f"gains must not be negative; got {values.min():g}.")
    smallest = np.minimum.accumulate(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values == smallest, 1.0, values / smallest)


def choose(setting: Setting, n: int, rule: str, *, given: Sequence[int] = ()) -> Selection:
    """n picks after what is given; a sample may be picked again.

    ITL where every sample is a target is undirected, and asked for as such. Notes about the
    choice of rule and noise are left out: both are the question's.
    """
    is_undirected = rule == "itl" and setting.pool_is_targeted
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return select(
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
    """The gains in the paper's unit, sums over the targets; ``select`` gives means."""
    return chosen.gains if rule == "itl" else chosen.gains * setting.target_count


@dataclass(frozen=True, eq=False)
class Interaction:
    """What parts of a set tell each by itself, and what they tell together.

    ``value``, the difference, is their multivariate information: redundancy if positive, synergy
    if negative. ``rounding`` is how small it may be and mean nothing.
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
        """apart over together; 1 where nothing is told."""
        if self.together <= self.rounding:
            return 1.0
        return float(self.apart.sum()) / self.together


def multivariate_information(
    pool: Any, targets: Any, parts: Any, *, kernel: Any = None, noise_std: Any, given: Any = ()
) -> Interaction:
    r"""How far parts of a set of observations repeat each other, or need each other.

    .. math::
        I(f_A; y_Y; y_Z \mid y_D) = I(f_A; y_Y \mid y_D) + I(f_A; y_Z \mid y_D)
            - I(f_A; y_Y, y_Z \mid y_D)

    Hübotter et al. 2024, App. "Information Theory"; Murphy 2023. ``parts`` are row numbers, or
    lists of them: two parts are the paper's Y and Z, and for more of them the value is the sum of
    what each tells less what all tell, zero where they do not interact.
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
    r"""What observations tell one by one, over what they tell together.

    .. math:: \bar\kappa(X \mid D) = \frac{\sum_{x \in X} \Delta_A(x \mid D)}{\Delta_A(X \mid D)}

    Hübotter et al. 2024, App. "The Information Ratio". Above 1 they are redundant, below 1
    synergistic. 0 / 0 is 1, as in the paper. Positive for Gaussians, but it may be as small as
    you like: even uncorrelated observations can be worth nothing alone.
    """
    setting = check_setting(pool, targets, kernel, noise_std)
    n = len(setting.pool)
    subset, known = check_picks(picks, "picks", n), check_picks(given, "given", n)
    rule = check_rule_name(rule)
    return interact(Joint.of(setting, known), [[row] for row in subset], rule).ratio


def interact(joint: Joint, parts: list[list[int]], rule: str) -> Interaction:
    whole = [row for part in parts for row in part]
    *apart, together = (
        float(reduce(joint, torch.tensor([rows], dtype=torch.int64), rule))
        for rows in [*parts, whole]
    )
    return Interaction(np.array(apart), together, rounding_of(joint, rule))


@dataclass(frozen=True, eq=False)
class SubmodularityRatio:
    """The least information ratio found, and where; an upper bound unless ``is_exact``."""

    value: float
    subset: Int[np.ndarray, " s"]  # X
    given: Int[np.ndarray, " g"]  # D
    is_exact: bool
    rule: str
    size: int  # up to this cardinality


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
) -> SubmodularityRatio:
    r"""The least information ratio up to n observations.

    .. math:: \kappa_A(n) = \min_{D \subseteq x_{1:n},\; X \subseteq S,\; |X| \le n,\;
        D \cap X = \emptyset} \bar\kappa(X \mid D)

    Hübotter et al. 2024, App. "The Submodularity Ratio", after Das and Kempe 2018;
    :math:`x_{1:n}` are the rule's own picks. At most 1, as single points have ratio 1, and 1 if
    the reduction is submodular. Repeated observations count as different elements, so X may
    repeat what is in D.

    "exact" tries all sets; "sampled" gives the least of ``draws`` random ratios, an upper bound
    that guarantees nothing; "auto" is exact up to ``numerics.ENUMERATED`` ratios.
    """
    setting = check_setting(pool, targets, kernel, noise_std)
    rule, size = check_rule_name(rule), check_whole(n, "n")
    picks = [int(row) for row in choose(setting, size, rule).indices]
    is_exact = _is_exact(method, _count_cases(setting, picks))
    cases = (
        _all_cases(setting, picks)
        if is_exact
        else _drawn_cases(setting, picks, check_whole(draws, "draws"), seed)
    )
    value, subset, given = _least(setting, cases, rule)
    return SubmodularityRatio(value, subset, given, is_exact, rule, size)


def _is_exact(method: str, count: int) -> bool:
    if method not in ("auto", "exact", "sampled"):
        raise ValueError(f'method must be "auto", "exact" or "sampled"; got {method!r}.')
    if method == "exact":
        check_enumerable(count, "pair of sets", 'Use method="sampled" for an upper bound.')
    return method == "exact" or (method == "auto" and count <= ENUMERATED)


Cases = Iterator[tuple[tuple[int, ...], Int[Tensor, "c s"]]]
"""What is given, and multisets of one size each."""


def _least(setting: Setting, cases: Cases, rule: str) -> tuple[float, np.ndarray, np.ndarray]:
    least, where = 1.0, np.array([0])  # a single point, given nothing
    given = np.empty(0, dtype=np.int64)
    known: tuple[tuple[int, ...], Joint] | None = None
    for observed, subsets in cases:
        if known is None or known[0] != observed:
            known = observed, Joint.of(setting, observed)
        ratios = _ratios(known[1], subsets, rule)
        best = int(ratios.argmin())
        if float(ratios[best]) < least:
            least, where = float(ratios[best]), subsets[best].numpy()
            given = np.array(observed, dtype=np.int64)
    return least, where, given


def _ratios(joint: Joint, subsets: Int[Tensor, "c s"], rule: str) -> Float[Tensor, " c"]:
    together = reduce(joint, subsets, rule)
    apart = reduce_singly(joint, rule)[subsets].sum(dim=1)
    return torch.where(together > rounding_of(joint, rule), apart / together, 1.0)


def _count_cases(setting: Setting, picks: list[int]) -> int:
    n, sizes = len(setting.pool), range(2, len(picks) + 1)
    return len(_parts(picks)) * sum(count_multisets(n, s) for s in sizes)


def _all_cases(setting: Setting, picks: list[int]) -> Cases:
    for observed in sorted(_parts(picks)):
        for size in range(2, len(picks) + 1):
            yield observed, all_multisets(len(setting.pool), size)


def _parts(picks: list[int]) -> set[tuple[int, ...]]:
    """All sub-multisets, up to the limit beyond which nothing is enumerated anyway."""
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
