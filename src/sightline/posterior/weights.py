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

from sightline.numerics import RANK_TOLERANCE, nonnegative
from sightline.shapes import Float


@dataclass(frozen=True)
class Step:
    """An observation: u = Sigma phi, and its variance s = phi' u + noise."""

    u: Float[Tensor, " d"]
    s: float


@dataclass
class WeightPosterior:
    """The covariance of the weights given what was observed; updated in place by ``observe``."""

    covariance: Float[Tensor, "d d"]
    prior: Float[Tensor, "d d"] | None = None  # None: the identity
    factors: list[Tensor] = field(default_factory=list)  # covariance = prior - sum of F F'

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
        features = targets if root is None else targets @ root
        _, singular, V = torch.linalg.svd(features, full_matrices=False)
        squared = singular.square()
        kept = squared > RANK_TOLERANCE * squared.max()
        shrinkage = squared[kept] / (squared[kept] + noise_variance)
        F = (V[kept].T if root is None else root @ V[kept].T) * shrinkage.sqrt()
        if noise_variance == 0.0 and int(kept.sum()) == len(self.covariance):
            covariance = torch.zeros_like(self.covariance)  # the targets determine every weight
        else:
            covariance = self.covariance - F @ F.T
        return WeightPosterior(covariance, self.prior, [*self.factors, F])

    @property
    def _is_identity(self) -> bool:
        return self.prior is None and not self.factors

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

    def first_variance(self, block: Float[Tensor, "b d"]) -> Float[Tensor, " b"]:
        """The same before the loop starts, from the low-rank factors where that is cheaper."""
        if not self.covariance.any():
            return torch.zeros(len(block), dtype=block.dtype, device=block.device)
        if self.prior is not None or sum(F.shape[1] for F in self.factors) >= len(self.covariance):
            return self.variance(block)
        variance = block.square().sum(dim=1)
        for F in self.factors:
            variance -= (block @ F).square().sum(dim=1)
        return variance


def symmetric_root(covariance: Float[Tensor, "d d"]) -> Float[Tensor, "d d"]:
    """R with R R' = covariance."""
    values, vectors = torch.linalg.eigh(covariance)
    return vectors * nonnegative(values).sqrt()
