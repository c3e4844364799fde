r"""The posterior in weight space, for kernels that are inner products.

With :math:`k(x, z) = \phi_x^\top C \phi_z`, f is linear in weights of prior covariance C, and

.. math::
    \Sigma_{t+1} = \Sigma_t - \frac{u u^\top}{s}, \qquad u = \Sigma_t \phi_j, \quad
    s = \phi_j^\top u + \rho_j^2

is their covariance after observing row j. A posterior column over the pool is one product with u.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from tellmost.kernels.kernel import FeatureKernel
from tellmost.kernels.linear import Linear, feature_form
from tellmost.numerics import RANK_TOLERANCE
from tellmost.posterior.problem import (
    FewRows,
    Observation,
    Problem,
    TargetSummary,
    nonnegative,
    standardizing_weights,
)
from tellmost.rows.pool import Pool
from tellmost.shapes import Float

WELL_CONDITIONED = 1e6
"""Ratio of eigenvalues up to which Cholesky factors stand in for singular values: far above
RANK_TOLERANCE, so both see the full rank, and they agree to about 1e-15 of this ratio."""


TRIANGLE_STEP = 96
"""A product with a triangular matrix is made of products with so many of its rows, which leave
out zeros: a little more than half of the work, if there are many features."""

LARGE_SHARE = 1 / 16
"""This share of the vectors of a rough start stays in float64. They are the largest ones, so what
float32 rounds is little beside them."""


@dataclass(frozen=True)
class Step:
    """An observation at phi: u = Sigma phi, and its variance s = phi' u + noise."""

    phi: Float[Tensor, " d"]
    u: Float[Tensor, " d"]
    s: float


@dataclass(frozen=True)
class Start:
    """It says how a value of all rows is made before the loop.

    It is a constant or the prior variance, plus and minus squares of products with vectors.
    """

    constant: float | None  # None: the prior variance
    plus: Float[Tensor, "p d"] | None = None
    minus: Float[Tensor, "q d"] | None = None
    triangle: Float[Tensor, "r d"] | None = None  # added too; vector i is 0 before feature i

    @property
    def has_products(self) -> bool:
        return self.plus is not None or self.minus is not None

    def of(self, block: Float[Tensor, "b d"], prior: Float[Tensor, " b"]) -> Float[Tensor, " b"]:
        values = prior.clone() if self.constant is None else torch.full_like(prior, self.constant)
        if self.plus is not None:
            values += squares_of_products(self.plus, block)
        if self.triangle is not None:
            rows = block.to(self.triangle.dtype)
            for i in range(0, len(self.triangle), TRIANGLE_STEP):
                some = self.triangle[i : i + TRIANGLE_STEP, i:]
                values += squares_of_products(some, rows[:, i:])
        if self.minus is not None:
            values -= squares_of_products(self.minus, block)
        return nonnegative(values)

    def by_triangle(self, *, is_rough: bool) -> "Start":
        """The same with half of the products, if there are many vectors to add.

        A triangular R has the same squares. A rough start takes it in float32 for all but the last
        vectors, which are the largest.
        """
        plus = self.plus
        if plus is None or not 2 * len(plus) > plus.shape[1] > TRIANGLE_STEP:
            return self
        large = int(LARGE_SHARE * len(plus)) if is_rough else 0
        small = plus[: len(plus) - large]
        # rows of R one after the other in memory, which makes products a third faster
        R = torch.linalg.qr(small, mode="r").R.contiguous()
        return replace(
            self,
            plus=plus[len(small) :] if is_rough else None,
            triangle=R.float() if is_rough else R,
        )


def squares_of_products(
    vectors: Float[Tensor, "r d"], block: Float[Tensor, "b d"]
) -> Float[Tensor, " b"]:
    """Squares of each row's products, added up; a fifth faster than products as rows."""
    return (vectors @ block.T).square_().sum(dim=0)


