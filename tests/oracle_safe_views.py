"""Reachable safe sets and left-out predictions, straight from their definitions."""

import numpy as np

from oracle import condition, condition_exactly


def reachable_by_kernel(Ks, observed, noise, margins, start, epsilon, beta):
    """Hübotter et al. 2024, Def. "Reachable safe set": S until it does not change any more."""
    S = start.copy()
    while True:
        bigger = S.copy()
        etas = [irreducible_std(K, observed, noise, np.flatnonzero(S)) for K in Ks]
        for x in range(len(S)):
            parts = zip(margins, etas, strict=True)
            bigger[x] |= all(g[x] - beta * (eta[x] + epsilon) >= 0 for g, eta in parts)
        if (bigger == S).all():
            return S
        S = bigger


def irreducible_std(K, observed, noise, S):
    """The deviation of f, given noisy observations and f itself on S."""
    K = condition(K, observed, noise)
    if len(S):
        K = condition_exactly(K, S)
    variance = np.diag(K)
    return np.sqrt(np.where(variance > 1e-10, variance, 0.0))


def reachable_by_lipschitz(points, margins, constants, start, epsilon):
    """Sui et al. 2015: one constraint may be kept by one safe point, the next by another."""
    S = start.copy()
    while True:
        bigger = S.copy()
        for x in range(len(S)):
            bigger[x] |= all(
                any(
                    g[z] - epsilon - L * np.linalg.norm(points[x] - points[z]) >= 0
                    for z in np.flatnonzero(S)
                )
                for g, L in zip(margins, constants, strict=True)
            )
        if (bigger == S).all():
            return S
        S = bigger


def left_out(K, noise, r, places, place):
    """Mean and covariance of the values of a place, given those of all others."""
    here, there = np.flatnonzero(places == place), np.flatnonzero(places != place)
    C = K + np.diag(noise)
    solved = np.linalg.solve(C[np.ix_(there, there)], C[np.ix_(there, here)]).T
    return solved @ r[there], C[np.ix_(here, here)] - solved @ C[np.ix_(there, here)]
