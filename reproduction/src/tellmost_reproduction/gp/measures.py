r"""What is known about the targets after each observation, and what stays unknown.

With :math:`Z = (x_1, \dots, x_t)` the observed points, P their noise variances,
:math:`L L^\top = K_{ZZ} + P` and
:math:`M M^\top = K_{ZZ} - K_{ZA} K_{AA}^{+} K_{AZ} + P`,

.. math:: I(f_A; y_{1:t}) = \sum_{i \le t} \log \frac{L_{ii}}{M_{ii}},

the fall of the entropy of f_A. :math:`K_{AA}^{+}` is the pseudo-inverse up to
``numerics.RANK_TOLERANCE`` of the largest eigenvalue, as in ITL. Only differences of entropies are
reported: the entropy itself is the log-determinant of a matrix that is singular up to rounding, so
its level says nothing about f. Where K_AA is singular even differences depend on the tolerance.
The fall of the entropy of y_A, noise included, does not, and is reported beside it.

What no number of observations removes is the level that curves fall to,

.. math:: \eta_R(a) = \mathrm{Var}[f_a \mid f_R]^{1/2},

for R = S the irreducible standard deviation, and for :math:`R = A \cap S` what local uncertainty
sampling is left with however long it goes on.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tellmost.numerics import RANK_TOLERANCE
from tellmost.posterior.floor import retrace
from tellmost.posterior.problem import nonnegative
from tellmost.selecting.select import select_quietly
from tellmost.shapes import Bool, Float, Int
from tellmost_reproduction.gp.settings import NOISE_STD, Setting

MEASURES = {
    "information": "fall of the entropy of f on A (nats)",
    "information_y": "fall of the entropy of y on A (nats)",
    "mean_sd": "mean standard deviation on A",
    "mean_variance": "mean variance on A",
    "max_sd": "largest standard deviation on A",
    "rmse": "error of the posterior mean on A (RMSE)",
}

ENTROPIES = ("information", "information_y")
RISING = frozenset(ENTROPIES)
"""More is better for these measures, and less for the others."""


@dataclass(frozen=True)
class Knowledge:
    """What is known after 0, 1, ..., t observations. The error is for each seed."""

    information: Float[np.ndarray, " steps"]  # about f_A
    information_y: Float[np.ndarray, " steps"]  # about y_A, with the usual noise
    mean_sd: Float[np.ndarray, " steps"]
    mean_variance: Float[np.ndarray, " steps"]
    max_sd: Float[np.ndarray, " steps"]
    rmse: Float[np.ndarray, "seeds steps"]


def measure(setting: Setting, picks: Int[np.ndarray, " t"], seeds: range) -> Knowledge:
    """Measure what these picks tell about the targets, in their order."""
    points = torch.from_numpy(setting.pool[picks])
    targets = torch.from_numpy(setting.target_points)
    noise = torch.from_numpy(setting.noise_std[picks]).square()
    variance = variances(setting, points, targets, noise)
    return Knowledge(
        information=information(setting, points, targets, noise),
        information_y=information(setting, points, targets, noise, seen_with=NOISE_STD**2),
        mean_sd=variance.sqrt().mean(dim=1).numpy(),
        mean_variance=variance.mean(dim=1).numpy(),
        max_sd=variance.sqrt().amax(dim=1).numpy(),
        rmse=np.stack([error(setting, picks, seed) for seed in seeds]),
    )


def variances(
    setting: Setting,
    points: Float[Tensor, "t 2"],
    targets: Float[Tensor, "m 2"],
    noise: Float[Tensor, " t"],
) -> Float[Tensor, "steps m"]:
    falls = retrace(setting.kernel, points, noise, targets).cumsum(dim=0)
    prior = setting.kernel.diagonal(targets)
    return nonnegative(torch.cat([prior[None], prior - falls]))


def information(
    setting: Setting,
    points: Float[Tensor, "t 2"],
    targets: Float[Tensor, "m 2"],
    noise: Float[Tensor, " t"],
    *,
    seen_with: float = 0.0,
    tolerance: float = RANK_TOLERANCE,
) -> Float[np.ndarray, " steps"]:
    """Information about f_A, or about y_A if a noise variance is given with which it is seen."""
    covariance = setting.kernel.block(points, points)
    head = whitening(setting, targets, seen_with, tolerance)
    head = head @ setting.kernel.block(targets, points)
    both = [K + noise.diag() for K in (covariance, covariance - head.T @ head)]
    before, after = (torch.linalg.cholesky(K).diagonal().log() for K in both)
    return np.concatenate([[0.0], (before - after).cumsum(dim=0).numpy()])


def whitening(
    setting: Setting,
    targets: Float[Tensor, "m 2"],
    seen_with: float = 0.0,
    tolerance: float = RANK_TOLERANCE,
) -> Float[Tensor, "r m"]:
    """W with W' W the pseudo-inverse of K_AA, or the inverse with noise on its diagonal."""
    values, U = torch.linalg.eigh(setting.kernel.block(targets, targets))
    kept = values > tolerance * values.max()
    return U[:, kept].T / (values[kept] + seen_with).sqrt()[:, None]


