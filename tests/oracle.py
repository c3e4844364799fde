"""The slow, obvious float64 version of everything, straight from the paper's definitions.

Dense joint covariances, a fresh solve for every question, no recursion. Nothing here imports
Tellmost, so that a mistake cannot be made twice.
"""

from dataclasses import dataclass, field

import numpy as np

RANK_TOLERANCE = 1e-10
ZERO_VARIANCE = 1e-14
THRESHOLD_REACHED = 1e-6


@dataclass(frozen=True)
class Problem:
    """A joint Gaussian over pool, targets and points observed outside the pool, in this order."""

    K: np.ndarray
    n: int
    m: int
    noise: np.ndarray  # noise variance of each pool row
    outside_noise: float = 0.0
    weights: np.ndarray | None = None
    target_noise: float = 0.0
    observed: tuple[int, ...] = ()  # rows of K: pool rows, or n + m + i for outside points
    candidates: np.ndarray | None = None
    cost: np.ndarray | None = None
    groups: np.ndarray | None = None
    max_per_group: int | None = None
    budget: float | None = None
    replace: bool = False

    @property
    def A(self) -> np.ndarray:
        return np.arange(self.n, self.n + self.m)

    @property
    def w(self) -> np.ndarray:
        return np.full(self.m, 1 / self.m) if self.weights is None else self.weights

    def noise_of(self, observed: list[int]) -> np.ndarray:
        return np.array([self.noise[i] if i < self.n else self.outside_noise for i in observed])


def condition(K: np.ndarray, observed: list[int], noise: np.ndarray) -> np.ndarray:
    """Covariance given noisy observations (a multiset of rows)."""
    if len(observed) == 0:
        return K
    K_D = K[np.ix_(observed, observed)] + np.diag(noise)
    cross = K[:, observed]
    return K - cross @ np.linalg.solve(K_D, cross.T)


def condition_exactly(K: np.ndarray, rows: np.ndarray, noise: float = 0.0) -> np.ndarray:
    """Covariance given f (or y) at some rows, with the pseudo-inverse at the stated tolerance."""
    values, U = np.linalg.eigh(K[np.ix_(rows, rows)])
    kept = values > RANK_TOLERANCE * values.max()
    half = (U[:, kept] / np.sqrt(values[kept] + noise)).T @ K[rows]
    return K - half.T @ half


def posterior(problem: Problem, picks: list[int]) -> np.ndarray:
    observed = [*problem.observed, *picks]
    return condition(problem.K, observed, problem.noise_of(observed))


def itl(problem: Problem, picks: list[int]) -> np.ndarray:
    """1/2 log Var(y_x | D) / Var(y_x | f_A, D)."""
    observed = [*problem.observed, *picks]
    noise = problem.noise_of(observed)
    given_A = condition_exactly(problem.K, problem.A, problem.target_noise)
    v1 = np.diag(condition(problem.K, observed, noise))[: problem.n]
    v2 = np.diag(condition(given_A, observed, noise))[: problem.n]
    return 0.5 * np.log((v1 + problem.noise) / (v2 + problem.noise))


def vtl(problem: Problem, picks: list[int]) -> np.ndarray:
    """The fall of each target's variance, Cov(f_a, y_x)^2 / Var(y_x), in the weighted mean."""
    K = posterior(problem, picks)
    covariance = K[: problem.n, problem.A]
    return covariance**2 @ problem.w / (np.diag(K)[: problem.n] + problem.noise)


def vtl_by_traces(problem: Problem, picks: list[int]) -> np.ndarray:
    """The same as a difference of traces, conditioning on each candidate: fewer digits."""
    before = posterior(problem, picks)
    gains = np.empty(problem.n)
    for x in range(problem.n):
        after = condition(before, [x], problem.noise[[x]])
        gains[x] = problem.w @ (np.diag(before) - np.diag(after))[problem.A]
    return gains


