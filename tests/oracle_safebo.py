"""The slow, obvious float64 version of a safe optimizer over a finite domain.

Every question is answered from all observations by dense solves, every intersection by going
through all rounds again. Nothing here imports Tellmost.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import oracle


@dataclass(frozen=True)
class Function:
    """An unknown function: prior, noise, and what its prior brought along."""

    names: tuple[str, ...]
    kernel: Callable[[np.ndarray, np.ndarray], np.ndarray]  # of all pairs
    mean: Callable[[np.ndarray], np.ndarray]
    noise_std: np.ndarray  # at each point of the domain
    target_noise_std: float  # of the prior itself
    data: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None  # points, y, noise variance


@dataclass(frozen=True)
class Limit:
    """f >= value, or f <= value; with a Lipschitz constant and its norm, or None."""

    name: str
    function: int
    is_lower: bool
    value: float
    slope: tuple[float, int] | None = None


@dataclass(frozen=True)
class Told:
    """A point, and of each function that was observed its value and noise."""

    x: np.ndarray
    values: dict[int, tuple[float, float]]


@dataclass
class Safe:
    """What follows from the observations at the points X of a domain."""

    X: np.ndarray
    functions: list[Function]
    limits: list[Limit]
    betas: Callable[[list[int], list[float]], list[float]]  # of counts and informations
    is_intersected: bool
    is_minimized: bool = False
    told: list[Told] = field(default_factory=list)
    has_context: bool = False

    @property
    def everywhere(self) -> np.ndarray:
        """The domain, and behind it where else something is known."""
        data = [one.data[0] for one in self.functions if one.data is not None]
        trials = [one.x[None] for one in self.told] if self.has_context else []
        return np.concatenate([self.X, *data, *trials])

    def scale(self, number: int) -> float:
        """The prior standard deviation of a function over the domain."""
        K = self.functions[number].kernel(self.X, self.X)
        return float(np.sqrt(np.diag(K).mean()))

    def seen(self, number: int, rounds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Points, values and noise variances after so many rounds."""
        data = self.functions[number].data
        points, y, noise = [list(part) for part in data] if data is not None else ([], [], [])
        for one in self.told[:rounds]:
            if number in one.values:
                value, std = one.values[number]
                points, y, noise = [*points, one.x], [*y, value], [*noise, std**2]
        return np.reshape(points, (len(y), self.X.shape[1])), np.array(y), np.array(noise)

    def posterior(self, number: int, rounds: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance everywhere."""
        function, X = self.functions[number], self.everywhere
        D, y, noise = self.seen(number, rounds)
        K = function.kernel(X, X)
        mean = function.mean(X)
        if not len(y):
            return mean, K
        K_D = function.kernel(D, D) + np.diag(noise)
        cross = function.kernel(X, D)
        mean = mean + cross @ np.linalg.solve(K_D, y - function.mean(D))
        return mean, K - cross @ np.linalg.solve(K_D, cross.T)

    def information(self, number: int, rounds: int) -> float:
        D, y, noise = self.seen(number, rounds)
        if not len(y):
            return 0.0
        K = self.functions[number].kernel(D, D)
        return 0.5 * np.linalg.slogdet(np.eye(len(y)) + K / np.sqrt(np.outer(noise, noise)))[1]

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bound of each function over the domain, a row each."""
        lower, upper = self.bounds_everywhere()
        return lower[:, : len(self.X)], upper[:, : len(self.X)]

    def bounds_everywhere(self) -> tuple[np.ndarray, np.ndarray]:
        last = len(self.told)
        if not self.is_intersected:
            return self.with_slopes(*self.bounds_after(last))
        lower, upper = self.with_slopes(*self.bounds_after(0))
        for rounds in range(1, last + 1):
            now = self.bounds_after(rounds)
            lower, upper = np.maximum(lower, now[0]), np.minimum(upper, now[1])
            lower, upper = self.with_slopes(lower, upper)
        return lower, upper

    def bounds_after(self, rounds: int) -> tuple[np.ndarray, np.ndarray]:
        numbers = range(len(self.functions))
        counts = [len(self.seen(i, rounds)[1]) for i in numbers]
        betas = self.betas(counts, [self.information(i, rounds) for i in numbers])
        posteriors = [self.posterior(i, rounds) for i in numbers]
        mean = np.array([mean for mean, _ in posteriors])
        std = np.sqrt([np.diag(K).clip(0) for _, K in posteriors])
        return mean - np.array(betas)[:, None] * std, mean + np.array(betas)[:, None] * std

    def with_slopes(self, lower, upper) -> tuple[np.ndarray, np.ndarray]:
        """Tightened by Lipschitz constants from the points that are safe."""
        safe, X = self.is_safe(lower, upper), self.everywhere
        new = lower.copy(), upper.copy()
        for limit in (limit for limit in self.limits if limit.slope is not None):
            i, (constant, norm) = limit.function, limit.slope
            for x, z in np.ndindex(len(X), len(X)):
                reach = constant * np.linalg.norm(X[x] - X[z], ord=norm)
                if safe[z] and limit.is_lower:
                    new[0][i, x] = max(new[0][i, x], lower[i, z] - reach)
                elif safe[z]:
                    new[1][i, x] = min(new[1][i, x], upper[i, z] + reach)
        return new

    def is_safe(self, lower, upper) -> np.ndarray:
        """S_n."""
        safe = np.ones(lower.shape[1], dtype=bool)
        for limit in self.limits:
            i = limit.function
            safe &= lower[i] >= limit.value if limit.is_lower else upper[i] <= limit.value
        return safe

    def may_be_safe(self, lower, upper) -> np.ndarray:
        """The optimistic set."""
        return self.is_safe(upper, lower)

    def maximizers(self, lower, upper) -> np.ndarray:
        """Potential maximizers of the first function, or minimizers."""
        low, high = (-upper[0], -lower[0]) if self.is_minimized else (lower[0], upper[0])
        safe = self.is_safe(lower, upper)
        best = low[safe].max() if safe.any() else -np.inf
        return self.may_be_safe(lower, upper) & (high >= best)

    def expanders(self, lower, upper) -> np.ndarray:
        return self.may_be_safe(lower, upper) & ~self.is_safe(lower, upper)

    def level_set(self, lower, upper, tau: float) -> np.ndarray:
        return self.may_be_safe(lower, upper) & (lower[0] <= tau) & (tau <= upper[0])

    def gains(
        self, rule: str, targets: np.ndarray, pending: list[int], numbers: list[int] | None = None
    ) -> np.ndarray:
        """Summed over functions, each in units of its prior standard deviation."""
        numbers = list(range(len(self.functions))) if numbers is None else numbers
        return sum(self.gain(rule, targets, pending, number) for number in numbers)

    def gain(self, rule: str, targets: np.ndarray, pending: list[int], number: int) -> np.ndarray:
        """By the rules of the oracle, with the domain as pool and its targets as targets."""
        function, scale, n = self.functions[number], self.scale(number), len(self.X)
        D, _, noise = self.seen(number, len(self.told))
        A = np.flatnonzero(targets)
        order = np.concatenate([self.X, self.X[A], D])
        K = function.kernel(order, order) / scale**2
        own = function.noise_std**2 / scale**2
        problem = oracle.Problem(
            K=K,
            n=n,
            m=len(A),
            noise=own,
            target_noise=function.target_noise_std**2 / scale**2 if rule == "itl-y" else 0.0,
        )
        rows = [*range(n + len(A), len(order)), *pending]
        seen = np.concatenate([noise / scale**2, own[pending]])
        return GAINS[rule](Conditioned(problem, rows, seen))


@dataclass(frozen=True)
class Conditioned:
    """A problem whose observations have noise of their own."""

    problem: oracle.Problem
    rows: list[int]
    noise: np.ndarray

    def covariance(self, K: np.ndarray) -> np.ndarray:
        return oracle.condition(K, self.rows, self.noise)


def vtl(given: Conditioned) -> np.ndarray:
    K, p = given.covariance(given.problem.K), given.problem
    return (K[: p.n, p.A] ** 2).mean(axis=1) / (np.diag(K)[: p.n] + p.noise)


def itl(given: Conditioned) -> np.ndarray:
    p = given.problem
    v1 = np.diag(given.covariance(p.K))[: p.n]
    v2 = np.diag(given.covariance(oracle.condition_exactly(p.K, p.A, p.target_noise)))[: p.n]
    return 0.5 * np.log((v1 + p.noise) / (v2 + p.noise))


def mm_itl(given: Conditioned) -> np.ndarray:
    K, p = given.covariance(given.problem.K), given.problem
    y = (np.diag(K)[: p.n] + p.noise)[:, None]
    return -0.5 * np.log1p(-(K[: p.n, p.A] ** 2) / (np.diag(K)[p.A] * y)).mean(axis=1)


def ctl(given: Conditioned) -> np.ndarray:
    K, p = given.covariance(given.problem.K), given.problem
    sd = np.sqrt(np.diag(K))
    return (K / np.outer(sd, sd))[: p.n, p.A].mean(axis=1)


GAINS = {"vtl": vtl, "itl": itl, "itl-y": itl, "mm-itl": mm_itl, "ctl": ctl}
