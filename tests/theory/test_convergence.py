"""The convergence theorems, with their constants, on random problems."""

from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_problems import RULES, inside, kernels, noise_shares, rules, seeds, tiny

import oracle
import oracle_theory
import tellmost as tm
from tellmost import theory

some_rows = st.lists(st.integers(0, 3), max_size=5)


def ask(function, case, *more, **options):
    return function(case.pool, case.targets, *more, **case.arguments, **options)


@given(seeds, kernels, rules, noise_shares)
@settings(max_examples=25, deadline=None)
def test_marginal_gains_are_the_largest_of_each_step(seed, kernel, rule, noise):
    case = tiny(seed, kernel, noise_share=noise)
    gains = ask(theory.marginal_gains, case, 5, rule=rule)
    picks = case.select(5, rule, replace=True).indices.tolist()
    along = ask(theory.marginal_gains_along, case, picks, rule=rule)
    expected = oracle_theory.gains_along(case.oracle, picks, rule)
    np.testing.assert_allclose(along, expected, rtol=1e-6, atol=1e-11)
    np.testing.assert_allclose(gains, expected[:-1], rtol=1e-6, atol=1e-11)


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=8))
@settings(max_examples=50, deadline=None)
def test_the_task_complexity_of_every_prefix_equals_the_oracle(gains):
    found = theory.task_complexity(gains)
    expected = [oracle_theory.task_complexity(gains, n) for n in range(1, len(gains) + 1)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert np.all(found >= 1)


def test_the_task_complexity_is_one_while_gains_shrink_and_where_nothing_is_left():
    assert theory.task_complexity([3.0, 2.0, 2.0, 0.0, 0.0]).tolist() == [1, 1, 1, 1, 1]
    assert theory.task_complexity([2.0, 1.0, 4.0]).tolist() == [1, 1, 4]
    assert theory.task_complexity([0.0, 1.0])[1] == float("inf")


def test_a_synergy_shows_in_the_task_complexity():
    """The first sample tells little of the target, and makes the second tell much."""
    a = 0.7
    K = tm.kernels.Precomputed(np.array([[1, 0, a], [0, 1, a], [a, a, 1]]))
    gains = theory.marginal_gains([0, 1], [2], 2, kernel=K, noise_std=0.05)
    assert gains[1] > gains[0] and theory.task_complexity(gains)[1] == gains[1] / gains[0]


@pytest.mark.parametrize("rule", RULES)
@given(seed=seeds, kernel=kernels, noise=noise_shares, n=st.integers(1, 6))
@settings(max_examples=12, deadline=None)
def test_gains_stay_below_the_theorems_bound(rule, seed, kernel, noise, n):
    case = tiny(seed, kernel, noise_share=noise)
    found = ask(theory.gain_bound, case, n, rule=rule)
    assert found.gain == ask(theory.marginal_gains, case, n, rule=rule)[-1]
    assert found.gain <= found.bound * (1 + 1e-9)


@given(seed=seeds, kernel=kernels, n=st.integers(1, 4))
@settings(max_examples=10, deadline=None)
def test_the_bounds_on_gains_are_those_of_the_paper(seed, kernel, n):
    case = tiny(seed, kernel, n=3)
    bounds = {rule: ask(theory.gain_bound, case, n, rule=rule) for rule in RULES}
    alpha = {rule: found.complexity for rule, found in bounds.items()}
    expected = alpha["itl"] * oracle_theory.capacity(case.oracle, n) / n
    assert bounds["itl"].bound == pytest.approx(expected, rel=1e-7)
    each = [
        theory.information_capacity(case.pool, a[None], n, **case.arguments).value
        for a in case.targets
    ]
    sigma = max(case.oracle.K[a, a] for a in case.oracle.A)
    assert bounds["vtl"].bound == pytest.approx(2 * sigma * alpha["vtl"] * sum(each) / n)
    assert bounds["mm-itl"].bound == pytest.approx(alpha["mm-itl"] * sum(each) / n)


@given(seeds, kernels, noise_shares)
@settings(max_examples=10, deadline=None)
def test_gains_of_itl_shrink_where_every_sample_is_a_target(seed, kernel, noise):
    case = inside(tiny(seed, kernel, noise_share=noise))
    gains = ask(theory.marginal_gains, case, 8)
    assert np.all(np.diff(gains) <= 1e-9 * gains[0])


@given(seeds, kernels, rules, some_rows)
@settings(max_examples=40, deadline=None)
def test_variance_within_the_samples_is_bounded_by_the_gain_whatever_was_picked(
    seed, kernel, rule, picks
):
    case = inside(tiny(seed, kernel))
    gain = ask(theory.marginal_gains_along, case, picks, rule=rule)[-1]
    problem = case.oracle
    bound = theory.variance_bound_within(
        gain,
        rule=rule,
        prior_variance=np.diag(problem.K).max(),
        noise_variance=problem.noise.max(),
    )
    variance = np.diag(oracle.posterior(problem, picks))[: problem.n]
    assert variance.max() <= bound * (1 + 1e-9)


def test_the_bound_of_itl_is_false_for_vtl():
    """One point, prior and noise variance 1: variance 1/(n+1), gain 1/((n+1)(n+2))."""
    n = 3
    gain = theory.marginal_gains([[1.0]], [[1.0]], n + 1, rule="vtl", noise_std=1.0)[-1]
    assert gain == pytest.approx(1 / ((n + 1) * (n + 2)))
    variance = 1 / (n + 1)
    unit = {"prior_variance": 1.0, "noise_variance": 1.0}
    assert variance > theory.variance_bound_within(gain, rule="itl", **unit)
    assert variance == pytest.approx(theory.variance_bound_within(gain, rule="vtl", **unit))


@given(seeds, kernels, noise_shares, st.integers(1, 9))
@settings(max_examples=20, deadline=None)
def test_variance_of_targets_anywhere_is_bounded_for_itl(seed, kernel, noise, n):
    case = inside(tiny(seed, kernel, noise_share=noise, n=3))
    found = ask(theory.variance_bound, case, n)
    check_order(case, found)
    picks = case.select(n, "itl", replace=True).indices.tolist()
    expected = np.diag(oracle.posterior(case.oracle, picks))[case.oracle.A]
    np.testing.assert_allclose(found.variance, expected, atol=1e-9 * np.diag(case.oracle.K).max())


@pytest.mark.parametrize("rule", RULES)
@given(seed=seeds, kernel=kernels, n=st.integers(1, 4))
@settings(max_examples=8, deadline=None)
def test_with_the_exact_submodularity_ratio_it_is_for_every_rule(rule, seed, kernel, n):
    """D holds all n picks, so the ratio up to n of them is below the one that the proof needs."""
    case = tiny(seed, kernel, n=3)
    ratio = ask(theory.submodularity_ratio, case, n, rule=rule)
    assert ratio.is_exact
    check_order(case, ask(theory.variance_bound, case, n, rule=rule, ratio=ratio.value))


def check_order(case, found):
    scale = 1e-9 * np.diag(case.oracle.K).max()
    assert np.all(found.floor <= found.variance + scale)
    assert np.all(found.variance <= found.bound + scale)
    assert np.all(found.bound <= found.a_priori * (1 + 1e-9))
    assert np.all(found.reducible >= 0)


def test_the_bound_beyond_the_samples_has_the_constants_of_the_proof():
    x, a = np.array([[0.0], [1.0]]), np.array([[0.4], [2.5]])
    kernel, rho, n = tm.kernels.Gaussian(1.0), 0.5, 9
    found = theory.variance_bound(x, a, n, kernel=kernel, noise_std=rho)
    gain = theory.marginal_gains(x, a, n + 1, kernel=kernel, noise_std=rho)[-1]
    k, least = isqrt(n), 1 - np.exp(-0.5)  # the smaller eigenvalue
    c = 2 * 2 * 1.0 * (1 + rho**2) / least
    capacity = theory.information_capacity(x, None, k, kernel=kernel, noise_std=rho).value
    np.testing.assert_allclose(found.bound, found.floor + 2 * k * gain + c * capacity / k)


def test_the_bound_beyond_samples_of_a_singular_covariance_is_infinite():
    K = np.array([[1, 1, 0.5], [1, 1, 0.5], [0.5, 0.5, 1]])
    found = theory.variance_bound(
        [0, 1], [2, 0], 4, kernel=tm.kernels.Precomputed(K), noise_std=0.5
    )
    assert found.bound[0] == float("inf") and found.bound[1] < float("inf")


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kernel", ["linear", "gaussian", "matern"])
def test_variances_come_down_to_the_irreducible_ones(rule, kernel):
    case = tiny(1, kernel, n=3, m=2, noise_share=0.05)
    floor = theory.irreducible_variance(
        case.pool, case.targets, kernel=case.arguments["kernel"]
    ).value.mean()
    above = case.select(320, rule, replace=True).uncertainty - floor
    assert np.all(above >= -1e-12)
    assert above[320] < above[80] / 3 < above[20] / 9


def test_the_bound_on_errors_adds_standard_deviations():
    x = np.array([[0.0], [1.0]])
    ask = {"kernel": tm.kernels.Gaussian(1.0), "noise_std": 0.5}
    bound = theory.variance_bound(x, [[0.4]], 4, **ask)
    found = theory.error_bound(2.5, bound)
    assert found == pytest.approx(2.5 * (bound.floor**0.5 + (bound.bound - bound.floor) ** 0.5))
    assert np.all(found >= 2.5 * np.sqrt(bound.variance))
