r"""Sums over large target sets at little cost, by a few features of every point.

A pivoted Cholesky factor (Harbrecht et al. 2012) gives every point a vector with

.. math:: k(x, z) \approx \phi_x^\top \phi_z, \qquad
    0 \le k(x, x) - \phi_x^\top \phi_x \le \epsilon \max_z k(z, z),

so f is nearly linear in r weights of prior covariance I, and a sum over m targets is one r x r
matrix. It takes O(m r^2), and O(r^2) more for each row that reads it.

**Covariances** with targets are made of those of r points z, the pivots, which are exact
(:mod:`tellmost.posterior.interpolation`). What this errs by is not bounded in advance. So it only
says which rows are worth a look, and the caller computes the gains of the best of them by Dense,
until the next row cannot be better for all that was seen.

**Targets that are seen**, with :math:`\epsilon` small: Sketch. The precision of the weights after
observations is :math:`P = I + \sum_i \phi_i \phi_i^\top / \rho_i^2`. What is left out of the prior
is itself a covariance e, of at most :math:`\epsilon` with :math:`\max_z k(z, z) = 1`. A posterior
variance is the least of :math:`\mathrm{Var}[f_x - g^\top y]` over g, and e adds
:math:`\mathrm{Var}_e[e_x - g^\top e_D] \le \epsilon (1 + \|g\|_1)^2` to each of them. So the
sketch is too low, and by at most what its own best weights
:math:`\hat g_x = (\hat K + \rho^2)^{-1} \hat k(D, x)` of the data and of y_A say:

.. math::
    0 \le k_D(x, x) - \hat k_D(x, x) \le \delta_x^2, \qquad
    \delta_x = \sqrt\epsilon\, (1 + \|\hat g_x\|_1).

There is no such bound where f_A itself is seen: directions that the targets barely show decide
there, and RANK_TOLERANCE, which says which of them count, is part of the definition. What differs
from the dense result then are eigenvalues that lie on the one side of it here and on the other
side there.

A kernel of no small rank has no features; Dense then makes the same fields of the kernel itself.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tellmost import numerics
from tellmost.kernels import Kernel
from tellmost.kernels.kernel import Points
from tellmost.numerics import RANK_TOLERANCE
from tellmost.posterior.function_space import (
    PROVEN,
    has_eigenvalues_above,
    pivoted_cholesky,
)
from tellmost.posterior.function_tracker import FunctionTracker
from tellmost.posterior.problem import (
    FROM_COVARIANCE,
    TargetState,
    covariance_fields,
    nonnegative,
)
from tellmost.rows.sources import spans
from tellmost.shapes import Bool, Float, Int

SAMPLED_ROWS = 2_000
"""So many random rows say whether few features describe all rows, and where pivots are."""

FEW = 64
"""The products of so few rows with all others take less time than a copy of the targets."""

MOST_INVERTED = 3_000
"""The prior covariance of no more rows is inverted: it takes a second, and 70 MB."""

SKETCHED = FROM_COVARIANCE | {"variance_given_targets"}
"""Fields of a state that are made here."""


@dataclass(frozen=True)
class Question:
    """What is wanted: fields of some rows, about targets that f, or with noise y, is known at."""

    rows: Int[Tensor, " b"]
    is_target: Bool[Tensor, " n"]
    targets: TargetState
    needs: frozenset[str]
    noise_variance: float  # of the targets


class Features:
    """The features phi of all rows, and sum_a phi_a phi_a' over some rows.

    The sum is kept up to date while few of these rows change. Outputs of one kernel share the
    features, so that what is made for one output serves the next.
    """

    def __init__(self, rows: Float[Tensor, "n r"]) -> None:
        self.rows = rows
        self._chosen = torch.zeros(len(rows), dtype=torch.bool)
        self._sum = rows.new_zeros(self.rank, self.rank)
        self._unseen: Tensor | None = None

    @classmethod
    def of(cls, kernel: Kernel, points: Points, tolerance: float, most: int) -> "Features | None":
        """Features up to a tolerance, a share of the largest prior variance.

        The result is None if this takes more than ``most`` features.
        """
        variance, drawn = kernel.diagonal(points), draw_rows(points)
        enough, most = tolerance * float(variance.max()), min(most, len(points))
        factor, pivots, is_complete = find_pivots(kernel, points[drawn], enough, most)
        if not is_complete:
            return None
        if len(drawn) < len(points):
            own = points[drawn[pivots]]
            known = features_of(kernel, own, factor[:, pivots].T, points)
            factor, _, is_complete = find_pivots(kernel, points, enough, most, known)
        return cls(factor.T.contiguous()) if is_complete else None

    @property
    def rank(self) -> int:
        return self.rows.shape[1]

    def moments(self, chosen: Bool[Tensor, " n"]) -> Float[Tensor, "r r"]:
        """The sum over these rows."""
        if not torch.equal(chosen, self._chosen):
            self._sum = self._updated(chosen)
            self._chosen, self._unseen = chosen.clone(), None
        return self._sum

    def unseen(self, chosen: Bool[Tensor, " n"]) -> Float[Tensor, "r u"]:
        """Orthonormal directions of the weights about which f at these rows says nothing."""
        moments = self.moments(chosen)
        if self._unseen is None:
            values, U = torch.linalg.eigh(moments)
            self._unseen = U[:, values <= RANK_TOLERANCE * values.max()]
        return self._unseen

    def _updated(self, chosen: Bool[Tensor, " n"]) -> Float[Tensor, "r r"]:
        new, old = chosen & ~self._chosen, self._chosen & ~chosen
        if int(new.sum()) + int(old.sum()) < int(chosen.sum()):
            return self._sum + self._square(new) - self._square(old)
        return self._square(chosen)

    def _square(self, chosen: Bool[Tensor, " n"]) -> Float[Tensor, "r r"]:
        some = self.rows[chosen]
        return some.T @ some


def draw_rows(points: Points) -> Int[Tensor, " s"]:
    """SAMPLED_ROWS random rows in order, always the same ones, or all if there are no more."""
    generator = torch.Generator().manual_seed(0)
    return torch.randperm(len(points), generator=generator)[:SAMPLED_ROWS].sort().values


def find_pivots(
    kernel: Kernel,
    points: Points,
    enough: float,
    most: int,
    known: Float[Tensor, "s n"] | None = None,
) -> tuple[Float[Tensor, "r n"], list[int], bool]:
    """The pivoted Cholesky factor of some points, its new pivots, and whether it is enough."""
    pivots: list[int] = []

    def column_of(pivot: int) -> Float[Tensor, " n"]:
        pivots.append(pivot)
        return kernel.column(points, points[pivot : pivot + 1])

    variance = kernel.diagonal(points)
    limit = torch.full_like(variance, enough)
    factor, is_complete = pivoted_cholesky(variance, column_of, limit, most, known)
    return factor, pivots, is_complete


def features_of(
    kernel: Kernel, pivots: Points, root: Float[Tensor, "r r"], points: Points
) -> Float[Tensor, "r n"]:
    """The features of some points, a column each, made of L with L L' = k at the pivots."""
    features = root.new_empty(len(root), len(points))
    for start, stop in spans(len(points), max(numerics.CHUNK_BYTES // (8 * len(root)), 1)):
        block = kernel.block(pivots, points[start:stop])
        features[:, start:stop] = torch.linalg.solve_triangular(root, block, upper=False)
    return features


# ---- rules that see the targets


class Sketch:
    """The posterior of the weights after observing some rows."""

    def __init__(self, features: Features, observed: Sequence[tuple[int, float]]) -> None:
        """``observed`` has the row of each observation, and the variance of its noise."""
        self.features = features
        noise = features.rows.new_tensor([noise for _, noise in observed])
        self._told = features.rows[[row for row, _ in observed]] / noise.sqrt()[:, None]

    def fields(self, asked: Question) -> Iterator[tuple[slice, dict[str, Tensor]]]:
        """The variance that some rows would have if f, or with noise y, were seen at the targets.

        Without noise f_A is seen up to ``numerics.RANK_TOLERANCE`` of the largest eigenvalue of
        its prior covariance.
        """
        phi, every = self.features.rows[asked.rows], slice(0, len(asked.rows))
        if asked.noise_variance > 0:
            seen = self.features.moments(asked.is_target) / asked.noise_variance
            factor = torch.linalg.cholesky(self._precision(self._told) + seen)
            root = torch.linalg.solve_triangular(factor, phi.T, upper=False)
            yield every, {"variance_given_targets": root.square().sum(dim=0)}
            return
        unseen = self.features.unseen(asked.is_target)
        factor = torch.linalg.cholesky(self._precision(self._told @ unseen))
        root = torch.linalg.solve_triangular(factor, unseen.T, upper=False)
        yield every, {"variance_given_targets": (phi @ root.T).square_().sum(dim=1)}

    def _precision(self, told: Float[Tensor, "t u"]) -> Float[Tensor, "u u"]:
        precision = told.T @ told
        precision.diagonal().add_(1.0)
        return precision


class IndependentRows:
    r"""Rows of which no few tell another exactly, so that f can be seen at any of them.

    With Q the inverse of the prior covariance of all rows, those that are not seen have the
    covariance :math:`(Q_{CC})^{-1}` given the others. So what is factorised for a set of targets
    is no larger than half of the rows.
    """

    def __init__(self, kernel: Kernel, points: Points) -> None:
        self._kernel, self._points = kernel, points

    @cached_property
    def _covariance(self) -> Float[Tensor, "n n"] | None:
        """The prior covariance, or None if some of its eigenvalues may lie at RANK_TOLERANCE."""
        if len(self._points) > MOST_INVERTED:
            return None
        K = self._kernel.block(self._points, self._points)
        below = PROVEN * RANK_TOLERANCE * float(K.abs().sum(dim=0).max())
        return K if has_eigenvalues_above(below, K) else None

    @cached_property
    def _inverse(self) -> Float[Tensor, "n n"]:
        assert self._covariance is not None
        return torch.cholesky_inverse(torch.linalg.cholesky(self._covariance))

    @property
    def are_proven(self) -> bool:
        """If true, f is known exactly where it is seen, at whichever rows."""
        return self._covariance is not None

    def covariance_given(
        self, is_seen: Bool[Tensor, " n"], rows: Int[Tensor, " b"]
    ) -> Float[Tensor, "b b"]:
        """The covariance of some rows that are not seen, given f at those that are."""
        assert self._covariance is not None
        K, seen, others = self._covariance, is_seen.nonzero()[:, 0], (~is_seen).nonzero()[:, 0]
        if len(seen) <= len(others):
            root = torch.linalg.cholesky(K[seen[:, None], seen])
            half = torch.linalg.solve_triangular(root, K[seen[:, None], rows], upper=False)
            return K[rows[:, None], rows] - half.T @ half
        root = torch.linalg.cholesky(self._inverse[others[:, None], others])
        chosen = (others[:, None] == rows).to(K)
        half = torch.linalg.solve_triangular(root, chosen, upper=False)
        return half.T @ half


class Seen:
    """The variance given f at the targets, where rows are independent."""

    def __init__(
        self,
        independent: IndependentRows,
        observed: Sequence[tuple[int, float]],
        tracker: FunctionTracker,
    ) -> None:
        """``observed`` has the row of each observation, and the variance of its noise."""
        self._independent, self._observed, self._tracker = independent, observed, tracker

    def fields(self, asked: Question) -> Iterator[tuple[slice, dict[str, Tensor]]]:
        """The variance that some rows would have if f were seen at the targets.

        It is made densely where rows are not proven independent, or the noise is lost in rounding.
        """
        variance = self._variance(asked.rows, asked.is_target)
        if variance is None:
            yield from Dense(self._tracker).fields(asked)
        else:
            yield slice(0, len(asked.rows)), {"variance_given_targets": variance}

    def _variance(
        self, rows: Int[Tensor, " b"], is_target: Bool[Tensor, " n"]
    ) -> Float[Tensor, " b"] | None:
        if not self._independent.are_proven:
            return None
        told = [(row, noise) for row, noise in self._observed if not bool(is_target[row])]
        outside, count = rows[~is_target[rows]], len(told)
        those = torch.cat([outside.new_tensor([row for row, _ in told]), outside])
        covariance = self._independent.covariance_given(is_target, those)
        noisy = covariance[:count, :count] + covariance.new_tensor([n for _, n in told]).diag()
        root, failed = torch.linalg.cholesky_ex(noisy)
        if bool(failed):
            return None
        half = torch.linalg.solve_triangular(root, covariance[:count, count:], upper=False)
        variance = torch.zeros(len(rows), dtype=torch.float64)
        left = covariance.diagonal()[count:] - half.square().sum(dim=0)
        variance[~is_target[rows]] = nonnegative(left)
        return variance


class Dense:
    """The same fields in O(n m t) and, where targets are seen, O(m^3)."""

    def __init__(self, tracker: FunctionTracker) -> None:
        self._tracker = tracker

    def fields(self, asked: Question) -> Iterator[tuple[slice, dict[str, Tensor]]]:
        """The fields of SKETCHED that are needed, in pieces that fit into a chunk of memory."""
        rows, is_target, variance_of = asked.rows, asked.is_target, None
        if "variance_given_targets" in asked.needs:
            variance_of = self._given_targets(rows, is_target, asked.noise_variance)
        size = max(numerics.CHUNK_BYTES // (8 * len(asked.targets.weights)), 1)
        for start, stop in spans(len(rows), size):
            some = rows[start:stop]
            fields: dict[str, Tensor] = {}
            if asked.needs & FROM_COVARIANCE:
                covariance = self._covariance(some, is_target)
                fields |= covariance_fields(covariance, asked.targets, asked.needs)
            if variance_of is not None:
                fields["variance_given_targets"] = variance_of(some)
            yield slice(start, stop), fields

    def _covariance(self, rows: Int[Tensor, " b"], is_target: Bool[Tensor, " n"]) -> Tensor:
        tracker, F = self._tracker, self._tracker.whitened_rows
        prior = tracker.kernel.block(tracker.points[rows], tracker.points[is_target])
        if len(rows) > FEW and 2 * prior.shape[1] < len(is_target):
            return torch.addmm(prior, F[:, rows].T, F[:, is_target], alpha=-1.0)
        return prior.sub_((F[:, rows].T @ F)[:, is_target])  # a copy of F would take longer

    def _given_targets(
        self, rows: Int[Tensor, " b"], is_target: Bool[Tensor, " n"], noise_variance: float
    ) -> Callable[[Tensor], Tensor]:
        """The variance of any of these rows if f (with noise: y) were seen at the targets."""
        posterior, points = self._tracker.posterior, self._tracker.points
        only_targets = noise_variance == 0.0 and bool(is_target[rows].all())
        if only_targets and posterior.are_independent(points[is_target]):
            is_known = is_target  # f itself, so that nothing is left to compute
        else:
            posterior = posterior.copy()
            is_known = is_target & posterior.see_targets(points[is_target], noise_variance)

        def variance_of(some: Tensor) -> Tensor:
            is_open = ~is_known[some]
            variance = torch.zeros(len(some), dtype=torch.float64)
            variance[is_open] = posterior.variance(points[some[is_open]])
            return variance

        return variance_of
