r"""The posterior in weight space, for kernels that are inner products.

With :math:`k(x, z) = \phi_x^\top C \phi_z`, f is linear in weights of prior covariance C, and

.. math::
    \Sigma_{t+1} = \Sigma_t - \frac{u u^\top}{s}, \qquad u = \Sigma_t \phi_j, \quad
    s = \phi_j^\top u + \rho_j^2

is their covariance after observing row j. A posterior column over the pool is one product with u.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tellmost.numerics import RANK_TOLERANCE, nonnegative
from tellmost.shapes import Float

WELL_CONDITIONED = 1e6
"""Ratio of eigenvalues up to which Cholesky factors stand in for singular values: far above
RANK_TOLERANCE, so both see the full rank, and they agree to about 1e-15 of this ratio."""


@dataclass(frozen=True)
class Step:
    """An observation: u = Sigma phi, and its variance s = phi' u + noise."""

    u: Float[Tensor, " d"]
    s: float


@dataclass(frozen=True)
class Start:
    """phi' Sigma phi before the loop: the prior variance, or squares of products, less others."""

    uses_prior: bool
    plus: Float[Tensor, "p d"] | None = None
    minus: Float[Tensor, "q d"] | None = None

    @property
    def has_products(self) -> bool:
        return self.plus is not None or self.minus is not None

    def of(self, block: Float[Tensor, "b d"], prior: Float[Tensor, " b"]) -> Float[Tensor, " b"]:
        values = prior.clone() if self.uses_prior else torch.zeros_like(prior)
        if self.plus is not None:
            values += (block @ self.plus.T).square_().sum(dim=1)
        if self.minus is not None:
            values -= (block @ self.minus.T).square_().sum(dim=1)
        return nonnegative(values)


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

        The pseudo-inverse of K_AA with relative rank tolerance RANK_TOLERANCE, by the singular
        values of the targets' features, so that a noiseless view leaves an exact projection.
        """
        root = None if self._is_identity else symmetric_root(self.covariance)
        F = seen_directions(targets if root is None else targets @ root, noise_variance)
        r, d = F.shape
        if root is None and noise_variance == 0.0 and 2 * r > d:
            base = complement(F)  # fewer products than with F, and no difference of equal numbers
            return WeightPosterior(base.T @ base, base=base)
        if noise_variance == 0.0 and r == d:  # the targets determine every weight
            return WeightPosterior(torch.zeros_like(self.covariance), self.prior, base=F[:0])
        F = F.T if root is None else root @ F.T
        return WeightPosterior(self.covariance - F @ F.T, self.prior, factors=[*self.factors, F])

    @property
    def _is_identity(self) -> bool:
        return self.prior is None and self.base is None and not self.factors

    def step(self, phi: Float[Tensor, " d"], noise_variance: float) -> "Step":
        """What an observation at phi would do; nothing is changed yet."""
        u = self.covariance @ phi
        return Step(u, max(float(phi @ u), 0.0) + noise_variance)

    def observe(self, step: "Step") -> None:
        self.covariance.addr_(step.u, step.u, alpha=-1.0 / step.s)

    def condition(self, phi: Float[Tensor, " d"], noise_variance: float) -> None:
        """Observe a point before the rows' running values exist; remembers the factor."""
        step = self.step(phi, noise_variance)
        self.observe(step)
        self.factors.append((step.u / step.s**0.5)[:, None])

    def variance(self, block: Float[Tensor, "b d"]) -> Float[Tensor, " b"]:
        """phi' Sigma phi for each row, from the whole matrix."""
        return ((block @ self.covariance) * block).sum(dim=1)

    def start(self) -> Start | None:
        """How to make all rows' variances before the loop; None: ``variance`` costs less."""
        minus = torch.cat(self.factors, dim=1).T if self.factors else None
        count = sum(0 if part is None else len(part) for part in (self.base, minus))
        if count >= len(self.covariance):
            return None
        return Start(uses_prior=self.base is None, plus=self.base, minus=minus)


def seen_directions(features: Float[Tensor, "m d"], noise_variance: float) -> Float[Tensor, "r d"]:
    """F with I - F' F the covariance of weights of prior I, given f (with noise: y) at features.

    By the singular values of the features, up to RANK_TOLERANCE. Where the features are
    well-conditioned, which is proven first, by Cholesky factors, far cheaper: without noise done
    twice, which leaves F orthonormal to the last digits (Yamamoto et al. 2015).
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
    """An orthonormal basis of what orthonormal rows leave."""
    return torch.linalg.qr(V.T, mode="complete").Q[:, len(V) :].T.contiguous()


def symmetric_root(covariance: Float[Tensor, "d d"]) -> Float[Tensor, "d d"]:
    """R with R R' = covariance."""
    values, vectors = torch.linalg.eigh(covariance)
    return vectors * nonnegative(values).sqrt()