@dataclass
class WeightPosterior:
    """The covariance of the weights given what was observed; updated in place by ``observe``."""

    covariance: Float[Tensor, "d d"]
    prior: Float[Tensor, "d d"] | None = None  # None: the identity
    base: Float[Tensor, "p d"] | None = None  # covariance = base' base - sum of F F'; None: prior
    factors: list[Tensor] = field(default_factory=list)

    @classmethod
    def of(cls, prior: Tensor | None, dimension: int, device: torch.device) -> "WeightPosterior":
        if prior is None:
            return cls(torch.eye(dimension, dtype=torch.float64, device=device))
        prior = prior.to(device=device, dtype=torch.float64)
        return cls(prior.clone(), prior)

    def given_targets(
        self, targets: Float[Tensor, "m d"], noise_variance: float
    ) -> "WeightPosterior":
        """A new posterior that saw f (or, with noise, y) at the targets first.

        It takes the pseudo-inverse of K_AA with the relative rank tolerance RANK_TOLERANCE, by
        the singular values of the targets' features, so that a view without noise leaves an exact
        projection.
        """
        is_identity = self.prior is None and self.base is None and not self.factors
        root = None if is_identity else symmetric_root(self.covariance)
        F = seen_directions(targets if root is None else targets @ root, noise_variance)
        r, d = F.shape
        if root is None and noise_variance == 0.0 and 2 * r > d:
            base = complement(F)  # fewer products than with F, and no difference of equal numbers
            return WeightPosterior(base.T @ base, base=base)
        if noise_variance == 0.0 and r == d:  # the targets determine every weight
            return WeightPosterior(torch.zeros_like(self.covariance), self.prior, base=F[:0])
        F = F.T if root is None else root @ F.T
        return WeightPosterior(self.covariance - F @ F.T, self.prior, factors=[*self.factors, F])

    def step(self, phi: Float[Tensor, " d"], noise_variance: float) -> Step:
        """Compute what an observation at phi would do. Nothing changes yet."""
        u = (phi[None] @ self.covariance)[0]  # to the bit what a Projection of this row has
        return Step(phi, u, max(float(phi @ u), 0.0) + noise_variance)

    def observe(self, step: Step) -> None:
        self.covariance.addr_(step.u, step.u, alpha=-1.0 / step.s)

    def condition(self, phi: Float[Tensor, " d"], noise_variance: float) -> None:
        """Observe a point before the rows' running values exist, and remember the factor."""
        step = self.step(phi, noise_variance)
        self.observe(step)
        self.factors.append((step.u / step.s**0.5)[:, None])

    def fork(self) -> "WeightPosterior":
        """The same posterior, to try observations on."""
        return WeightPosterior(self.covariance.clone(), self.prior)

    def variance(self, block: Float[Tensor, "b d"]) -> Float[Tensor, " b"]:
        """phi' Sigma phi for each row, from the whole matrix."""
        return ((block @ self.covariance) * block).sum(dim=1)

    def start(self) -> Start | None:
        """Say how to make all variances before the loop. It is None if ``variance`` costs less."""
        minus = torch.cat(self.factors, dim=1).T.contiguous() if self.factors else None
        count = sum(0 if part is None else len(part) for part in (self.base, minus))
        if count >= len(self.covariance):
            return None
        return Start(None if self.base is None else 0.0, plus=self.base, minus=minus)


def seen_directions(features: Float[Tensor, "m d"], noise_variance: float) -> Float[Tensor, "r d"]:
    """F such that weights of prior I have covariance I - F' F given f (with noise: y) at features.

    Singular values give F, up to RANK_TOLERANCE. Features that are proven to be well-conditioned
    take Cholesky factors, which cost far less. Without noise they are taken twice, which leaves F
    orthonormal to the last digits (Yamamoto et al. 2015).
    """
    m, d = features.shape
    gram = features @ features.T if m <= d else features.T @ features
    L, failed = torch.linalg.cholesky_ex(gram)
    inverse = torch.linalg.solve_triangular(L, torch.eye(len(L)).to(L), upper=False)
    condition = gram.norm() * inverse.square().sum()  # at least the ratio of eigenvalues
    if not bool((failed == 0) & (condition < WELL_CONDITIONED)):
        return _by_singular_values(features, noise_variance)
    if noise_variance > 0.0:
        same = features if m <= d else L.T  # the posterior depends on features' features alone
        return _whitened(same, noise_variance)
    if m >= d:
        return torch.eye(d).to(features)
    return _whitened(inverse @ features, 0.0)


