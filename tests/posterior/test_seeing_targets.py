"""Seeing f at targets: one Cholesky factor where that is proven to be the pseudo-inverse."""

import numpy as np
import pytest
import torch

import oracle
from problems import tensor
from tellmost.kernels import Gaussian, Linear, Matern
from tellmost.numerics import RANK_TOLERANCE
from tellmost.posterior.function_space import FunctionPosterior
from tellmost.posterior.weight_space import seen_directions

CPU = torch.device("cpu")
LINE = np.linspace(0, 3, 90)[:, None]
OBSERVED, NOISE = [4, 40, 4, 80], np.array([0.01, 0.04, 0.01, 1.0])


def observed(kernel, X: np.ndarray) -> FunctionPosterior:
    posterior = FunctionPosterior(kernel, CPU)
    for row, noise in zip(OBSERVED, NOISE, strict=True):
        posterior.observe(tensor(X[row : row + 1]), float(noise))
    return posterior


@pytest.mark.parametrize("rows", [[7], [3, 50, 51], list(range(10, 60)), [5, 5, 5, 70, 71, 5]])
def test_rough_functions_are_seen_at_each_target(rows):
    kernel = Matern(2.5, 0.1)
    posterior = observed(kernel, LINE)
    assert posterior.see_targets(tensor(LINE[rows]), 0.0)
    K = kernel.block(tensor(LINE), tensor(LINE)).numpy()
    expected = oracle.condition(oracle.condition_exactly(K, np.array(rows)), OBSERVED, NOISE)
    found = posterior.variance(tensor(LINE))
    np.testing.assert_allclose(found, np.diag(expected), atol=1e-9)
    np.testing.assert_allclose(found[rows], 0.0, atol=1e-12)


def test_functions_that_the_targets_nearly_determine_are_seen_up_to_the_rank_tolerance():
    kernel, rows = Gaussian(1.0), np.arange(10, 60)
    posterior = observed(kernel, LINE)
    assert not posterior.see_targets(tensor(LINE[rows]), 0.0)
    K = kernel.block(tensor(LINE), tensor(LINE)).numpy()
    expected = oracle.condition(oracle.condition_exactly(K, rows), OBSERVED, NOISE)
    np.testing.assert_allclose(posterior.variance(tensor(LINE)), np.diag(expected), atol=1e-6)


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_a_direction_below_the_rank_tolerance_is_never_taken_for_seen(share):
    """Two features, of which the targets show the second by less than the tolerance."""
    little = np.sqrt(share * RANK_TOLERANCE)
    targets = np.array([[1.0, 0.0], [0.0, little]])
    seen = seen_directions(tensor(targets), 0.0)
    np.testing.assert_allclose(seen.T @ seen, np.diag([1.0, 0.0]), atol=1e-12)
    posterior = FunctionPosterior(Linear(), CPU)
    assert not posterior.see_targets(tensor(targets), 0.0)
    variance = posterior.variance(tensor(np.array([[0.0, 1.0], [1.0, 0.0]])))
    np.testing.assert_allclose(variance, [1.0, 0.0], atol=1e-12)


def test_repeated_targets_raise_the_tolerance_as_they_raise_the_largest_eigenvalue():
    little = np.sqrt(5 * RANK_TOLERANCE)
    once, again = np.array([[1.0, 0.0], [0.0, little]]), np.array([[1.0, 0.0]] * 9)
    seen, unseen = (FunctionPosterior(Linear(), CPU) for _ in range(2))
    assert seen.see_targets(tensor(once), 0.0)
    assert not unseen.see_targets(tensor(np.concatenate([once, again])), 0.0)
    second = tensor(np.array([[0.0, 1.0]]))
    assert float(seen.variance(second)) == pytest.approx(0.0, abs=1e-9)
    assert float(unseen.variance(second)) == pytest.approx(1.0)
