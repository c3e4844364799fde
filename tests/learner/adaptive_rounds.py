"""Adaptive rounds the slow, obvious way: everything from scratch, densely, in float64."""

from dataclasses import dataclass, field

import numpy as np

import oracle


@dataclass
class Rounds:
    """Pool, and what was observed: points, values and noise variances."""

    k: object  # a kernel of the oracle, of two points
    pool: np.ndarray
    noise: np.ndarray  # variance of each pool row
    mean: object  # of one point
    points: list = field(default_factory=list)
    y: list = field(default_factory=list)
    variances: list = field(default_factory=list)

    def tell(self, point, y, variance) -> None:
        self.points.append(point)
        self.y.append(y)
        self.variances.append(variance)

    def predict(self, X):
        """Mean and variance at some points, by the textbook's formulas."""
        K = self._covariance(X, X)
        prior = np.array([self.mean(x) for x in X])
        if not self.points:
            return prior, np.diag(K)
        weights = np.linalg.solve(self._observed(), self._covariance(self.points, X)).T
        surprise = np.array(self.y) - np.array([self.mean(z) for z in self.points])
        variance = np.diag(K) - np.sum(weights * self._covariance(X, self.points), axis=1)
        return prior + weights @ surprise, variance

    def gains(self, rule, targets, target_noise=0.0):
        n, m, t = len(self.pool), len(targets), len(self.points)
        everything = np.concatenate([self.pool, targets, *([self.points] if t else [])])
        observed = list(range(n + m, n + m + t))
        K = self._covariance(everything, everything)
        K = oracle.condition(K, observed, np.array(self.variances))
        problem = oracle.Problem(K, n, m, self.noise, target_noise=target_noise)
        return oracle.RULES[rule](problem, [])

    def _observed(self):
        return self._covariance(self.points, self.points) + np.diag(self.variances)

    def _covariance(self, X, Z):
        return oracle.matrix(self.k, X, Z)
