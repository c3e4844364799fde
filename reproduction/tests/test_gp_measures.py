"""What is known after each observation, against the dense float64 version."""

import numpy as np
import pytest
from densely import as_problem

import oracle
from tellmost_reproduction.gp import measures as levels
from tellmost_reproduction.gp.measures import information_at, measure, observe
from tellmost_reproduction.gp.settings import settings

SMALL = settings(14)
NAMES = ("gp-fig3", "gp-extrapolation-laplace", "gp-heteroscedastic")


def some_picks(setting, count=12):
    return np.random.default_rng(0).integers(len(setting.samples), size=count)


@pytest.mark.parametrize("name", NAMES)
def test_variances_are_those_of_the_dense_posterior(name):
    setting = SMALL[name]
    problem, picks = as_problem(setting), some_picks(setting)
    known = measure(setting, picks, range(1))
    for t in (0, 1, 5, 12):
        variance = np.diag(oracle.posterior(problem, picks[:t].tolist()))[problem.A]
        assert known.mean_sd[t] == pytest.approx(np.sqrt(variance).mean(), rel=1e-9)
        assert known.max_sd[t] == pytest.approx(np.sqrt(variance).max(), rel=1e-9)
        assert known.mean_variance[t] == pytest.approx(variance.mean(), rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_fall_of_entropy_is_the_mutual_information(name):
    setting = SMALL[name]
    problem, picks = as_problem(setting), some_picks(setting)
    known = measure(setting, picks, range(1))
    assert known.information[0] == known.information_y[0] == 0.0
    for t in (1, 5, 12):
        expected = oracle.mutual_information(problem, picks[:t].tolist())
        assert known.information[t] == pytest.approx(expected, rel=1e-6)


def test_the_entropy_of_y_is_that_of_noisy_targets():
    """By log-determinants of the joint covariance of both sets of observations."""
    setting = SMALL["gp-fig3"]
    problem, picks = as_problem(setting), some_picks(setting)
    A, both = problem.A, [*picks, *problem.A]
    parts = [problem.K[np.ix_(rows, rows)] + 0.01 * np.eye(len(rows)) for rows in (picks, A, both)]
    one, other, joint = (np.linalg.slogdet(part)[1] for part in parts)
    known = measure(setting, picks, range(1))
    assert known.information_y[-1] == pytest.approx(0.5 * (one + other - joint), rel=1e-8)


def test_a_finer_tolerance_never_counts_less_information():
    setting = SMALL["gp-fig3"]
    picks = some_picks(setting)
    falls = [information_at(setting, picks, cut)[-1] for cut in (1e-2, 1e-6, 1e-10)]
    assert falls == sorted(falls) and falls[0] < falls[-1]


@pytest.mark.parametrize("name", NAMES)
def test_errors_are_those_of_the_dense_posterior_mean(name):
    setting = SMALL[name]
    problem, picks = as_problem(setting), some_picks(setting)
    y, truth = observe(setting, picks, 7), setting.draw(7)[setting.targets]
    known = measure(setting, picks, range(7, 8))
    for t in (0, 4, 12):
        rows = picks[:t]
        K = problem.K[np.ix_(rows, rows)] + np.diag(problem.noise[rows])
        mean = problem.K[np.ix_(problem.A, rows)] @ np.linalg.solve(K, y[:t])
        expected = np.sqrt(np.mean((truth - mean) ** 2))
        assert known.rmse[0, t] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["gp-extrapolation", "gp-extrapolation-laplace"])
def test_levels_are_what_noiseless_observations_leave(name):
    setting = SMALL[name]
    problem = as_problem(setting)
    floor = np.sqrt(np.maximum(oracle.floor(problem), 0.0))
    np.testing.assert_allclose(levels.irreducible(setting), floor, atol=1e-6)
    inside = np.flatnonzero(setting.is_target)
    left = np.diag(oracle.condition_exactly(problem.K, inside))[problem.A]
    expected = np.sqrt(np.maximum(left, 0.0))
    np.testing.assert_allclose(levels.local_level(setting), expected, atol=1e-5)


def test_nothing_is_irreducible_where_all_targets_may_be_observed():
    assert not levels.irreducible(SMALL["gp-fig3"]).any()
