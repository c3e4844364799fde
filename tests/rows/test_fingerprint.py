"""Pools that differ have different names."""

import numpy as np
import pytest
import torch

from tellmost.rows.pool import Pool

RNG = np.random.default_rng(0)
POOLS = {
    "float32": RNG.standard_normal((300, 8)).astype(np.float32),
    "zeros and ones": (RNG.random((300, 8)) < 0.5).astype(np.float64),
    "whole numbers": RNG.integers(-3, 4, (300, 8)).astype(np.float64),
    "float16": RNG.standard_normal((300, 8)).astype(np.float16),
}


def name(pool: np.ndarray) -> str:
    return Pool.of(torch.from_numpy(np.ascontiguousarray(pool))).fingerprint()


def negated(X: np.ndarray, columns: list[int]) -> np.ndarray:
    X = X.copy()
    X[:, columns] = -X[:, columns]
    return X


def moved(X: np.ndarray) -> np.ndarray:
    """A unit from one column to the next, and another back elsewhere."""
    return X + np.array([1, -1, 0, 0, -1, 1, 0, 0], X.dtype)


CHANGES = {
    "all signs": lambda X: -X,
    "the signs of two columns": lambda X: negated(X, [1, 4]),
    "the sign of one column": lambda X: negated(X, [2]),
    "columns swapped": lambda X: X[:, [1, 0, *range(2, 8)]],
    "rows swapped": lambda X: X[[1, 0, *range(2, 300)]],
    "units moved": moved,
    "doubled": lambda X: 2 * X,
    "one entry": lambda X: np.where(np.arange(2400).reshape(300, 8) == 777, X + 1, X),
    "a row less": lambda X: X[:-1],
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("pool", POOLS)
def test_a_changed_pool_has_another_name(pool, change):
    X = POOLS[pool]
    changed = CHANGES[change](X)
    assert not np.array_equal(X, changed)
    assert name(changed) != name(X)


def test_the_name_depends_on_values_not_on_their_type():
    X = POOLS["float16"]
    assert name(X) == name(X.astype(np.float32)) == name(X.astype(np.float64))
