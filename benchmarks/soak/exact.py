"""The definitions of the tests' oracle, in long-double arithmetic and one observation at a time.

``oracle.py`` states each rule from covariances. Here covariances have 64 bits of mantissa, and
are conditioned without LAPACK, which has no long double. No code of the library is used.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
import oracle

Real = np.longdouble

NO_DIRECTION = 1e-9
"""A residual below this share is no direction: ``has_clear_rank`` keeps others far from it."""


def condition(covariance, observed, noise):
    for row, variance in zip(observed, noise, strict=True):
        total = covariance[row, row] + variance
        covariance = covariance - np.outer(covariance[:, row], covariance[row]) / total
    return covariance


def condition_exactly(covariance, rows, noise=0.0):
    """Covariance given f (or y) at some rows. What the rows before determine is no news."""
    if noise > 0:
        return condition(covariance, rows, np.full(len(rows), noise))
    largest = np.diag(covariance)[rows].max()
    for _ in rows:
        row = rows[np.diag(covariance)[rows].argmax()]
        if covariance[row, row] <= NO_DIRECTION * largest:
            break
        covariance = condition(covariance, [row], [0])
    return covariance


oracle.condition, oracle.condition_exactly = condition, condition_exactly


def has_clear_rank(problem):
    """True if no eigenvalue of the targets lies so near the rank tolerance that it is unclear."""
    values = np.linalg.eigvalsh(problem.K[np.ix_(problem.A, problem.A)].astype(float))
    return not np.any((values > 1e-13 * values.max()) & (values < 1e-6 * values.max()))


def normalized(points, pool, how):
    points, pool = np.asarray(points, Real), np.asarray(pool, Real)
    points = points - pool.mean(axis=0) if "center" in how else points
    length = np.sqrt((points**2).sum(axis=1, keepdims=True))
    return points / np.where(length > 0, length, 1) if "unit" in how else points


def covariance(kernel, lengthscale, points):
    """The prior covariance of all points."""
    apart = (points[:, None] - points[None]) / Real(lengthscale)
    r, root = np.sqrt((apart**2).sum(axis=2)), np.sqrt(Real(3 if "1.5" in kernel else 5))
    forms = {
        "linear": lambda: points @ points.T,
        "gaussian": lambda: np.exp(-(r**2) / 2),
        "laplace": lambda: np.exp(-np.abs(apart).sum(axis=2)),
        "matern 0.5": lambda: np.exp(-r),
        "matern 1.5": lambda: (1 + root * r) * np.exp(-root * r),
        "matern 2.5": lambda: (1 + root * r + 5 * r**2 / 3) * np.exp(-root * r),
    }
    return forms[kernel]()


def open_rows(problem, picks):
    """Which rows may be picked after these. Observed rows count for their groups."""
    may = np.zeros(problem.n, dtype=bool)
    may[problem.candidates] = True
    taken = [row for row in (*problem.observed, *picks) if row < problem.n]
    if not problem.replace:
        may[taken] = False
    if problem.groups is not None:
        for label in set(problem.groups.tolist()):
            if (problem.groups[taken] == label).sum() >= problem.max_per_group:
                may[problem.groups == label] = False
    if problem.budget is not None:
        may &= problem.cost <= problem.budget * (1 + 1e-12) - sum(problem.cost[i] for i in picks)
    return may
