"""Logistic regression: scikit-learn's answer, whatever the shape of the problem."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from tellmost.evaluation.probes import fit_logistic


def problem(n, d, classes, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(classes), rng.integers(classes, size=n - classes)])
    centres = rng.standard_normal((classes, d))
    X = (spread * centres[y] + rng.standard_normal((n, d))) / np.sqrt(d)
    return X + 0.3, y


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize(("n", "d"), [(60, 5), (20, 50), (200, 12)])
@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_probabilities_are_those_of_scikit_learn(n, d, classes, C):
    X, y = problem(n, d, classes)
    expected = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(X, y).predict_proba(X)
    fitted = fit_logistic(torch.from_numpy(X), torch.from_numpy(y), classes, C=C)
    np.testing.assert_allclose(fitted.probabilities(torch.from_numpy(X)), expected, atol=1e-4)


def test_the_same_problem_gives_the_same_bits():
    X, y = (torch.from_numpy(part) for part in problem(80, 6, 3))
    first, second = (fit_logistic(X, y, 3, C=1.0) for _ in range(2))
    assert torch.equal(first.weights, second.weights)


def test_a_single_class_is_always_predicted():
    X = torch.from_numpy(problem(10, 3, 2)[0])
    fitted = fit_logistic(X, torch.full((10,), 4), 6, C=1.0)
    assert fitted.predict(X).tolist() == [4] * 10
    assert fitted.probabilities(X)[:, 4].tolist() == [1.0] * 10


def test_classes_without_rows_are_never_predicted():
    X, y = problem(40, 4, 3)
    names = torch.tensor([1, 3, 8])[torch.from_numpy(y)]
    fitted = fit_logistic(torch.from_numpy(X), names, 10, C=1.0)
    alone = fit_logistic(torch.from_numpy(X), torch.from_numpy(y), 3, C=1.0)
    points = torch.from_numpy(X)
    torch.testing.assert_close(
        fitted.probabilities(points)[:, [1, 3, 8]], alone.probabilities(points)
    )
    assert set(fitted.predict(points).tolist()) <= {1, 3, 8}


def test_one_row_of_each_class_is_enough():
    X = torch.eye(3, dtype=torch.float64)
    fitted = fit_logistic(X, torch.arange(3), 3, C=10.0)
    assert fitted.predict(X).tolist() == [0, 1, 2]


def test_works_where_gradients_are_off():
    X, y = (torch.from_numpy(part) for part in problem(30, 4, 3))
    with torch.inference_mode():
        inside = fit_logistic(X, y, 3, C=1.0)
    assert torch.equal(inside.weights, fit_logistic(X, y, 3, C=1.0).weights)
