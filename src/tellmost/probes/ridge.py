r"""Bayesian linear regression, with the noise found by marginal likelihood.

Outputs :math:`y = \Phi w + \varepsilon` with :math:`w \sim N(0, s^2 I)` and :math:`\varepsilon
\sim N(0, s^2\lambda I)`; several outputs (a column for each class) share s and :math:`\lambda`.
For N rows and c outputs the evidence is, with :math:`K = \Phi\Phi^\top` and the best scale
:math:`s^2 = \frac{1}{Nc} \sum_o y_o^\top (K + \lambda I)^{-1} y_o`,

.. math:: \log p = -\frac{Nc}{2} \bigl(\log(2\pi s^2) + 1\bigr)
    - \frac{c}{2} \log\det(K + \lambda I).

One eigendecomposition of K, or of :math:`\Phi^\top\Phi`, gives it for every :math:`\lambda`. The
noise ratio is :math:`\lambda` over the mean of :math:`k(x, x)`, as in ``select``.
"""

from dataclasses import dataclass
from math import inf, log, log10, pi

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.shapes import Float


@dataclass(frozen=True)
class Ridge:
    """What is known about the weights."""

    weights: Float[Tensor, "d c"]
    directions: Float[Tensor, "d r"]  # that the rows span
    settled: Float[Tensor, " r"]  # share of the prior variance that is gone along each
    scale: float  # s^2; 0 where all outputs are zero
    noise_ratio: float
    log_evidence: float
    is_at_edge: bool  # whether the best noise ratio lies at an end of what was looked at

    def predict(self, rows: Float[Tensor, "b d"]) -> Float[Tensor, "b c"]:
        return rows @ self.weights

    def variance(self, rows: Float[Tensor, "b d"]) -> Float[Tensor, " b"]:
        """Of f at each row, without noise, the same for every output."""
        known = (rows @ self.directions).square() @ self.settled
        return numerics.nonnegative(rows.square().sum(dim=1) - known) * self.scale


@dataclass(frozen=True)
class _Spectrum:
    """All that the evidence depends on."""

    count: int  # N
    outputs: int  # c
    values: Float[Tensor, " r"]  # eigenvalues of K that are not zero
    along: Float[Tensor, " r"]  # squared outputs along its eigenvectors, added up
    rest: float  # squared outputs outside
    mean_variance: float  # mean of k(x, x)

    def scale(self, ratio: float) -> float:
        lam = ratio * self.mean_variance
        squares = float((self.along / (self.values + lam)).sum()) + self.rest / lam
        return squares / (self.count * self.outputs)

    def log_evidence(self, ratio: float) -> float:
        scale, lam = self.scale(ratio), ratio * self.mean_variance
        if scale == 0:
            return inf
        logdet = float((self.values + lam).log().sum())
        logdet += (self.count - len(self.values)) * log(lam)
        return -self.outputs / 2 * (self.count * (log(2 * pi * scale) + 1) + logdet)


def fit_ridge(
    rows: Float[Tensor, "b d"],
    outputs: Float[Tensor, "b c"],
    *,
    noise_ratio: float | None = None,
) -> Ridge:
    """Learn from rows in float64; None finds the noise ratio of largest evidence.

    The prior mean is zero, so outputs that have another one are to be given without it. Where all
    outputs are zero, or all rows, no ratio is better than another: the largest is taken, and
    nothing is learned.
    """
    spectrum, directions, products = _decompose(rows, outputs)
    has_signal = spectrum.mean_variance > 0 and spectrum.scale(1.0) > 0
    ratio = noise_ratio
    if ratio is None:
        ratio = best_ratio(spectrum) if has_signal else numerics.LARGEST_NOISE_RATIO
    lam = ratio * spectrum.mean_variance
    ends = (numerics.LEAST_NOISE_RATIO, numerics.LARGEST_NOISE_RATIO)
    return Ridge(
        weights=directions @ (products / (spectrum.values + lam)[:, None]),
        directions=directions,
        settled=spectrum.values / (spectrum.values + lam),
        scale=spectrum.scale(ratio) if has_signal else 0.0,
        noise_ratio=ratio,
        log_evidence=spectrum.log_evidence(ratio) if has_signal else inf,
        is_at_edge=noise_ratio is None and ratio in ends,
    )


def _decompose(rows: Tensor, outputs: Tensor) -> tuple[_Spectrum, Tensor, Tensor]:
    """The spectrum, the directions in feature space, and the outputs' products with the rows along
    them."""
    n, d = rows.shape
    if n > d:
        values, V = torch.linalg.eigh(rows.T @ rows)
    else:
        values, U = torch.linalg.eigh(rows @ rows.T)
    kept = values > numerics.RANK_TOLERANCE * values.max().clamp(min=0.0)
    values = values[kept]
    V = V[:, kept] if n > d else rows.T @ (U[:, kept] / values.sqrt())
    products = V.T @ (rows.T @ outputs)
    along = products.square().sum(dim=1) / values
    rest = float(outputs.square().sum() - along.sum()) if n > len(values) else 0.0
    mean = float(rows.square().sum()) / n
    spectrum = _Spectrum(n, outputs.shape[1], values, along, max(rest, 0.0), mean)
    return spectrum, V, products


def best_ratio(spectrum: _Spectrum) -> float:
    """Of largest evidence: the best on a grid, refined between its neighbours."""
    low, high = log10(numerics.LEAST_NOISE_RATIO), log10(numerics.LARGEST_NOISE_RATIO)
    grid = np.linspace(low, high, round((high - low) * numerics.NOISE_GRID) + 1)
    evidence = [spectrum.log_evidence(10**x) for x in grid]
    best = int(np.argmax(evidence))
    if best in (0, len(grid) - 1):
        return (numerics.LEAST_NOISE_RATIO, numerics.LARGEST_NOISE_RATIO)[best > 0]
    return refine(spectrum, float(grid[best - 1]), float(grid[best + 1]))


def refine(spectrum: _Spectrum, low: float, high: float) -> float:
    """The largest evidence between two exponents, by golden sections."""
    golden = (5**0.5 - 1) / 2
    while high - low > numerics.NOISE_PRECISION:
        step = golden * (high - low)
        if spectrum.log_evidence(10 ** (high - step)) < spectrum.log_evidence(10 ** (low + step)):
            low = high - step
        else:
            high = low + step
    return float(10 ** ((low + high) / 2))
