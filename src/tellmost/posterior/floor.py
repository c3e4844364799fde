r"""The uncertainty that no selection can remove, and the uncertainty that the whole pool leaves.

.. math::
    \eta_S^2(a) = \mathrm{Var}[f_a \mid D, f_S], \qquad
    \mathrm{Var}[f_a \mid D, y_S] \ge \eta_S^2(a)

Hübotter et al. 2024, Sec. 3: the irreducible uncertainty. For inner products it is what lies
outside the span of the candidates' features.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tellmost import numerics
from tellmost.kernels import Kernel
from tellmost.kernels.kernel import Points
from tellmost.kernels.linear import feature_form
from tellmost.numerics import RANK_TOLERANCE
from tellmost.posterior.function_space import FunctionPosterior, given_observed
from tellmost.posterior.function_tracker import FunctionTracker
from tellmost.posterior.problem import FewRows, Problem, nonnegative
from tellmost.posterior.weight_space import (
    WeightPosterior,
    in_terms_of_features,
    symmetric_root,
    weight_form,
)
from tellmost.shapes import Float

FLOOR_RANK = 1_000
"""The size of the pivoted-Cholesky subset that bounds the floor of larger pools."""


@dataclass(frozen=True)
class Floor:
    """The variance of each target given f, or one y, at every candidate."""

    floor: Float[Tensor, " m"]
    whole_pool: Float[Tensor, " m"]
    is_exact: bool
    description: str

    def ordered(self) -> "Floor":
        """The floor cut at ``whole_pool``, since small noise may see below the rank tolerance."""
        return replace(self, floor=torch.minimum(self.floor, self.whole_pool))


def compute_floor(problem: Problem, picks: list[int]) -> Floor:
    """The exact floor for inner products and small pools, else an upper bound that says so."""
    problem = in_terms_of_features(problem)
    form = weight_form(problem)
    if form is not None:
        return _by_projection(*form)
    return _by_solving(problem) if _is_small(problem) else _by_subset(problem, picks)


def check_floor(problem: Problem) -> None:
    """Refuse floors that several processes cannot compute: only a single one chooses a subset."""
    if problem.shard is None or feature_form(problem.kernel) is not None or _is_small(problem):
        return
    raise ValueError(
        f"floor=True with group needs inner products, or at most {numerics.FLOOR_EXACT_ROWS:,} "
        f"candidates; got {problem.kernel!r} and {problem.row_count:,} candidates. Drop it, or "
        f"compute it on one process that holds all rows."
    )


def _is_small(problem: Problem) -> bool:
    """Say whether all candidates can be solved for.

    Inner products come here only if they have more features than there are points.
    """
    is_linear = feature_form(problem.kernel) is not None
    return is_linear or problem.row_count <= numerics.FLOOR_EXACT_ROWS


def _by_projection(problem: Problem, prior: Tensor | None) -> Floor:
    posterior = WeightPosterior.of(prior, problem.rows.dimension, problem.device)
    for observation in problem.observed:
        posterior.condition(observation.point.reshape(-1), observation.noise_variance)
    root = symmetric_root(posterior.covariance)
    plain, by_noise = _grams(problem)
    Z = problem.known_targets @ root
    return Floor(
        floor=_outside_span(root.T @ plain @ root, Z),
        whole_pool=_after_observing(root.T @ by_noise @ root, Z),
        is_exact=True,
        description="exact up to rank tolerance, by projection on the candidates' span",
    ).ordered()


def _grams(problem: Problem) -> tuple[Float[Tensor, "d d"], Float[Tensor, "d d"]]:
    """The sums of phi phi' and of phi phi' / noise over the candidates."""
    d = problem.rows.dimension
    plain = torch.zeros(d, d, dtype=torch.float64, device=problem.device)
    by_noise = torch.zeros_like(plain)

    def grams(start: int, stop: int, block: Tensor) -> tuple[Tensor, Tensor]:
        return block.T @ block, block.T / problem.noise_variance[start:stop] @ block

    def add(grams: tuple[Tensor, Tensor]) -> None:
        plain.add_(grams[0])
        by_noise.add_(grams[1])

    problem.rows.each(grams, add)
    return problem.sum(plain), problem.sum(by_noise)


def _outside_span(gram: Float[Tensor, "d d"], Z: Float[Tensor, "m d"]) -> Float[Tensor, " m"]:
    values, vectors = torch.linalg.eigh(gram)
    outside = values <= RANK_TOLERANCE * values.max().clamp(min=0.0)
    return (Z @ vectors[:, outside]).square().sum(dim=1)


def _after_observing(gram: Float[Tensor, "d d"], Z: Float[Tensor, "m d"]) -> Float[Tensor, " m"]:
    values, vectors = torch.linalg.eigh(gram)
    rounding = len(gram) * torch.finfo(gram.dtype).eps * values.max().clamp(min=0.0)
    values = torch.where(values > rounding, values, 0.0)  # at tiny noise rounding would explain
    return ((Z @ vectors).square() / (1.0 + values)).sum(dim=1)


def _by_solving(problem: Problem) -> Floor:
    posterior = given_observed(FunctionPosterior(problem.kernel, problem.device), problem)
    everything = FewRows.read(problem, torch.arange(problem.row_count))
    points = everything.points
    K = posterior.covariance(points, points)
    cross = posterior.covariance(points, problem.known_targets)
    variance = posterior.variance(problem.known_targets)
    return Floor(
        floor=nonnegative(variance - _explained_exactly(K, cross)),
        whole_pool=nonnegative(variance - _explained(K, everything.noise_variance, cross)),
        is_exact=True,
        description="exact up to rank tolerance, by solving for all candidates",
    ).ordered()


def _explained(
    K: Float[Tensor, "n n"], noise_variance: Float[Tensor, " n"], cross: Float[Tensor, "n m"]
) -> Float[Tensor, " m"]:
    """diag(C' (K + N)^-1 C), by eigenvalues in units of the noise, so that none is too small."""
    scale = noise_variance.rsqrt()
    values, vectors = torch.linalg.eigh(scale[:, None] * K * scale)
    projected = (vectors.T @ (scale[:, None] * cross)).square()
    return (projected / (1.0 + values.clamp(min=0.0))[:, None]).sum(dim=0)


def _explained_exactly(
    K: Float[Tensor, "n n"], cross: Float[Tensor, "n m"]
) -> Float[Tensor, " m"]:
    """diag(C' K^+ C): eigenvalues below the rank tolerance explain nothing."""
    values, vectors = torch.linalg.eigh(K)
    kept = values > RANK_TOLERANCE * values.max().clamp(min=0.0)
    return ((vectors[:, kept].T @ cross).square() / values[kept, None]).sum(dim=0)


def _by_subset(problem: Problem, picks: list[int]) -> Floor:
    """Upper bounds, since a subset that contains the picks leaves more variance."""
    pivots, floor, is_complete = _pivoted_cholesky(problem, picks)
    # a pick that repeats a pivot says nothing without noise, but something with it
    subset = torch.tensor(sorted({*pivots, *picks}), dtype=torch.int64)
    points = problem.rows.rows(subset)
    posterior = given_observed(FunctionPosterior(problem.kernel, problem.device), problem)
    explained = _explained(
        posterior.covariance(points, points),
        problem.noise_variance[subset],
        posterior.covariance(points, problem.known_targets),
    )
    size = f"{len(subset):,} of {len(problem.rows):,} candidates"
    return Floor(
        floor=floor,
        whole_pool=nonnegative(posterior.variance(problem.known_targets) - explained),
        is_exact=False,
        description=(
            f"floor exact up to rank tolerance, whole_pool an upper bound, from {size}"
            if is_complete
            else f"upper bounds from {size}, chosen by pivoted Cholesky and containing the picks"
        ),
    ).ordered()


def _pivoted_cholesky(
    problem: Problem, picks: list[int]
) -> tuple[list[int], Float[Tensor, " m"], bool]:
    """The pivots, the variances that the targets keep, and whether all rows keep none.

    f is seen without noise at the picks, and then wherever its variance is largest.
    """
    tracker = FunctionTracker(replace(problem, needs=frozenset({"variance"}), columns_ahead=1))
    left = tracker.variance_of_rows
    enough = RANK_TOLERANCE * float(left.max())
    limit = max(FLOOR_RANK, len(set(picks)))
    pivots: list[int] = []

    def see(row: int) -> bool:
        """Condition on f at a candidate, and return whether that says anything new."""
        if float(left[row]) <= enough:
            return False
        tracker.observe_point(problem.rows.rows(torch.tensor([row])), 0.0)
        pivots.append(row)
        return True

    for pick in dict.fromkeys(picks):
        see(pick)
    while len(pivots) < limit and see(int(left.argmax())):
        pass
    return pivots, tracker.targets.copy_of_variance(), float(left.max()) <= enough


def retrace(
    kernel: Kernel, points: Points, noise_variance: Float[Tensor, " t"], targets: Points
) -> Float[Tensor, "t m"]:
    r"""Compute by how much each observation, in their order, lowers the variance of each target.

    With the Cholesky factor :math:`L L^\top = K_{ZZ} + \mathrm{diag}(\rho^2)` of the points
    :math:`z_1, \dots, z_t` and :math:`W = L^{-1} K_{ZA}`, the i-th observation, made after those
    before it, lowers the variance of target a by :math:`W_{ia}^2`. This takes
    :math:`O(t^2 (t + m))`, whatever the pool.
    """
    covariance = kernel.block(points, points)
    covariance.diagonal().add_(noise_variance)
    factor = torch.linalg.cholesky(covariance)
    cross = kernel.block(points, targets)
    return torch.linalg.solve_triangular(factor, cross, upper=False).square_()