def information_at(
    setting: Setting, picks: Int[np.ndarray, " t"], tolerance: float
) -> Float[np.ndarray, " steps"]:
    """Information about f_A if the rank is cut elsewhere; the picks stay."""
    points = torch.from_numpy(setting.pool[picks])
    targets = torch.from_numpy(setting.target_points)
    noise = torch.from_numpy(setting.noise_std[picks]).square()
    return information(setting, points, targets, noise, tolerance=tolerance)


def rank(setting: Setting) -> int:
    """The rank of K_AA at the stated tolerance."""
    return len(whitening(setting, torch.from_numpy(setting.target_points)))


def observe(setting: Setting, picks: Int[np.ndarray, " t"], seed: int) -> Float[np.ndarray, " t"]:
    """Observe y at the picks. In units of the noise the i-th error is the same for all methods."""
    errors = np.random.default_rng([seed, 1]).standard_normal(len(picks))
    return setting.draw(seed)[setting.samples][picks] + setting.noise_std[picks] * errors


def error(setting: Setting, picks: Int[np.ndarray, " t"], seed: int) -> Float[np.ndarray, " t+1"]:
    """Root mean squared error of the posterior mean on A after 0, 1, ..., t observations."""
    points = torch.from_numpy(setting.pool[picks])
    targets = torch.from_numpy(setting.target_points)
    covariance = setting.kernel.block(points, points)
    covariance.diagonal().add_(torch.from_numpy(setting.noise_std[picks]).square())
    factor = torch.linalg.cholesky(covariance)
    y = torch.from_numpy(observe(setting, picks, seed))[:, None]
    both = torch.cat([setting.kernel.block(points, targets), y], dim=1)
    W = torch.linalg.solve_triangular(factor, both, upper=False)
    means = (W[:, :-1] * W[:, -1:]).cumsum(dim=0)
    left = torch.from_numpy(setting.draw(seed)[setting.targets]) - torch.cat(
        [torch.zeros_like(means[:1]), means]
    )
    return left.square().mean(dim=1).sqrt().numpy()


def irreducible(setting: Setting) -> Float[np.ndarray, " m"]:
    """Standard deviation of each target given f on all of S."""
    return level_given(setting, np.ones(len(setting.samples), dtype=bool))


def local_level(setting: Setting) -> Float[np.ndarray, " m"]:
    """The same given f on those points of S that are targets."""
    return level_given(setting, setting.is_target)


def level_given(setting: Setting, rows: Bool[np.ndarray, " n"]) -> Float[np.ndarray, " m"]:
    if setting.has_all_targets and rows[setting.is_target].all():
        return np.zeros(len(setting.targets))
    chosen = select_quietly(
        setting.pool,
        setting.target_points,
        1,
        kernel=setting.kernel,
        noise_std=setting.noise,
        candidates=rows,
        floor=True,
        progress=False,
    )
    assert chosen.floor is not None
    return np.sqrt(chosen.floor)
