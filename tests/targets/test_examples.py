"""The estimated density of the targets is that of the oracle, and says when it is no use."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import oracle
import tellmost as tm
from problems import clustered, seeds, tensor
from tellmost.kernels import Linear
from tellmost.rows.pool import Pool
from tellmost.targets.examples import LEAST_GAIN, estimate_density


def estimated(pool, targets, weights=None, kernel=None, memory=0):
    m = len(targets)
    w = np.full(m, 1 / m) if weights is None else weights / weights.sum()
    of_rows = Pool.of(tensor(pool))
    points = tensor(targets).to(torch.float64)
    return estimate_density(of_rows, points, tensor(w), kernel or Linear(), memory=memory)


def examples(pool, targets, weights=None, k=oracle.linear):
    points = np.concatenate([pool, targets]).astype(np.float64)
    m = len(targets)
    own = np.array([k(x, x) for x in points])
    distances = own[:, None] + own[-m:] - 2 * oracle.matrix(k, points, points[-m:])
    w = np.full(m, 1 / m) if weights is None else weights / weights.sum()
    return oracle.Examples(np.where(distances > 1e-12 * own[-m:], distances, 0.0), w)


@given(
    seed=seeds,
    n=st.integers(1, 30),
    m=st.integers(1, 6),
    kernel=st.sampled_from(["linear", "gaussian"]),
    is_weighted=st.booleans(),
    copies=st.integers(0, 3),
)
def test_the_density_is_that_of_the_oracle(seed, n, m, kernel, is_weighted, copies):
    rng = np.random.default_rng(seed)
    pool, targets = clustered(n, 5, m, seed, dtype=np.float64)
    targets = np.concatenate([targets, targets[rng.integers(m, size=copies)]])
    pool = np.concatenate([pool, targets[: rng.integers(2)]])
    weights = rng.uniform(0.1, 1.0, size=len(targets)) if is_weighted else None
    ours = None if kernel == "linear" else tm.kernels.Gaussian(2.0)
    found = estimated(pool, targets, weights, ours)
    theirs = oracle.linear if ours is None else lambda x, z: oracle.gaussian(x, z, 2.0)
    expected = examples(pool, targets, weights, theirs)
    h = found.bandwidth
    assert found.gain == pytest.approx(expected.gain(h), rel=1e-7, abs=1e-7)
    p = torch.cat([found.of_rows, found.of_targets]).numpy()
    np.testing.assert_allclose(p, expected.density(h), rtol=1e-7, atol=1e-12)
    measure = np.zeros(len(p))
    measure[found.rows] = found.weights[0]
    measure[len(pool) :] = found.weights[1]
    np.testing.assert_allclose(measure, expected.measure(h), rtol=1e-6, atol=1e-12)


@given(seed=seeds)
def test_the_bandwidth_makes_held_out_targets_likeliest(seed):
    pool, targets = clustered(60, 5, 8, seed, dtype=np.float64)
    found, expected = estimated(pool, targets), examples(pool, targets)
    widest = 4 * np.sqrt(expected.distances[:60].mean())
    for h in found.bandwidth * np.array([0.25, 0.5, 2**-0.25, 2**0.25, 2.0]):
        assert expected.gain(found.bandwidth) >= expected.gain(h) - 1e-9 or h > widest


def test_a_family_predicts_itself_and_one_of_each_class_does_not():
    rng = np.random.default_rng(0)
    centres = 4 * rng.standard_normal((20, 30))
    pool = np.repeat(centres, 20, axis=0) + rng.standard_normal((400, 30))
    family = centres[0] + rng.standard_normal((8, 30))
    assert estimated(pool, family).gain > 2.0
    one_each = centres[:8] + rng.standard_normal((8, 30))
    assert estimated(pool, one_each).gain < LEAST_GAIN
    elsewhere = 40.0 + rng.standard_normal((8, 30))
    assert estimated(pool, elsewhere).gain < LEAST_GAIN


def test_examples_given_twice_say_no_more():
    """Near copies are left out together, also where the pool has the targets themselves."""
    pool, targets = clustered(100, 6, 6, dtype=np.float64)
    alone = estimated(pool, targets).gain
    for jitter in (0.0, 1e-6):
        copies = targets + jitter * np.random.default_rng(1).standard_normal(targets.shape)
        twice = np.concatenate([targets, copies])
        assert estimated(pool, twice).gain == pytest.approx(alone, abs=0.1)
        assert estimated(np.concatenate([pool, twice]), twice).gain < alone + 0.1
        assert estimated(pool, twice[[0, 6]]).gain == -np.inf


def test_one_target_or_a_pool_of_equal_rows_predicts_nothing():
    pool, targets = clustered(20, 4, 3, dtype=np.float64)
    assert estimated(pool, targets[:1]).gain == -np.inf
    assert estimated(np.ones((5, 2)), np.ones((3, 2))).gain == -np.inf


def test_distances_that_are_kept_give_the_same_density():
    pool, targets = clustered(300, 6, 5, dtype=np.float64)
    made_again, kept = (estimated(pool, targets, memory=memory) for memory in (0, 10**6))
    assert made_again.bandwidth == kept.bandwidth
    assert torch.equal(made_again.of_rows, kept.of_rows)