def _whitened(rows: Float[Tensor, "m d"], noise_variance: float) -> Float[Tensor, "m d"]:
    """L^-1 rows, where L L' = rows rows' + noise I."""
    gram = rows @ rows.T
    gram.diagonal().add_(noise_variance)
    return torch.linalg.solve_triangular(torch.linalg.cholesky(gram), rows, upper=False)


def _by_singular_values(
    features: Float[Tensor, "m d"], noise_variance: float
) -> Float[Tensor, "r d"]:
    _, singular, V = torch.linalg.svd(features, full_matrices=False)
    squared = singular.square()
    kept = squared > RANK_TOLERANCE * squared.max()
    shrinkage = squared[kept] / (squared[kept] + noise_variance)
    return V[kept] * shrinkage.sqrt()[:, None]


def complement(V: Float[Tensor, "r d"]) -> Float[Tensor, "_ d"]:
    """An orthonormal basis of the space that orthonormal rows leave."""
    return torch.linalg.qr(V.T, mode="complete").Q[:, len(V) :].T.contiguous()


def symmetric_root(covariance: Float[Tensor, "d d"]) -> Float[Tensor, "d d"]:
    """R with R R' = covariance, the largest column last."""
    values, vectors = torch.linalg.eigh(covariance)
    return vectors * nonnegative(values).sqrt()


@dataclass(frozen=True)
class Effect:
    """It says what an observation does to the posteriors, to the rows and to the targets.

    A running value of a row changes by the row's products with vectors, one for each value.
    """

    steps: Mapping[str, Step]  # by the names of the variances
    vectors: Mapping[str, Float[Tensor, " d"]]  # by the names of the running values
    of_targets: Float[Tensor, " m"] | None  # the observation's covariances with the targets


@dataclass
class Beliefs:
    """What is known, beside the rows: posteriors by the names of their variances, and targets."""

    posteriors: dict[str, WeightPosterior]
    features: Float[Tensor, "m d"] | None  # of the targets
    targets: TargetSummary

    @property
    def posterior(self) -> WeightPosterior:
        return self.posteriors["variance"]

    def observe(
        self, phi: Float[Tensor, " d"], noise_variance: float, running: "Mapping[str, Running]"
    ) -> Effect:
        """Condition on an observation at phi, and say what it does to these values."""
        effect = self.effect_of(phi, noise_variance)
        self.take(effect)
        vectors = {name: run.vector(effect.steps, self) for name, run in running.items()}
        return Effect(effect.steps, vectors, effect.of_targets)

    def effect_of(self, phi: Float[Tensor, " d"], noise_variance: float) -> Effect:
        """Compute what an observation at phi would do, beside the rows. Nothing changes yet."""
        steps = {name: one.step(phi, noise_variance) for name, one in self.posteriors.items()}
        u = steps["variance"].u
        return Effect(steps, {}, None if self.features is None else self.features @ u)

    def take(self, effect: Effect) -> None:
        """Condition on an observation, by its effect, which a fork may have found."""
        for name, posterior in self.posteriors.items():
            posterior.observe(effect.steps[name])
        if effect.of_targets is not None:
            step = effect.steps["variance"]
            self.targets.observe(effect.of_targets, step.s)
            if self.targets.root is not None:
                self.targets.lower((step.u @ self.targets.root).square_().sum() / step.s)

    def fork(self) -> "Beliefs":
        """The same beliefs, to try observations on."""
        posteriors = {name: one.fork() for name, one in self.posteriors.items()}
        return Beliefs(posteriors, self.features, self.targets.fork())


@dataclass
class Projection(dict[str, Tensor]):
    """Sigma phi of some rows, by the names of the variances, made when it is asked for."""

    block: Float[Tensor, "b d"]
    known: Beliefs

    def __missing__(self, name: str) -> Float[Tensor, "b d"]:
        self[name] = self.block @ self.known.posteriors[name].covariance
        return self[name]


