"""Logistic regression gives scikit-learn's answer, whatever the shape of the problem.

Of Bayesian linear regression the evidence is a normal density, and it finds the noise.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import oracle
from tellmost.evaluation.probes import LARGEST_NOISE_RATIO, fit_logistic, fit_ridge


def classes_around_centres(n, d, classes, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(classes), rng.integers(classes, size=n - classes)])
    centres = rng.standard_normal((classes, d))
    X = (spread * centres[y] + rng.standard_normal((n, d))) / np.sqrt(d)
    return X + 0.3, y


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize(("n", "d"), [(60, 5), (20, 50), (200, 12)])
@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_probabilities_are_those_of_scikit_learn(n, d, classes, C):
    X, y = classes_around_centres(n, d, classes)
    expected = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(X, y).predict_proba(X)
    fitted = fit_logistic(torch.from_numpy(X), torch.from_numpy(y), classes, C=C)
    np.testing.assert_allclose(
        fitted.scores(torch.from_numpy(X)).softmax(dim=1), expected, atol=1e-4
    )


def test_the_same_problem_gives_the_same_bits():
    X, y = (torch.from_numpy(part) for part in classes_around_centres(80, 6, 3))
    first, second = (fit_logistic(X, y, 3, C=1.0) for _ in range(2))
    assert torch.equal(first.weights, second.weights)


def test_a_single_class_is_always_predicted():
    X = torch.from_numpy(classes_around_centres(10, 3, 2)[0])
    fitted = fit_logistic(X, torch.full((10,), 4), 6, C=1.0)
    assert fitted.predict(X).tolist() == [4] * 10
    assert fitted.scores(X).softmax(dim=1)[:, 4].tolist() == [1.0] * 10


def test_classes_without_rows_are_never_predicted():
    X, y = classes_around_centres(40, 4, 3)
    names = torch.tensor([1, 3, 8])[torch.from_numpy(y)]
    fitted = fit_logistic(torch.from_numpy(X), names, 10, C=1.0)
    alone = fit_logistic(torch.from_numpy(X), torch.from_numpy(y), 3, C=1.0)
    points = torch.from_numpy(X)
    torch.testing.assert_close(
        fitted.scores(points).softmax(dim=1)[:, [1, 3, 8]],
        alone.scores(points).softmax(dim=1),
    )
    assert set(fitted.predict(points).tolist()) <= {1, 3, 8}


def test_one_row_of_each_class_is_enough():
    X = torch.eye(3, dtype=torch.float64)
    fitted = fit_logistic(X, torch.arange(3), 3, C=10.0)
    assert fitted.predict(X).tolist() == [0, 1, 2]


def test_works_where_gradients_are_off():
    X, y = (torch.from_numpy(part) for part in classes_around_centres(30, 4, 3))
    with torch.inference_mode():
        inside = fit_logistic(X, y, 3, C=1.0)
    assert torch.equal(inside.weights, fit_logistic(X, y, 3, C=1.0).weights)


def linear_world(n, d, outputs, seed, noise_ratio=0.5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) / np.sqrt(d)
    noise = np.sqrt(noise_ratio) * rng.standard_normal((n, outputs))
    return X, X @ rng.standard_normal((d, outputs)) + noise


def fit(X, Y, **more):
    return fit_ridge(torch.from_numpy(X), torch.from_numpy(Y), **more)


@settings(deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 12),
    st.integers(1, 12),
    st.integers(1, 3),
    st.floats(-3, 3),
)
def test_the_evidence_is_the_density_at_the_best_scale(seed, n, d, outputs, exponent):
    X, Y = linear_world(n, d, outputs, seed)
    fitted = fit(X, Y, noise_ratio=10**exponent)
    K = X @ X.T
    lam = 10**exponent * np.trace(K) / n
    at = [oracle.log_evidence(K, Y, s, s * lam) for s in fitted.scale * np.array([1, 0.9, 1.1])]
    assert fitted.log_evidence == pytest.approx(at[0], rel=1e-6, abs=1e-6)
    assert at[0] >= max(at)


@pytest.mark.parametrize(("n", "d"), [(30, 8), (8, 30)])
def test_mean_and_variance_are_those_of_the_dense_posterior(n, d):
    X, Y = linear_world(n, d, 2, seed=1)
    fitted = fit(X, Y, noise_ratio=0.7)
    Z = np.random.default_rng(9).standard_normal((5, d))
    lam = 0.7 * np.mean(np.sum(X**2, axis=1))
    solved = np.linalg.solve(X @ X.T + lam * np.eye(n), np.c_[Y, X @ Z.T])
    np.testing.assert_allclose(fitted.predict(torch.from_numpy(Z)), Z @ X.T @ solved[:, :2])
    variance = np.sum(Z**2, axis=1) - np.diag(Z @ X.T @ solved[:, 2:])
    np.testing.assert_allclose(fitted.variance(torch.from_numpy(Z)), fitted.scale * variance)


@pytest.mark.parametrize("ratio", [0.01, 0.3, 10.0])
def test_a_known_ratio_is_recovered(ratio):
    found = [fit(*linear_world(400, 40, 5, seed, ratio)).noise_ratio for seed in range(5)]
    assert np.exp(np.mean(np.log(found))) == pytest.approx(ratio, rel=0.15)


def test_no_other_ratio_has_a_larger_evidence():
    X, Y = linear_world(50, 20, 2, seed=3)
    best = fit(X, Y)
    others = [fit(X, Y, noise_ratio=r).log_evidence for r in np.logspace(-5, 5, 101)]
    assert best.log_evidence >= max(others) - 1e-9
    assert not best.is_at_edge


def test_pure_noise_goes_to_the_edge_or_near_it():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((300, 30)), rng.standard_normal((300, 1))
    assert fit(X, Y).noise_ratio > 10


@pytest.mark.parametrize("X", [np.ones((4, 3)), np.zeros((4, 3))])
def test_outputs_of_zero_teach_nothing(X):
    fitted = fit(X, np.zeros((4, 1)))
    points = torch.randn(3, 3, dtype=torch.float64)
    assert fitted.predict(points).tolist() == [[0.0]] * 3
    assert fitted.variance(points).tolist() == [0.0] * 3
    assert fitted.noise_ratio == LARGEST_NOISE_RATIO


def test_zero_rows_teach_nothing():
    fitted = fit(np.zeros((4, 3)), np.arange(4.0)[:, None])
    assert fitted.predict(torch.ones(2, 3, dtype=torch.float64)).tolist() == [[0.0]] * 2


def test_one_row_is_enough_to_go_on():
    fitted = fit(np.ones((1, 3)), np.ones((1, 2)))
    assert torch.isfinite(fitted.weights).all()
