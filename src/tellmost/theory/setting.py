r"""A question about theory, and how much uncertainty a set of observations removes.

.. math::
    \psi_A^{ITL}(X) = I(f_A; y_X), \qquad
    \psi_A^{VTL}(X) = \mathrm{tr}\,\mathrm{Var}[f_A] - \mathrm{tr}\,\mathrm{Var}[f_A \mid y_X],
    \qquad \psi_A^{MM}(X) = \sum_{a \in A} I(f_a; y_X)

Hübotter et al. 2024, Sec. 3.1 and App. "Non-adaptive Data Selection & Submodularity", "Mean
Marginal ITL". These are sums over the targets, where ``tm.select`` reports means. X is a multiset
of samples: a sample that comes again is another observation. Covariances are dense, since theory
asks about small sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels import Kernel
from tellmost.kernels.kernel import Points
from tellmost.kernels.linear import check_kernel, matrix_size
from tellmost.numerics import SMALLEST_REMAINING, ZERO_VARIANCE
from tellmost.posterior.function_space import FunctionPosterior
from tellmost.posterior.problem import nonnegative
from tellmost.rows.checks import (
    check_indices,
    check_matrix_rows,
    check_positives,
    check_rows,
    check_squares,
    check_word,
)
from tellmost.rows.sources import read_array
from tellmost.selecting.arguments import check_points
from tellmost.shapes import Float, Int

ENUMERATED = 20_000  # at most so many sets are tried one by one, which takes a second
REDUCED_AT_ONCE = 2**20  # numbers in a block of covariances of many small sets: 8 MB

REDUCTION_ROUNDING = 1e-13
"""A reduction of uncertainty below this is rounding, in nats or in prior variances, where signal
to noise is 1. Information is a logarithm of signal to noise, so its rounding grows with that."""

RULES = ("itl", "vtl", "mm-itl")  # rules that have an uncertainty reduction, a function of a set


@dataclass(frozen=True, eq=False)
class Setting:
    """A sample space S (the pool), a target space A, a kernel, and the noise at each sample."""

    kernel: Kernel
    pool: Points
    targets: Points
    noise_variance: Float[Tensor, " n"]

    @property
    def pool_is_targeted(self) -> bool:
        """If true, every sample is a target, digit for digit, and ITL is submodular."""
        return bool(are_among(self.pool, self.targets).all())

    @property
    def signal_to_noise(self) -> float:
        """The largest prior variance over noise variance of a sample."""
        return float((self.kernel.diagonal(self.pool) / self.noise_variance).max())

    def about(self, targets: Points) -> "Setting":
        """The same question about other targets."""
        return Setting(self.kernel, self.pool, targets, self.noise_variance)

    def within(self, rows: Tensor) -> "Setting":
        """The same question with only these samples, which are also its targets."""
        points = self.pool[rows]
        return Setting(self.kernel, points, points, self.noise_variance[rows])


def check_setting(pool: Any, targets: Any, kernel: Any, noise_std: Any) -> Setting:
    """The arguments are those of ``tm.select``. Without targets the pool is to be learned."""
    prior = check_kernel(kernel)
    data = read_array(pool, "pool").cpu()
    if matrix_size(prior) is not None:
        samples = check_matrix_rows(data, "pool", prior)
    else:
        check_rows(data, "pool")
        samples = data.to(torch.float64)
    points = samples
    if targets is not None:
        points = check_points(targets, "targets", tuple(samples.shape), prior).cpu()
    std = check_positives(noise_std, "noise_std", len(samples), "pool row").cpu()
    check_squares(std)
    return Setting(prior, samples, points, std.square())


def check_rule_name(rule: Any) -> str:
    check_word(rule, "rule", RULES)
    return str(rule)


def check_picks(picks: Any, name: str, n: int) -> list[int]:
    """Row numbers in their order. A row may come again, as another observation."""
    values = np.asarray(picks.cpu() if isinstance(picks, Tensor) else picks)
    if values.size == 0:
        return []
    return [int(row) for row in check_indices(values, name, n)]


def are_among(points: Points, others: Points) -> np.ndarray:
    rows, there = (x.reshape(len(x), -1).numpy() + 0 for x in (points, others))  # -0.0 is 0.0
    known = {row.tobytes() for row in there}
    return np.array([row.tobytes() in known for row in rows])


@dataclass(frozen=True, eq=False)
class Joint:
    """Covariances given what was observed; for samples also those given the targets as well."""

    rows: Float[Tensor, "n n"]
    rows_given_targets: Float[Tensor, "n n"]
    cross: Float[Tensor, "n m"]
    target_variance: Float[Tensor, " m"]
    noise_variance: Float[Tensor, " n"]

    @classmethod
    def of(cls, setting: Setting, observed: Sequence[int] = ()) -> "Joint":
        """The posterior given noisy observations at some samples, which may repeat."""
        pool, targets, kernel = setting.pool, setting.targets, setting.kernel
        posterior = FunctionPosterior(kernel, pool.device)
        seeing = posterior.copy()
        seeing.see_targets(targets, 0.0)
        for row in observed:
            for each in (posterior, seeing):
                each.observe(pool[row : row + 1], float(setting.noise_variance[row]))
        variance = posterior.variance(targets)
        is_known = variance <= ZERO_VARIANCE * kernel.diagonal(targets)
        return cls(
            rows=posterior.covariance(pool, pool),
            rows_given_targets=seeing.covariance(pool, pool),
            cross=posterior.covariance(pool, targets),
            target_variance=nonnegative(torch.where(is_known, 0.0, variance)),
            noise_variance=setting.noise_variance,
        )


def count_multisets(n: int, size: int) -> int:
    return comb(n + size - 1, size)


def all_multisets(n: int, size: int) -> Int[Tensor, "c s"]:
    """All multisets of row numbers, a row each, in lexicographic order."""
    return torch.tensor(list(combinations_with_replacement(range(n), size)), dtype=torch.int64)


def tries_all(method: str, other: str, count: int, what: str) -> bool:
    """Say whether every choice is tried: "exact" asks for it, or "auto" finds few."""
    check_word(method, "method", ("auto", "exact", other))
    if method == "exact" and count > ENUMERATED:
        raise ValueError(
            f'method="exact" tries every {what}, at most {ENUMERATED:,} '
            f'(theory.setting.ENUMERATED); here are {count:,}. Use method="{other}".'
        )
    return method != other and count <= ENUMERATED


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
    r"""Compute by how much observing some rows of the pool lowers the uncertainty.

    .. math:: \Delta_A(X \mid D) = \psi_A(D \cup X) - \psi_A(D)

    The unit is nats for "itl" and "mm-itl", a variance for "vtl"; ``given`` is D. The reduction is
    monotone in X and never negative (App. "Non-adaptive Data Selection & Submodularity", first
    lemma).
    """
    setting = check_setting(pool, targets, kernel, noise_std)
    joint = Joint.of(setting, check_picks(given, "given", len(setting.pool)))
    subset = torch.tensor([check_picks(picks, "picks", len(setting.pool))], dtype=torch.int64)
    return float(reduce(joint, subset, check_rule_name(rule)))


def reduce(joint: Joint, subsets: Int[Tensor, "c s"], rule: str) -> Float[Tensor, " c"]:
    """The reduction by each of many multisets of one size; each is a row of row numbers."""
    if subsets.numel() == 0:
        return torch.zeros(len(subsets), dtype=torch.float64)
    size = subsets.shape[1]
    wide = size * max(size, joint.cross.shape[1])
    portions = torch.split(subsets, max(REDUCED_AT_ONCE // wide, 1))
    return torch.cat([_reductions(joint, some, rule) for some in portions])


def reduce_singly(joint: Joint, rule: str) -> Float[Tensor, " n"]:
    """The reduction by one observation at each sample, which is the rule's score."""
    return reduce(joint, torch.arange(len(joint.rows))[:, None], rule)


