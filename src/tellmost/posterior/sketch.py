r"""A smooth kernel in few features, so that large target sets cost little.

Kernels of smooth functions have small numerical rank over the points of a domain. A pivoted
Cholesky factor (Harbrecht et al. 2012) gives every point a vector with

.. math:: k(x, z) \approx \phi_x^\top \phi_z, \qquad
    0 \le k(x, x) - \phi_x^\top \phi_x \le \epsilon \max_z k(z, z),

so f is linear in r weights of prior covariance I, whose precision after observations is
:math:`P = I + \sum_i \phi_i \phi_i^\top / \rho_i^2`. A sum over m targets is one r x r matrix,
made in O(m r^2), and O(r^2) more for each row that reads it.

**Error.** What is left out of the prior is itself a covariance e, of at most
:math:`\epsilon` with :math:`\max_z k(z, z) = 1`. A posterior variance is the least of
:math:`\mathrm{Var}[f_x - g^\top y]` over g, and e adds
:math:`\mathrm{Var}_e[e_x - g^\top e_D] \le \epsilon (1 + \|g\|_1)^2` to each of them. So the
sketch is too low, for every combination of values, and by at most what its own best weights
:math:`\hat g_x = (\hat K + \rho^2)^{-1} \hat k(D, x)` say:

.. math::
    0 \le k_D(x, x) - \hat k_D(x, x) \le \delta_x^2, \qquad
    |k_D(x, z) - \hat k_D(x, z)| \le \delta_x \delta_z, \qquad
    \delta_x = \sqrt\epsilon\, (1 + \|\hat g_x\|_1).

Hence :math:`\sqrt{\sum_a w_a k_D(x, a)^2}` of VTL errs by at most
:math:`\delta_x \sqrt{\sum_a w_a \delta_a^2}`, and the variance given y_A, of ITL about y, by
:math:`\delta_x^2` with weights of the data and the targets. There is no such bound where f_A
itself is seen: directions that the targets barely show decide there, and RANK_TOLERANCE, which
says which of them count, is part of the definition. What differs from the dense result then are
eigenvalues that lie on the one side of it here and on the other side there.

A kernel of no small rank has no sketch; Dense then makes the same fields of the kernel itself.
"""

from collections.abc import Callable, Iterator
from copy import copy

import torch
from torch import Tensor

from tellmost import numerics
from tellmost.kernels import Kernel
from tellmost.kernels.kernel import Points
from tellmost.numerics import RANK_TOLERANCE
from tellmost.posterior.function_space import pivoted_cholesky
from tellmost.posterior.function_tracker import FunctionTracker
from tellmost.posterior.problem import (
    FROM_COVARIANCE,
    TargetState,
    covariance_fields,
    nonnegative,
    standardizing_weights,
)
from tellmost.rows.sources import spans
from tellmost.shapes import Bool, Float, Int

SAMPLED_ROWS = 2_000
"""So many random rows say first whether few features describe all rows, and give most pivots."""


SKETCHED = FROM_COVARIANCE | {"variance_given_targets"}
"""Fields of a state that a sketch makes."""


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
        n, variance = len(points), kernel.diagonal(points)
        enough = torch.full_like(variance, tolerance * float(variance.max()))
        most, drawn = min(most, n), torch.Generator().manual_seed(0)
        some = torch.randperm(n, generator=drawn)[:SAMPLED_ROWS].sort().values
        known = few_features(kernel, points, some, enough, most)
        if known is None:
            return None
        factor, is_complete = pivoted_cholesky(
            variance,
            lambda pivot: kernel.column(points, points[pivot : pivot + 1]),
            enough,
            most,
            known,
        )
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


def few_features(
    kernel: Kernel,
    points: Points,
    some: Int[Tensor, " s"],
    enough: Float[Tensor, " n"],
    most: int,
) -> Float[Tensor, "r n"] | None:
    """Features of all rows that are enough for some rows, or None if these need too many.

    The pivots are found among the few, which costs little. All rows follow in one product.
    """
    few, pivots = points[some], list[int]()

    def column_of(pivot: int) -> Float[Tensor, " s"]:
        pivots.append(pivot)
        return kernel.column(few, few[pivot : pivot + 1])

    factor, is_complete = pivoted_cholesky(kernel.diagonal(few), column_of, enough[some], most)
    if not is_complete or len(few) == len(points):
        return factor if is_complete else None
    root = factor[:, pivots].T
    return torch.linalg.solve_triangular(root, kernel.block(few[pivots], points), upper=False)


