"""The slow, obvious mixture over hyper-parameters: a dense posterior for every theta.

Nothing here imports Tellmost.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.stats import norm
from torch.quasirandom import SobolEngine


def covariance(X, Z, lengthscale, scale):
    """s^2 (Matern-5/2 + 1)."""
    apart = (X[:, None] - Z[None]) / lengthscale
    r = np.sqrt(5) * np.sqrt((apart**2).sum(axis=2))
    return scale**2 * ((1 + r + r**2 / 3) * np.exp(-r) + 1)


def grid(low, high, count):
    return [low] if count == 1 else list(np.geomspace(low, high, count))


def thetas(width, unit, lengthscale=None, scale=None, noise_std=None, ard=False):
    """All (lengthscales, scale, noise) by the recipe."""
    d = len(width)
    least = 0.05 * width if lengthscale is None else np.broadcast_to(lengthscale, d)
    most = np.maximum(width, least)
    scales = (0.1 * unit, 10 * unit) if scale is None else (scale / 2, 2 * scale)
    noises = (0.01 * unit, 0.4 * unit) if noise_std is None else (noise_std, noise_std)
    if ard:
        shares = SobolEngine(d + 2, scramble=True, seed=0).draw(256).double().numpy()
        low, high = (
            np.append(least, [scales[0], noises[0]]),
            np.append(most, [scales[1], noises[1]]),
        )
        return [(row[:d], row[d], row[d + 1]) for row in low ** (1 - shares) * high**shares]
    lengths = [least ** (1 - u) * most**u for u in np.linspace(0, 1, 8)]
    return list(
        product(
            lengths,
            grid(*scales, 5 if scale is None else 3),
            grid(*noises, 3 if noise_std is None else 1),
        )
    )


@dataclass
class Output:
    """One function: its thetas, the prior mean, and what was told of it."""

    thetas: list
    mean: float
    X: np.ndarray
    y: np.ndarray

    def posteriors(self, Z):
        """Means, deviations and weights, a row per theta."""
        means, stds, logs = [], [], []
        for lengthscale, scale, noise in self.thetas:
            K = covariance(self.X, self.X, lengthscale, scale) + noise**2 * np.eye(len(self.y))
            cross = covariance(Z, self.X, lengthscale, scale)
            r = self.y - self.mean
            means.append(self.mean + cross @ np.linalg.solve(K, r))
            left = 2 * scale**2 - (cross * np.linalg.solve(K, cross.T).T).sum(axis=1)
            stds.append(np.sqrt(np.maximum(left, 0)))
            logs.append(-0.5 * r @ np.linalg.solve(K, r) - 0.5 * np.linalg.slogdet(K)[1])
        weights = np.exp(np.array(logs) - max(logs))
        return np.array(means), np.array(stds), weights / weights.sum()

    def risk(self, Z, limit, is_lower, confidence=None):
        """P(beyond the limit), or under the worst of the likeliest thetas."""
        means, stds, weights = self.posteriors(Z)
        each = norm.cdf((limit - means) / stds if is_lower else (means - limit) / stds)
        if confidence is None:
            return weights @ each
        order, mass, among = np.argsort(-weights, kind="stable"), 0.0, []
        for number in order:
            among.append(number)
            mass += weights[number]
            if mass >= confidence:
                break
        return each[among].max(axis=0)
