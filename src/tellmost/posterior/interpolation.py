"""Sums of covariances over large target sets, by the covariances of a few inducing points.

Sums that are made so only say which rows are worth a look (:mod:`tellmost.posterior.sketch`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tellmost.kernels import Kernel
from tellmost.kernels.kernel import Points
from tellmost.posterior.function_tracker import FunctionTracker
from tellmost.posterior.problem import standardizing_weights
from tellmost.posterior.sketch import (
    Features,
    IndependentRows,
    Question,
    draw_rows,
    features_of,
    find_pivots,
)
from tellmost.shapes import Bool, Float, Int

UNTOLD = 0.2
"""Inducing points that leave more of a prior variance than this share rank no rows: most rows
would have to be looked at after all."""

INDUCED = 1e-6
"""More inducing points than leave this share rank no better."""

TOGETHER = 512
"""Features of so many points are made, and read for sums, at a time."""

LEFT_OUT = 1e-9
"""Directions in which targets vary by less than this share of the most are left out of sums."""

SAME_PRIOR = 1e-12
"""Prior covariances of inducing points, in units of their variance, that differ by less than this
are the same: it is the rounding of distances between them."""

INTERPOLATED = frozenset({"squared_covariance", "standardized_covariance"})
"""Fields of a state that are sums over the targets, of covariances with them."""


@dataclass(frozen=True)
class Interpolation:
    """The inducing points of a round, L of their prior covariance, and the features of points.

    Features are float32: interpolation errs by more than their rounding.
    """

    inducing: Points
    rows: Int[Tensor, " r"]  # of the domain, with whose points a round mostly begins
    root: Float[Tensor, "r r"]
    features: Float[Tensor, "n r"]

    def covariance_after(self, tracker: FunctionTracker) -> Float[Tensor, "r r"]:
        """Sigma: the covariance of the weights, given what was observed."""
        has_rows = int(self.rows.max()) < len(tracker.points)
        if has_rows and torch.equal(tracker.points[self.rows], self.inducing):
            F = tracker.whitened_rows.T[self.rows]
        else:
            F = tracker.posterior.whiten(self.inducing).T
        half = torch.linalg.solve_triangular(self.root, F, upper=False)
        return torch.eye(len(half)).to(half) - half @ half.T


class InducingPoints:
    r"""A few points z of a domain, whose values nearly tell the values at all others.

    With L L' = k(z, z), :math:`\phi_x = L^{-1} k(z, x)` and F of what was observed,

    .. math:: k_D(x, a) \approx \phi_x^\top \Sigma \phi_a, \qquad
        \Sigma = I - L^{-1} F(z)^\top F(z) L^{-\top}.

    At the points themselves this is exact. They are the pivots of a Cholesky factor.
    """

    def __init__(self, kernel: Kernel, domain: Points, rows: Int[Tensor, " r"]) -> None:
        self._kernel = kernel
        self._rows, self._points = rows, domain[rows]
        self._latest: tuple[Points, Tensor, Interpolation] | None = None

    @classmethod
    def of(cls, kernel: Kernel, domain: Points, most: int) -> "InducingPoints | None":
        """The points, or None if ``most`` points leave too much of the prior variance."""
        drawn = draw_rows(domain)
        some = domain[drawn]
        variance = kernel.diagonal(some)
        factor, pivots, _ = find_pivots(kernel, some, INDUCED * float(variance.max()), most)
        left = variance - factor.square().sum(dim=0)
        is_little = len(pivots) > 0 and bool(left.max() <= UNTOLD * variance.max())
        return cls(kernel, domain, drawn[pivots]) if is_little else None

    def among(self, points: Points, contexts: int) -> Interpolation | None:
        """For points whose last ``contexts`` numbers are the same, which the inducing points take.

        Features of the last call are used again for points that begin as they did, if the kernel
        does not tell their contexts from the present one. The result is None if the kernel is
        singular there.
        """
        d = points.shape[1] - contexts
        now = points[:1, d:].expand(len(self._points), -1)
        inducing = torch.cat([self._points[:, :d], now], dim=1)
        covariance = self._kernel.block(inducing, inducing)
        if self._latest is not None:
            before, prior, made = self._latest
            same = float((covariance - prior).abs().max()) <= SAME_PRIOR * float(prior.max())
            if same and torch.equal(before, points[:, :d]):
                return Interpolation(inducing, self._rows, made.root, made.features)
            if same:
                known = made.features[: count_alike(before, points[:, :d])]
                return self._make(points, d, inducing, prior, made.root, known)
        root, failed = torch.linalg.cholesky_ex(covariance)
        if bool(failed):
            return None
        nothing = torch.empty(0, len(root), dtype=torch.float32)
        return self._make(points, d, inducing, covariance, root, nothing)

    def _make(
        self,
        points: Points,
        d: int,
        inducing: Points,
        prior: Float[Tensor, "r r"],
        root: Float[Tensor, "r r"],
        known: Float[Tensor, "s r"],
    ) -> Interpolation:
        """Make the features that are not known; always of the same points together."""
        parts = [
            features_of(self._kernel, inducing, root, some).T.float()
            for some in torch.split(points[len(known) :], TOGETHER)
        ]
        made = Interpolation(inducing, self._rows, root, torch.cat([known, *parts]))
        self._latest = points[:, :d], prior, made
        return made


def count_alike(before: Points, points: Points) -> int:
    """So many of the first points are what they were, in whole parts of TOGETHER."""
    least = min(len(before), len(points))
    is_same = (before[:least] == points[:least]).all(dim=1)
    first = least if bool(is_same.all()) else int(is_same.int().argmin())
    return first - first % TOGETHER


class Interpolated:
    """The fields that a rule makes of covariances, from those of the inducing points."""

    def __init__(
        self,
        interpolation: Interpolation,
        tracker: FunctionTracker,
        is_candidate: Bool[Tensor, " n"],
    ) -> None:
        """Of all rows of a round, the candidates have features."""
        self._features = interpolation.features
        self._covariance = interpolation.covariance_after(tracker)
        self._place = is_candidate.cumsum(dim=0) - 1

    def fields(self, asked: Question) -> Iterator[tuple[slice, dict[str, Tensor]]]:
        """The sums of covariances that are needed."""
        places, targets = self._place[asked.rows], self._place[asked.is_target]
        fields = dict[str, Tensor]()
        if "squared_covariance" in asked.needs:
            root = self._root(targets, asked.targets.weights).float()
            squares = [(phi @ root).square_().sum(dim=1) for phi in self._of(places)]
            fields["squared_covariance"] = torch.cat(squares).double()
        if "standardized_covariance" in asked.needs:
            weights = torch.split(standardizing_weights(asked.targets), TOGETHER)
            parts = zip(self._of(targets), weights, strict=True)
            total = sum((phi.T @ own.float()).double() for phi, own in parts)
            along = (self._covariance @ total).float()
            sums = [phi @ along for phi in self._of(places)]
            fields["standardized_covariance"] = torch.cat(sums).double()
        yield slice(0, len(asked.rows)), fields

    def _root(
        self, targets: Int[Tensor, " m"], weights: Float[Tensor, " m"]
    ) -> Float[Tensor, "r s"]:
        """R with R R' = Sigma M Sigma, where M is the sum of phi phi' over weighted targets."""
        rank = len(self._covariance)
        if len(targets) < rank:
            phi = self._features.index_select(0, targets).double()
            return self._covariance @ (phi * weights.sqrt()[:, None]).T
        moments = self._features.new_zeros(rank, rank)
        shares = torch.split(weights.float(), TOGETHER)
        for phi, own in zip(self._of(targets), shares, strict=True):
            moments.addmm_((phi * own[:, None]).T, phi)
        values, U = torch.linalg.eigh(self._covariance @ moments.double() @ self._covariance)
        kept = values > LEFT_OUT * values.max()
        return U[:, kept] * values[kept].sqrt()

    def _of(self, places: Int[Tensor, " b"]) -> Iterator[Float[Tensor, "b r"]]:
        """Features, so many points at a time as stay in a cache."""
        return (self._features.index_select(0, some) for some in torch.split(places, TOGETHER))


SumMaker = Features | IndependentRows | Interpolation | None
"""What makes sums over targets cheap for an output; None: nothing does."""