@runtime_checkable
class Running(Protocol):
    """A value of every row that follows each observation with products over the rows."""

    name: str
    values: Tensor

    def about(self, values: Tensor, prior_variance: Tensor) -> "Running":
        """The same value of other rows."""
        other = copy(self)
        other.values = values
        return other

    def start(self, known: Beliefs) -> Start | None:
        """Say how to make all values before the loop. It is None if ``fresh`` costs less."""
        return None

    def vector(self, steps: Mapping[str, Step], known: Beliefs) -> Float[Tensor, " d"]:
        """The vector whose products with the rows are this value's column.

        The posteriors and the targets have taken the steps.
        """

    def update(self, columns: Mapping[str, Float[Tensor, " n"]], effect: Effect) -> None:
        """Take an observation in, by the columns of all running values."""

    def fresh(self, U: Projection) -> Float[Tensor, " b"]:
        """The values of some rows, from the posteriors themselves."""


@dataclass
class RunningVariance(Running):
    r"""The variance given D: :math:`v \leftarrow v - c^2 / s`, with the column :math:`c = \Phi u`.

    The variance given D and the targets is the same in a posterior that saw the targets first.
    Conditioning commutes, so the targets' covariance is inverted only once.
    """

    name: str
    values: Tensor

    def start(self, known: Beliefs) -> Start | None:
        return known.posteriors[self.name].start()

    def vector(self, steps: Mapping[str, Step], known: Beliefs) -> Float[Tensor, " d"]:
        return steps[self.name].u

    def update(self, columns: Mapping[str, Float[Tensor, " n"]], effect: Effect) -> None:
        own, s = columns[self.name], effect.steps[self.name].s
        nonnegative(self.values.addcmul_(own, own, value=-1.0 / s))

    def fresh(self, U: Projection) -> Float[Tensor, " b"]:
        return nonnegative((U[self.name] * U.block).sum(dim=1))


@dataclass
class RunningSquaredCovariance(Running):
    r""":math:`q = \sum_a w_a k_t(x, a)^2 = \phi^\top \Sigma_t M \Sigma_t \phi`, with
    :math:`M = \sum_a w_a \phi_a\phi_a^\top = R R^\top`:

    .. math:: q \leftarrow q - c\, (\Phi z), \qquad
        z = \big(2\, \Sigma_{t+1} M u + u\, (u^\top M u) / s\big) / s.

    Under another ``name``, M is the second moment of all candidates instead. At small noise q
    falls by many orders and the recursion loses digits; ``start`` rebuilds it.
    """

    name: str
    values: Tensor
    root: Float[Tensor, "d r"]

    def start(self, known: Beliefs) -> Start:
        return Start(0.0, plus=self.root.T @ known.posterior.covariance)

    def vector(self, steps: Mapping[str, Step], known: Beliefs) -> Float[Tensor, " d"]:
        u, s = steps["variance"].u, steps["variance"].s
        projected = self.root.T @ u
        z = known.posterior.covariance @ (self.root @ projected)
        return z.mul_(2.0 / s).addcmul_(u, projected @ projected, value=1.0 / s**2)

    def update(self, columns: Mapping[str, Float[Tensor, " n"]], effect: Effect) -> None:
        nonnegative(self.values.addcmul_(columns["variance"], columns[self.name], value=-1.0))

    def fresh(self, U: Projection) -> Float[Tensor, " b"]:
        return (U["variance"] @ self.root).square_().sum(dim=1)