def mm_itl(problem: Problem, picks: list[int]) -> np.ndarray:
    """-1/2 log(1 - Cor(f_a, y_x)^2) for each target, in the weighted mean."""
    K = posterior(problem, picks)
    v = np.diag(K)[problem.A]
    known = v <= ZERO_VARIANCE * np.diag(problem.K)[problem.A]
    y = (np.diag(K)[: problem.n] + problem.noise)[:, None]
    squared = K[: problem.n, problem.A] ** 2 / (np.where(known, np.inf, v) * y)
    return -0.5 * np.log1p(-squared) @ problem.w


def ctl(problem: Problem, picks: list[int], about: str = "f") -> np.ndarray:
    K, prior = posterior(problem, picks), np.diag(problem.K)
    v = np.diag(K)
    known = v <= ZERO_VARIANCE * prior
    sd = np.where(known, np.inf, np.sqrt(np.where(known, 1.0, v)))
    noise = problem.noise if about == "y" else 0.0
    of_rows = np.where(known[: problem.n], np.inf, np.sqrt(v[: problem.n] + noise))
    correlation = K[: problem.n] / np.outer(of_rows, sd)
    return correlation[:, problem.A] @ problem.w


def ctl_y(problem: Problem, picks: list[int]) -> np.ndarray:
    return ctl(problem, picks, about="y")


def truvar(problem: Problem, picks: list[int], beta=1.0, eta=1.0, r=0.1, delta=0.0) -> np.ndarray:
    """The fall of each target's variance, as far as it lies above the epoch's threshold."""
    K, A = posterior(problem, picks), problem.A
    while beta * np.sqrt(np.diag(K)[A].max()) <= (1 + delta) * eta * (1 + THRESHOLD_REACHED):
        eta *= r
    gains = np.empty(problem.n)
    for x in range(problem.n):
        after = np.diag(K)[A] - K[x, A] ** 2 / (K[x, x] + problem.noise[x])
        truncated = [np.maximum(beta**2 * v, eta**2) for v in (np.diag(K)[A], after)]
        gains[x] = problem.w @ (truncated[0] - truncated[1])
    return gains


def local_uncertainty(problem: Problem, picks: list[int]) -> np.ndarray:
    """The variance of rows that are targets: whose rows of the prior covariance are the same."""
    is_target = [
        any(np.allclose(problem.K[x], problem.K[a], rtol=0, atol=1e-12) for a in problem.A)
        for x in range(problem.n)
    ]
    return np.where(is_target, uncertainty(problem, picks), 0.0)


def uncertainty(problem: Problem, picks: list[int]) -> np.ndarray:
    return np.diag(posterior(problem, picks))[: problem.n].copy()


def undirected_itl(problem: Problem, picks: list[int]) -> np.ndarray:
    return 0.5 * np.log1p(uncertainty(problem, picks) / problem.noise)


def undirected_vtl(problem: Problem, picks: list[int]) -> np.ndarray:
    """VTL with all candidates as targets."""
    K = posterior(problem, picks)
    rows = np.arange(problem.n) if problem.candidates is None else problem.candidates
    return (K[: problem.n, rows] ** 2).mean(axis=1) / (np.diag(K)[: problem.n] + problem.noise)


def correlation_with_targets(problem: Problem) -> np.ndarray:
    scale = np.sqrt(np.outer(np.diag(problem.K)[: problem.n], np.diag(problem.K)[problem.A]))
    covariance = problem.K[: problem.n, problem.A]
    return np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0)


def cosine(problem: Problem, picks: list[int]) -> np.ndarray:
    return correlation_with_targets(problem) @ problem.w


def top_k(problem: Problem, picks: list[int]) -> np.ndarray:
    return correlation_with_targets(problem).max(axis=1)


def correlation(problem: Problem, x: int, z: int) -> float:
    """The correlation of two points, named by their rows of K, before any observation."""
    scale = np.sqrt(problem.K[x, x] * problem.K[z, z])
    return problem.K[x, z] / scale if scale > 0 else 0.0