def rounding_of(joint: Joint, rule: str) -> float:
    """The size below which reductions are rounding."""
    signal = float((joint.rows.diagonal() / joint.noise_variance).max())
    unit = float(joint.target_variance.sum()) if rule == "vtl" else 1.0
    return REDUCTION_ROUNDING * unit * (1.0 + signal)


def information(
    K: Float[Tensor, "n n"], noise_variance: Float[Tensor, " n"], subsets: Int[Tensor, "c s"]
) -> Float[Tensor, " c"]:
    r"""I(f_X; y_X) = 1/2 log det(I + P^{-1/2} K_XX P^{-1/2}) of each multiset."""
    values = torch.linalg.eigvalsh(_in_noise_units(K, noise_variance, subsets))
    values.clamp_(min=0.0)  # a covariance has no eigenvalue below 0
    return 0.5 * values.log1p().sum(dim=1)


def _reductions(joint: Joint, subsets: Int[Tensor, "c s"], rule: str) -> Float[Tensor, " c"]:
    if rule == "itl":
        before = information(joint.rows, joint.noise_variance, subsets)
        after = information(joint.rows_given_targets, joint.noise_variance, subsets)
        return (before - after).clamp_(min=0.0)  # rounding
    explained = _explained(joint, subsets)
    if rule == "vtl":
        return explained.sum(dim=1)
    variance = joint.target_variance
    share = torch.where(variance > 0, explained / variance, 0.0)
    left = (1.0 - share).clamp_(min=SMALLEST_REMAINING)
    return -0.5 * left.log().sum(dim=1)


def _explained(joint: Joint, subsets: Int[Tensor, "c s"]) -> Float[Tensor, "c m"]:
    """Var[f_a] - Var[f_a | y_X] for each target, by eigenvalues in units of the noise."""
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
