"""The slow, obvious retrieval: one query at a time, every product by itself, dense solves.

Nothing here imports Tellmost.
"""

import numpy as np

import oracle

CORRELATION_RULES = ("ctl", "mmr", "cosine", "top-k")


def normalized(rows: np.ndarray, pool: np.ndarray, how: str | None) -> np.ndarray:
    """Rows, less the pool's mean and divided by their length, as ``how`` says."""
    if how in ("center", "center+unit"):
        rows = rows - pool.mean(axis=0)
    if how in ("unit", "center+unit"):
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows / np.where(lengths > 0, lengths, 1.0)
    return rows


def scores(X: np.ndarray, targets: np.ndarray, rule: str, noise: float) -> np.ndarray:
    """The best product with a target, over the root of the variance of an observation."""
    result = np.empty(len(X))
    for i, x in enumerate(X):
        deviation = np.sqrt(x @ x + (0.0 if rule in CORRELATION_RULES else noise))
        best = max(float(a @ x) for a in targets)
        result[i] = best / deviation if deviation > 0 else 0.0
    return result


def problem(
    X: np.ndarray, targets: np.ndarray, rule: str, noise: float, candidates, observed=()
) -> oracle.Problem:
    Z = np.concatenate([X, targets])
    return oracle.Problem(
        K=Z @ Z.T,
        n=len(X),
        m=len(targets),
        noise=np.full(len(X), noise),
        target_noise=noise if rule == "itl-y" else 0.0,
        observed=tuple(observed),
        candidates=np.asarray(candidates),
    )