def mmr(problem: Problem, picks: list[int], relevance: float = 0.5) -> np.ndarray:
    """Weighted similarity to the nearest target less that to the nearest chosen."""
    chosen, gains = [*problem.observed, *picks], np.empty(problem.n)
    for x in range(problem.n):
        near = max(correlation(problem, x, a) for a in problem.A)
        alike = max((correlation(problem, x, s) for s in chosen), default=0.0)
        gains[x] = relevance * near - (1 - relevance) * alike
    return gains


def squared_distances(problem: Problem, picks: list[int]) -> np.ndarray | None:
    """To the nearest chosen, in the kernel's feature space; None if nothing is."""
    chosen, K = [*problem.observed, *picks], problem.K
    if not chosen:
        return None
    squared = np.array(
        [min(K[x, x] + K[s, s] - 2 * K[x, s] for s in chosen) for x in range(problem.n)]
    )
    rows = [x for x in chosen if x < problem.n]
    squared[rows] = 0.0  # of which rounding leaves something, and its square root more
    return np.maximum(squared, 0.0)


def k_center(problem: Problem, picks: list[int]) -> np.ndarray:
    squared = squared_distances(problem, picks)
    return np.sqrt(np.diag(problem.K)[: problem.n] if squared is None else squared)


RULES = {
    "vtl": vtl,
    "itl": itl,
    "itl-y": itl,  # with problem.target_noise
    "mm-itl": mm_itl,
    "ctl": ctl,
    "ctl-y": ctl_y,
    "truvar": truvar,
    "local-uncertainty": local_uncertainty,
    "uncertainty": uncertainty,
    "undirected-itl": undirected_itl,
    "undirected-vtl": undirected_vtl,
    "cosine": cosine,
    "top-k": top_k,
    "mmr": mmr,
    "k-center": k_center,
}


@dataclass
class Eligible:
    """Which rows may be picked, by the plain reading of each option."""

    problem: Problem
    picks: list[int] = field(default_factory=list)

    def mask(self) -> np.ndarray:
        problem = self.problem
        open_ = np.zeros(problem.n, dtype=bool)
        open_[np.arange(problem.n) if problem.candidates is None else problem.candidates] = True
        if not problem.replace:
            open_[[i for i in (*problem.observed, *self.picks) if i < problem.n]] = False
        if problem.groups is not None:
            for label in np.unique(problem.groups):
                if sum(problem.groups[i] == label for i in self.picks) >= problem.max_per_group:
                    open_[problem.groups == label] = False
        if problem.budget is not None:
            left = problem.budget - sum(problem.cost[i] for i in self.picks)
            open_ &= problem.cost <= left
        return open_


def weighted_uncertainty(problem: Problem, picks: list[int]) -> float:
    return float(problem.w @ np.diag(posterior(problem, picks))[problem.A])


def mutual_information(problem: Problem, picks: list[int]) -> float:
    """I(f_A; y_picks) by log-determinants."""
    noise = np.diag(problem.noise_of(picks))
    given_A = condition_exactly(problem.K, problem.A)
    block = np.ix_(picks, picks)
    _, before = np.linalg.slogdet(problem.K[block] + noise)
    _, after = np.linalg.slogdet(given_A[block] + noise)
    return 0.5 * (before - after)


def forward_itl(problem: Problem, picks: list[int]) -> np.ndarray:
    """1/2 log det Var(f_A | D) / det Var(f_A | D, y_x)."""
    before = posterior(problem, picks)
    block = np.ix_(problem.A, problem.A)
    _, first = np.linalg.slogdet(before[block])
    gains = np.empty(problem.n)
    for x in range(problem.n):
        _, second = np.linalg.slogdet(condition(before, [x], problem.noise[[x]])[block])
        gains[x] = 0.5 * (first - second)
    return gains


def floor(problem: Problem) -> np.ndarray:
    """Variance of each target given what was observed and f at every candidate."""
    start = posterior(problem, [])
    rows = np.arange(problem.n) if problem.candidates is None else problem.candidates
    return np.diag(condition_exactly(start, rows))[problem.A]


