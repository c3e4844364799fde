"""The paper's quantities, slow and obvious, straight from their definitions.

As ``oracle``: dense, in float64, and nothing here imports Tellmost.
"""

from itertools import chain, combinations, combinations_with_replacement
from math import log

import numpy as np

from oracle import Problem, condition, condition_exactly


def log_det(K: np.ndarray) -> float:
    return float(np.linalg.slogdet(K)[1]) if len(K) else 0.0


def reduction(problem: Problem, X, rule: str, D=()) -> float:
    """psi(D and X) - psi(D), from the covariances given D."""
    D, X = list(D), list(X)
    before = condition(problem.K, D, problem.noise[D])
    after = condition(before, X, problem.noise[X])
    A = problem.A
    if rule == "vtl":
        return float(np.trace(before[np.ix_(A, A)]) - np.trace(after[np.ix_(A, A)]))
    if rule == "mm-itl":
        return float(0.5 * np.log(np.diag(before)[A] / np.diag(after)[A]).sum())
    seen = condition(condition_exactly(problem.K, A), D, problem.noise[D])
    block, noise = np.ix_(X, X), np.diag(problem.noise[X])
    return 0.5 * (log_det(before[block] + noise) - log_det(seen[block] + noise))


def entropy_difference(problem: Problem, X) -> float:
    """I(f_A; y_X) the other way round: H[f_A] - H[f_A | y_X], for targets that are independent."""
    block = np.ix_(problem.A, problem.A)
    after = condition(problem.K, list(X), problem.noise[list(X)])
    return 0.5 * (log_det(problem.K[block]) - log_det(after[block]))


def multisets(n: int, size: int):
    return combinations_with_replacement(range(n), size)


def capacity(problem: Problem, n: int) -> float:
    """The most information that a multiset of at most n samples has."""
    sets = chain.from_iterable(multisets(problem.n, size) for size in range(n + 1))
    return max(reduction(problem, X, "itl") for X in sets)


def gains_along(problem: Problem, picks, rule: str) -> list[float]:
    prefixes = [list(picks[:count]) for count in range(len(picks) + 1)]
    return [max(reduction(problem, [x], rule, D) for x in range(problem.n)) for D in prefixes]


def task_complexity(gains, n: int) -> float:
    return max(gains[n - 1] / gains[i] for i in range(n))


def information_ratio(problem: Problem, X, rule: str, D=()) -> float:
    together = reduction(problem, X, rule, D)
    return sum(reduction(problem, [x], rule, D) for x in X) / together


def submodularity_ratio(problem: Problem, picks, rule: str) -> float:
    """Over all parts D of the picks and all multisets X of at most as many samples."""
    n = len(picks)
    parts = chain.from_iterable(combinations(picks, size) for size in range(n + 1))
    return min(
        information_ratio(problem, X, rule, D)
        for D in set(parts)
        for size in range(1, n + 1)
        for X in multisets(problem.n, size)
    )


def submodularity_ratio_of_sets(problem: Problem, picks, rule: str) -> float:
    """Over all sets D of rows that were picked, and all sets X of others."""
    rows, n = set(picks), len(picks)
    return min(
        information_ratio(problem, X, rule, D)
        for known in range(len(rows) + 1)
        for D in combinations(sorted(rows), known)
        for size in range(1, n + 1)
        for X in combinations(sorted(set(range(problem.n)) - set(D)), size)
    )


def irreducible_by_projection(Phi: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """|phi(x)|^2 in the complement of the span of the rows of Phi."""
    projection = np.eye(Phi.shape[1]) - Phi.T @ np.linalg.pinv(Phi @ Phi.T, rcond=1e-10) @ Phi
    return np.einsum("ij,jk,ik->i", phi, projection, phi)


def realised_information(K: np.ndarray, noise: np.ndarray) -> float:
    return 0.5 * log_det(np.eye(len(K)) + K / np.sqrt(np.outer(noise, noise)))


def boundary_size(K: np.ndarray, noise, epsilon: float, sigma: float, noisy: float) -> int:
    """The lemma's k, counted up, with (r/2) log(1 + k s / r) in the place of gamma_k."""
    s = (np.diag(K) / noise).max()
    level = epsilon * np.linalg.eigvalsh(K)[0] / (2 * len(K) * sigma * noisy)
    k = 1
    while True:
        r = min(k, len(K))
        if 0.5 * r * log(1 + k * s / r) / k <= level:
            return k
        k += 1


def rounds_to_expand(K: np.ndarray, noise, epsilon: float, sigma: float, noisy: float) -> int:
    """The lemma's n', counted up: 2 sigma^2 b gamma_{n+1} / (n+1) at most (epsilon / 2)^2."""
    size = boundary_size(K, noise, (epsilon / 2) ** 2, sigma, noisy)
    n = 0
    while True:
        r = min(n + 1, len(K))
        capacity = 0.5 * r * log(1 + (n + 1) * (np.diag(K) / noise).max() / r)
        if 2 * sigma * size * capacity / (n + 1) <= (epsilon / 2) ** 2:
            return n
        n += 1


def posterior_mean_and_variance(K, picks, y, noise):
    """The posterior of a zero-mean prior, at every row of K."""
    picks = list(picks)
    weights = np.linalg.solve(K[np.ix_(picks, picks)] + np.diag(noise[picks]), K[picks]).T
    return weights @ y, np.diag(K) - np.einsum("ij,ji->i", weights, K[picks])