@dataclass
class RunningStandardizedCovariance(Running):
    r""":math:`\sum_a w_a k_t(x, a)/\mathrm{sd}_t(a) = \phi^\top g`, with
    :math:`g = \Sigma_t \sum_a w_a \phi_a / \mathrm{sd}_t(a)`: no recursion, one product.

    Every observation changes every weight. So its column can be made ahead only for rows that are
    observed in the order that was foreseen.
    """

    name: str
    values: Tensor

    def vector(self, steps: Mapping[str, Step], known: Beliefs) -> Float[Tensor, " d"]:
        return self._vector(known)

    def update(self, columns: Mapping[str, Float[Tensor, " n"]], effect: Effect) -> None:
        self.values.copy_(columns[self.name])

    def fresh(self, U: Projection) -> Float[Tensor, " b"]:
        return U.block @ self._vector(U.known)

    def _vector(self, known: Beliefs) -> Float[Tensor, " d"]:
        assert known.features is not None  # the rule reads targets
        weights = standardizing_weights(known.targets.known)
        return known.posterior.covariance @ (weights @ known.features)


def root_of_targets(problem: Problem) -> Float[Tensor, "d r"]:
    """R with R R' = sum_a w_a phi_a phi_a', and at most d columns."""
    if problem.measure is not None:
        return symmetric_root(problem.measure.moment(problem.known_targets))
    assert problem.target_weights is not None
    root = problem.known_targets.T * problem.target_weights.sqrt()
    if root.shape[1] <= root.shape[0]:
        return root.contiguous()
    return symmetric_root(root @ root.T)


def root_of_rows(problem: Problem) -> Float[Tensor, "d d"]:
    """R with R R' = M, the second moment of all candidates; one pass."""
    d = problem.rows.dimension
    total = torch.zeros(d, d, dtype=torch.float64, device=problem.device)
    problem.rows.each(lambda _, __, block: block.T @ block, total.add_)
    return symmetric_root(problem.sum(total) / problem.row_count)


def weight_form(problem: Problem) -> tuple[Problem, Tensor | None] | None:
    """The problem with the weights' prior covariance, which is None for the identity.

    There is no such form if the kernel is no inner product of the rows, or if the rows have so
    many features that the state is smaller in function space.
    """
    form = feature_form(problem.kernel)
    if form is None or not isinstance(form[0], Linear):
        return None
    if problem.rows.dimension > problem.row_count + problem.target_count:
        return None
    return problem, prior_of(*form, problem.rows.dimension)


def in_terms_of_features(problem: Problem) -> Problem:
    """The problem with features in the place of points, where the kernel has a map to them.

    It stays as it is if all rows' features exceed the memory: function space needs one column at
    a time.
    """
    form = feature_form(problem.kernel)
    if form is None or isinstance(form[0], Linear):
        return problem
    first = FewRows.read(problem, torch.tensor([0]))
    dimension = form[0].features(first.points).shape[1]
    rows = problem.most_rows + (0 if problem.measure is None else problem.measure.row_count)
    if 8 * rows * dimension > problem.memory:
        return problem
    return in_feature_space(problem, *form, dimension)


def prior_of(kernel: FeatureKernel, factor: float, dimension: int) -> Tensor | None:
    """The prior covariance of the weights; None for the identity."""
    prior = kernel.weight_covariance(dimension)
    if factor == 1.0:
        return prior
    return factor * (torch.eye(dimension, dtype=torch.float64) if prior is None else prior)


def in_feature_space(
    problem: Problem, kernel: FeatureKernel, factor: float, dimension: int
) -> Problem:
    """The same problem with features in the place of points, computed once and kept."""
    features = problem.prior_variance.new_empty(len(problem.rows), dimension)

    def fill(start: int, stop: int, block: Tensor) -> None:
        features[start:stop] = kernel.features(block)

    problem.rows.each(fill)
    targets, measure, memory = problem.targets, problem.measure, problem.memory
    memory -= 8 * problem.most_rows * dimension
    if measure is not None:
        phi = [kernel.features(block) for _, _, block in measure.rows.blocks()]
        of_rows = torch.cat([features[:0], *phi])
        measure, memory = replace(measure, rows=Pool.of(of_rows)), memory - 8 * of_rows.numel()
    return replace(
        problem,
        kernel=Linear(prior_of(kernel, factor, dimension)),
        rows=Pool.of(features),
        measure=measure,
        memory=memory,
        targets=None if targets is None else kernel.features(targets),
        observed=tuple(
            Observation(kernel.features(o.point), o.noise_variance) for o in problem.observed
        ),
    )