class Sketch:
    """The posterior of the weights, and the fields that a rule reads of rows and targets."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self._precision = torch.eye(self.features.rank).to(self.features.rows)
        self._observed: list[tuple[int, float]] = []  # rows, and standard deviations of the noise

    def copy(self) -> "Sketch":
        """An independent sketch, to try observations on."""
        same = copy(self)
        same._precision, same._observed = self._precision.clone(), list(self._observed)
        return same

    def observe(self, row: int, noise_variance: float) -> None:
        phi = self.features.rows[row]
        self._precision.addr_(phi, phi, alpha=1.0 / noise_variance)
        self._observed.append((row, noise_variance**0.5))

    def fields(
        self,
        rows: Int[Tensor, " b"],
        is_target: Bool[Tensor, " n"],
        targets: TargetState,
        needs: frozenset[str],
        target_noise_variance: float,
    ) -> Iterator[tuple[slice, dict[str, Tensor]]]:
        """The fields of SKETCHED that are needed, of some rows, in pieces that memory holds.

        The targets weigh alike. Without noise f_A is seen up to ``numerics.RANK_TOLERANCE`` of the
        largest eigenvalue of its prior covariance.
        """
        phi = self.features.rows[rows]
        fields = {}
        if "squared_covariance" in needs:
            fields["squared_covariance"] = self._squared_covariance(phi, is_target)
        if "variance_given_targets" in needs:
            seen = self._given_targets(phi, is_target, target_noise_variance)
            fields["variance_given_targets"] = seen
        if needs & {"standardized_covariance", "covariance"}:
            factor = torch.linalg.cholesky(self._precision)
            of_targets = torch.cholesky_solve(self.features.rows[is_target].T, factor)
            if "standardized_covariance" in needs:
                u = of_targets @ standardizing_weights(targets)
                fields["standardized_covariance"] = phi @ u
            if "covariance" in needs:
                yield from self._with_covariance(phi, of_targets, fields)
                return
        yield slice(0, len(rows)), fields

    def _with_covariance(
        self,
        phi: Float[Tensor, "b r"],
        of_targets: Float[Tensor, "r m"],
        fields: dict[str, Tensor],
    ) -> Iterator[tuple[slice, dict[str, Tensor]]]:
        size = max(numerics.CHUNK_BYTES // (8 * of_targets.shape[1]), 1)
        for start, stop in spans(len(phi), size):
            piece = slice(start, stop)
            some = {name: values[piece] for name, values in fields.items()}
            yield piece, some | {"covariance": phi[piece] @ of_targets}

    def _squared_covariance(
        self, phi: Float[Tensor, "b r"], is_target: Bool[Tensor, " n"]
    ) -> Float[Tensor, " b"]:
        """The mean over the targets of the squared covariance."""
        covariance = torch.cholesky_inverse(torch.linalg.cholesky(self._precision))
        between = covariance @ self.features.moments(is_target) @ covariance
        return nonnegative((phi @ between).mul_(phi).sum(dim=1).div_(int(is_target.sum())))

    def _given_targets(
        self, phi: Float[Tensor, "b r"], is_target: Bool[Tensor, " n"], noise_variance: float
    ) -> Float[Tensor, " b"]:
        """The variance if f, or with noise y, were seen at the targets."""
        if noise_variance > 0:
            precision = self._precision + self.features.moments(is_target) / noise_variance
            factor = torch.linalg.cholesky(precision)
            return torch.linalg.solve_triangular(factor, phi.T, upper=False).square().sum(dim=0)
        unseen = self.features.unseen(is_target)
        factor = torch.linalg.cholesky(self._precision_along(unseen))
        root = torch.linalg.solve_triangular(factor, unseen.T, upper=False)
        return (phi @ root.T).square_().sum(dim=1)

    def _precision_along(self, directions: Float[Tensor, "r u"]) -> Float[Tensor, "u u"]:
        """D' P D, made of the observations where they are fewer than the features."""
        if len(self._observed) >= self.features.rank:
            return directions.T @ self._precision @ directions
        rows, stds = [row for row, _ in self._observed], [std for _, std in self._observed]
        told = self.features.rows[rows] / directions.new_tensor(stds)[:, None] @ directions
        precision = told.T @ told
        precision.diagonal().add_(1.0)
        return precision


class Dense:
    """The fields that a Sketch makes, in O(n m t) and, where targets are seen, O(m^3)."""

    def __init__(self, tracker: FunctionTracker) -> None:
        self._tracker = tracker

    def fields(
        self,
        rows: Int[Tensor, " b"],
        is_target: Bool[Tensor, " n"],
        targets: TargetState,
        needs: frozenset[str],
        target_noise_variance: float,
    ) -> Iterator[tuple[slice, dict[str, Tensor]]]:
        """The same as ``Sketch.fields``."""
        variance_of = None
        if "variance_given_targets" in needs:
            variance_of = self._given_targets(rows, is_target, target_noise_variance)
        size = max(numerics.CHUNK_BYTES // (8 * max(len(targets.weights), 1)), 1)
        for start, stop in spans(len(rows), size):
            some = rows[start:stop]
            fields: dict[str, Tensor] = {}
            if needs & FROM_COVARIANCE:
                fields |= covariance_fields(self._covariance(some, is_target), targets, needs)
            if variance_of is not None:
                fields["variance_given_targets"] = variance_of(some)
            yield slice(start, stop), fields

    def _covariance(self, rows: Int[Tensor, " b"], is_target: Bool[Tensor, " n"]) -> Tensor:
        tracker, F = self._tracker, self._tracker.whitened_rows
        prior = tracker.kernel.block(tracker.points[rows], tracker.points[is_target])
        return torch.addmm(prior, F[:, rows].T, F[:, is_target], alpha=-1.0)

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
