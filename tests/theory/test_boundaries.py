"""Irreducible variances, and few observations that nearly reach them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import oracle_theory
import tellmost as tm
from tellmost import theory
from tiny_problems import kernels, repeated, seeds, tiny


@given(seeds, kernels, st.booleans())
@settings(max_examples=25, deadline=None)
def test_irreducible_variances_equal_the_oracle(seed, kernel, has_repeated):
    case = tiny(seed, kernel, n=2, m=3)
    case = repeated(case) if has_repeated else case
    found = theory.irreducible_variance(case.pool, case.targets, kernel=case.arguments["kernel"])
    assert found.is_exact
    np.testing.assert_allclose(found.value, oracle.floor(case.oracle), rtol=1e-7, atol=1e-9)


@given(seeds, st.integers(1, 6))
@settings(max_examples=20, deadline=None)
def test_for_inner_products_they_are_what_the_projection_leaves(seed, n):
    rng = np.random.default_rng(seed)
    X, A = rng.standard_normal((n, 4)), rng.standard_normal((3, 4))
    root = rng.standard_normal((4, 4))
    latent = tm.kernels.Linear(torch.from_numpy(root @ root.T))
    mapped = tm.kernels.FeatureMap(lambda x: x @ torch.from_numpy(root))
    expected = oracle_theory.irreducible_by_projection(X @ root, A @ root)
    by_matrix = tm.kernels.Precomputed(np.vstack([X, A]) @ root @ root.T @ np.vstack([X, A]).T)
    atol = 1e-8 * np.square(A @ root).sum(axis=1).max()
    for kernel in (latent, mapped):
        found = theory.irreducible_variance(X, A, kernel=kernel)
        np.testing.assert_allclose(found.value, expected, atol=atol)
    found = theory.irreducible_variance(np.arange(n), np.arange(n, n + 3), kernel=by_matrix)
    np.testing.assert_allclose(found.value, expected, atol=atol)


def test_samples_have_none_and_an_inexact_one_says_so(monkeypatch):
    x = np.linspace(0, 9, 10)[:, None]
    kernel = tm.kernels.Matern(0.5, 2.0)
    np.testing.assert_allclose(
        theory.irreducible_variance(x, x, kernel=kernel).value, 0.0, atol=1e-12
    )
    monkeypatch.setattr("tellmost.numerics.FLOOR_EXACT_ROWS", 5)
    monkeypatch.setattr("tellmost.posterior.floor.FLOOR_RANK", 5)
    found = theory.irreducible_variance(x, x, kernel=kernel)
    assert not found.is_exact and "upper bounds" in found.description
    with pytest.raises(ValueError, match=r"exact irreducible variance.*10 rows"):
        theory.markov_boundary(x, x[0], 0.1, kernel=kernel, noise_std=0.1)


@given(seeds, kernels, st.booleans(), st.lists(st.integers(0, 2), max_size=2))
@settings(max_examples=25, deadline=None)
def test_a_markov_boundary_tells_all_but_epsilon(seed, kernel, is_directed, known):
    case = tiny(seed, kernel, n=3, m=2, noise_share=0.3)
    targets = case.targets[:1] if is_directed else case.targets
    rows = case.oracle.A[: len(targets)]
    floor = oracle.floor(case.oracle)[: len(targets)]
    epsilon = 0.02 * (np.diag(case.oracle.K)[rows] - floor).max()
    often = [0, 1, 2] * 50
    epsilon += (np.diag(oracle.posterior(case.oracle, often))[rows] - floor).max()
    found = theory.markov_boundary(
        case.pool,
        targets,
        epsilon,
        given=known,
        method="directed" if is_directed else "undirected",
        **case.arguments,
    )

    def variance(count):
        picks = [*known, *found.indices[:count].tolist()]
        return np.diag(oracle.posterior(case.oracle, picks))[rows]

    assert np.all(variance(len(found)) <= floor + epsilon * (1 + 1e-6))
    np.testing.assert_allclose(found.variance, variance(len(found)), rtol=1e-6)
    assert len(found) == 0 or np.any(variance(len(found) - 1) > floor + epsilon * (1 - 1e-6))
    assert len(found) <= found.size_bound


@given(seeds, st.sampled_from(["gaussian", "matern"]))
@settings(max_examples=10, deadline=None)
def test_the_bound_on_its_size_is_the_lemmas(seed, kernel):
    case = tiny(seed, kernel, n=2, m=1, noise_share=1.0)
    K, noise = case.oracle.K[:2, :2], case.oracle.noise
    sigma, noisy = 1.0, 1.0 + noise.max()
    epsilon = 0.02 * 4 * sigma * noisy / np.linalg.eigvalsh(K)[0]
    found = theory.markov_boundary_size(case.pool, case.targets, epsilon, **case.arguments)
    assert found == oracle_theory.boundary_size(K, noise, epsilon, sigma, noisy)


def test_its_size_bound_is_infinite_for_singular_covariances_and_finite_through_a_basis():
    rng = np.random.default_rng(0)
    x, a = rng.standard_normal((6, 2)), rng.standard_normal((1, 2))
    as_features = theory.markov_boundary(x, a, 0.1, noise_std=0.5)
    K = np.vstack([x, a]) @ np.vstack([x, a]).T
    matrix = tm.kernels.Precomputed(K)
    as_matrix = theory.markov_boundary(np.arange(6), [6], 0.1, kernel=matrix, noise_std=0.5)
    assert as_matrix.size_bound == float("inf") > as_features.size_bound >= len(as_features)
    assert as_matrix.indices.tolist() == as_features.indices.tolist()
    assert as_features.size_bound == theory.markov_boundary_size(x, a, 0.1, noise_std=0.5)


def test_rows_that_come_twice_count_once_in_its_size_bound():
    x = np.array([[0.0], [1.0]])
    ask = {"kernel": tm.kernels.Gaussian(1.0), "noise_std": 0.5}
    once = theory.markov_boundary_size(x, [[2.0]], 0.5, **ask)
    assert theory.markov_boundary_size(x[[0, 1, 0, 1]], [[2.0]], 0.5, **ask) == once < 1e9


def test_the_directed_boundary_is_smaller_where_most_samples_are_far_away():
    x = np.array([[0.0], [10.0], [20.0], [30.0]])
    ask = {"kernel": tm.kernels.Gaussian(1.0), "noise_std": 0.3}
    directed = theory.markov_boundary(x, [0.5], 0.01, **ask)
    undirected = theory.markov_boundary(x, [0.5], 0.01, method="undirected", **ask)
    assert set(directed.indices) == {0} and len(undirected) >= 3 * len(directed)


def test_a_point_that_is_known_well_enough_needs_no_observations():
    found = theory.markov_boundary([[1.0]], [[2.0]], 5.0, noise_std=1.0)
    assert len(found) == 0 and found.variance == [4.0] and found.floor == [0.0]
    nothing = theory.markov_boundary([[0.0, 0.0]], [[1.0, 0.0]], 0.1, noise_std=1.0)
    assert len(nothing) == 0 and nothing.size_bound == 0  # no sample tells anything


def test_an_epsilon_out_of_reach_is_refused():
    with pytest.raises(ValueError, match=r"at_most=20 observations do not reach epsilon"):
        theory.markov_boundary([[1.0]], [[1.0]], 1e-6, noise_std=1.0, at_most=20)
    with pytest.raises(ValueError, match=r"takes one target.*got 2"):
        theory.markov_boundary([[1.0]], [[1.0], [2.0]], 0.1, noise_std=1.0)


@given(st.integers(0, 2**32 - 1), st.integers(1, 2), st.sampled_from([1.0, 2.0]))
@settings(max_examples=10, deadline=None)
def test_the_rounds_to_the_safe_optimum_equal_the_oracle(seed, n, epsilon):
    """Samples that hardly vary together, since the lemma's numbers are astronomic otherwise."""
    rng = np.random.default_rng(seed)
    K = np.diag([*rng.uniform(0.5, 1.0, n), 1.0])
    K[0, n] = K[n, 0] = rng.uniform(0.1, 0.5)
    noise_std = rng.uniform(0.8, 1.2, n)
    ask = {"kernel": tm.kernels.Precomputed(K), "noise_std": noise_std}
    found = theory.rounds_to_safe_optimum(np.arange(n), [n], epsilon, **ask)
    noise, samples = noise_std**2, K[:n, :n]
    noisy = (np.diag(samples) + noise).max()
    expected = oracle_theory.rounds_to_expand(samples, noise, epsilon, 1.0, noisy)
    assert found == (expected, (n + 1) * expected)
    weak = theory.rounds_to_safe_optimum(np.arange(n), [n, n], epsilon, rule="vtl", **ask)
    half = theory.rounds_to_safe_optimum(np.arange(n), [n], epsilon, ratio=0.5, **ask)
    assert weak == half and half > found
    if n == 1:  # whatever the rule, it picks this sample each time
        mean_noise = noise[0] / max(found[0], 1e-300)
        variance = 1.0 - K[0, 1] ** 2 / (K[0, 0] + mean_noise)
        floor = theory.irreducible_variance([0], [1], kernel=ask["kernel"]).value[0]
        assert np.sqrt(variance) <= np.sqrt(floor) + epsilon


def test_a_width_is_twice_what_the_lemma_on_expansion_prints():
    """A target that no sample tells about keeps u - l = 2 beta eta, and the lemma says beta."""
    ask = {"kernel": tm.kernels.Precomputed(np.eye(2)), "noise_std": 1.0}
    beta, epsilon = 3.0, 0.5
    eta = float(theory.irreducible_variance([0], [1], kernel=ask["kernel"]).value[0]) ** 0.5
    assert theory.rounds_to_safe_optimum([0], [1], epsilon, **ask)[0] < np.inf
    width = 2 * beta * eta  # the bounds mu +- beta sigma, after any number of observations
    assert beta * (eta + epsilon) < width <= 2 * beta * (eta + epsilon)
