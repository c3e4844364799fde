r"""How much uncertainty about the targets a set of observations removes.

.. math::
    \psi_A^{ITL}(X) = I(f_A; y_X), \qquad
    \psi_A^{VTL}(X) = \mathrm{tr}\,\mathrm{Var}[f_A] - \mathrm{tr}\,\mathrm{Var}[f_A \mid y_X],
    \qquad \psi_A^{MM}(X) = \sum_{a \in A} I(f_a; y_X)

Hübotter et al. 2024, Sec. 3.1 and App. "Non-adaptive Data Selection & Submodularity", "Mean
Marginal ITL": sums over the targets, where ``tm.select`` reports means. X is a multiset of
samples: a sample that comes again is another observation.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from tellmost.numerics import REDUCED_AT_ONCE, REDUCTION_ROUNDING, SMALLEST_REMAINING
from tellmost.shapes import Float, Int
from tellmost.theory.joint import Joint
from tellmost.theory.setting import check_picks, check_rule_name, check_setting


def uncertainty_reduction(
    pool: Any,
    targets: Any,
    picks: Any,
    *,
    rule: str = "itl",
    kernel: Any = None,
    noise_std: Any,
    given: Any = (),
) -> float:
    r"""How much observing some rows of the pool reduces the uncertainty about the targets.

    .. math:: \Delta_A(X \mid D) = \psi_A(D \cup X) - \psi_A(D)

    In nats for "itl" and "mm-itl", a variance for "vtl"; ``given`` is D. Monotone in X and never
    negative (App. "Non-adaptive Data Selection & Submodularity", first lemma).
    """
    setting = check_setting(pool, targets, kernel, noise_std)
    n = len(setting.pool)
    subset, known = check_picks(picks, "picks", n), check_picks(given, "given", n)
    rule = check_rule_name(rule)
    joint = Joint.of(setting, known)
    return float(reduce(joint, torch.tensor([subset], dtype=torch.int64), rule))


def reduce(joint: Joint, subsets: Int[Tensor, "c s"], rule: str) -> Float[Tensor, " c"]:
    """The reduction by each of many multisets of one size, each a row of row numbers."""
    if subsets.numel() == 0:
        return torch.zeros(len(subsets), dtype=torch.float64)
    return torch.cat([_REDUCTIONS[rule](joint, some) for some in _portions(subsets, joint)])


def reduce_singly(joint: Joint, rule: str) -> Float[Tensor, " n"]:
    """The reduction by one observation at each sample: what the rule scores."""
    return reduce(joint, torch.arange(len(joint.rows))[:, None], rule)


def rounding_of(joint: Joint, rule: str) -> float:
    """Reductions below this are rounding."""
    signal = float((joint.rows.diagonal() / joint.noise_variance).max())
    unit = float(joint.target_variance.sum()) if rule == "vtl" else 1.0
    return REDUCTION_ROUNDING * unit * (1.0 + signal)


def information(
    K: Float[Tensor, "n n"], noise_variance: Float[Tensor, " n"], subsets: Int[Tensor, "c s"]
) -> Float[Tensor, " c"]:
    r"""I(f_X; y_X) = 1/2 log det(I + P^{-1/2} K_XX P^{-1/2}) of each multiset."""
    values = torch.linalg.eigvalsh(_in_noise_units(K, noise_variance, subsets))
    return 0.5 * values.clamp_(min=0.0).log1p().sum(dim=1)  # a covariance has none below 0


def _itl(joint: Joint, subsets: Tensor) -> Tensor:
    before = information(joint.rows, joint.noise_variance, subsets)
    after = information(joint.rows_given_targets, joint.noise_variance, subsets)
    return (before - after).clamp_(min=0.0)  # rounding


def _vtl(joint: Joint, subsets: Tensor) -> Tensor:
    return _explained(joint, subsets).sum(dim=1)


def _mm_itl(joint: Joint, subsets: Tensor) -> Tensor:
    variance = joint.target_variance
    share = torch.where(variance > 0, _explained(joint, subsets) / variance, 0.0)
    left = (1.0 - share).clamp_(min=SMALLEST_REMAINING)
    return -0.5 * left.log().sum(dim=1)


_REDUCTIONS = {"itl": _itl, "vtl": _vtl, "mm-itl": _mm_itl}


def _explained(joint: Joint, subsets: Int[Tensor, "c s"]) -> Float[Tensor, "c m"]:
    """Var[f_a] - Var[f_a | y_X] of each target, by eigenvalues in units of the noise."""
    values, vectors = torch.linalg.eigh(_in_noise_units(joint.rows, joint.noise_variance, subsets))
    cross = joint.cross[subsets] * joint.noise_variance.rsqrt()[subsets][:, :, None]
    projected = vectors.transpose(1, 2) @ cross
    return (projected.square() / (1.0 + values.clamp_(min=0.0))[:, :, None]).sum(dim=1)


def _in_noise_units(
    K: Float[Tensor, "n n"], noise_variance: Float[Tensor, " n"], subsets: Int[Tensor, "c s"]
) -> Float[Tensor, "c s s"]:
    scale = noise_variance.rsqrt()[subsets]
    block = K[subsets[:, :, None], subsets[:, None, :]]
    return scale[:, :, None] * block * scale[:, None, :]


def _portions(subsets: Int[Tensor, "c s"], joint: Joint) -> Iterator[Int[Tensor, "p s"]]:
    size = subsets.shape[1]
    wide = size * max(size, joint.cross.shape[1])
    return iter(torch.split(subsets, max(REDUCED_AT_ONCE // wide, 1)))