def whole_pool(problem: Problem) -> np.ndarray:
    start = posterior(problem, [])
    rows = np.arange(problem.n) if problem.candidates is None else problem.candidates
    return np.diag(condition(start, list(rows), problem.noise[rows]))[problem.A]


# ---- targets as examples


@dataclass(frozen=True)
class Examples:
    """Squared distances of the points (rows first, then targets) to the targets, and weights."""

    distances: np.ndarray  # (n + m, m)
    weights: np.ndarray

    @property
    def n(self) -> int:
        return len(self.distances) - len(self.weights)

    def density(self, h: float, of: np.ndarray | None = None) -> np.ndarray:
        """p(x) of all points, from these of the targets, or from all of them."""
        of = np.arange(len(self.weights)) if of is None else of
        K = np.exp(-self.distances[:, of] / (2 * h**2))
        return K / K.sum(axis=0) @ (self.weights[of] / self.weights[of].sum())

    def others(self, a: int) -> np.ndarray:
        """The targets that are left if a is left out, with those that are nearer to it than the
        pool is to either."""
        rows, targets = self.distances[: self.n], self.distances[self.n :]
        fresh = rows[(rows > 0).all(axis=1)]
        nearest = fresh.min(axis=0, initial=np.inf)
        near = [targets[a, b] <= min(nearest[a], nearest[b]) for b in range(len(targets))]
        near[a] = True
        return np.flatnonzero(~np.array(near))

    def gain(self, h: float) -> float:
        """How much likelier each target is under the others than a point at random, in logs."""
        total = 0.0
        for a, w in enumerate(self.weights):
            others = self.others(a)
            if len(others) == 0:
                return -np.inf
            p = self.density(h, others)[self.n + a]
            total += w * np.log(len(self.distances) * p)
        return total

    def measure(self, h: float) -> np.ndarray:
        """Weights of all points: of what is likelier under the targets, and a quarter as given."""
        p = self.density(h)
        kept = np.where(p * len(p) > 1, p, 0.0)
        given = np.concatenate([np.zeros(self.n), self.weights])
        return 0.75 * kept / kept.sum() + 0.25 * given


# ---- kernels, written out pair by pair


def cosines(rows: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Cosine similarity of each row to each target."""
    x, a = (np.asarray(points, dtype=np.float64) for points in (rows, targets))
    return x @ a.T / np.outer(np.linalg.norm(x, axis=1), np.linalg.norm(a, axis=1))


def linear(x: np.ndarray, z: np.ndarray, covariance: np.ndarray | None = None) -> float:
    return float(x @ (z if covariance is None else covariance @ z))


def gaussian(x: np.ndarray, z: np.ndarray, lengthscale: float | np.ndarray = 1.0) -> float:
    return float(np.exp(-0.5 * np.sum(((x - z) / lengthscale) ** 2)))


def laplace(x: np.ndarray, z: np.ndarray, lengthscale: float | np.ndarray = 1.0) -> float:
    return float(np.exp(-np.sum(np.abs(x - z) / lengthscale)))


def matern(
    x: np.ndarray, z: np.ndarray, nu: float, lengthscale: float | np.ndarray = 1.0
) -> float:
    """The three forms everybody knows (Rasmussen and Williams 2006, eq. 4.17)."""
    r = np.sqrt(np.sum(((x - z) / lengthscale) ** 2))
    if nu == 0.5:
        return float(np.exp(-r))
    if nu == 1.5:
        return float((1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r))
    if nu == 2.5:
        return float((1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r))
    raise NotImplementedError(nu)


def matrix(k, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.array([[k(x, z) for z in Z] for x in X])


# ---- probes


def log_evidence(K: np.ndarray, y: np.ndarray, scale: float, noise: float) -> float:
    """Log density of outputs, a column each, under N(0, scale K + noise I), written out."""
    C = scale * K + noise * np.eye(len(K))
    _, logdet = np.linalg.slogdet(2 * np.pi * C)
    return sum(-0.5 * (column @ np.linalg.solve(C, column) + logdet) for column in y.T)
