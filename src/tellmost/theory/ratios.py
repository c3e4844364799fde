"""How far from submodular a reduction of uncertainty is."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.numerics import ENUMERATED
from tellmost.rows.opening import check_whole
from tellmost.shapes import Float, Int
from tellmost.theory.greedy import choose
from tellmost.theory.joint import Joint
from tellmost.theory.multisets import all_multisets, check_enumerable, count_multisets
from tellmost.theory.reductions import reduce, reduce_singly, rounding_of
from tellmost.theory.setting import Setting, check_rule_name, check_setting


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
