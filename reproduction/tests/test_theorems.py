"""The convergence theorems, with their constants, on random problems."""

from math import exp, isqrt, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import oracle_theory
import tellmost as tm
from tellmost import theory
from tellmost_reproduction import theorems
from tiny_problems import RULES, inside, kernels, noise_shares, rules, seeds, tiny

some_rows = st.lists(st.integers(0, 3), max_size=5)


def ask(function, case, *more, **options):
    return function(case.pool, case.targets, *more, **case.arguments, **options)


@pytest.mark.parametrize("rule", RULES)
@given(seed=seeds, kernel=kernels, noise=noise_shares, n=st.integers(1, 6))
@settings(max_examples=12, deadline=None)
def test_gains_stay_below_the_theorems_bound(rule, seed, kernel, noise, n):
    case = tiny(seed, kernel, noise_share=noise)
    found = ask(theorems.gain_bound, case, n, rule=rule)
    assert found.gain == ask(theory.marginal_gains, case, n, rule=rule)[-1]
    assert found.gain <= found.bound * (1 + 1e-9)


@given(seed=seeds, kernel=kernels, n=st.integers(1, 4))
@settings(max_examples=10, deadline=None)
def test_the_bounds_on_gains_are_those_of_the_paper(seed, kernel, n):
    case = tiny(seed, kernel, n=3)
    bounds = {rule: ask(theorems.gain_bound, case, n, rule=rule) for rule in RULES}
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


@given(seeds, kernels, rules, some_rows)
@settings(max_examples=40, deadline=None)
def test_variance_within_the_samples_is_bounded_by_the_gain_whatever_was_picked(
    seed, kernel, rule, picks
):
    case = inside(tiny(seed, kernel))
    gain = ask(theory.marginal_gains_along, case, picks, rule=rule)[-1]
    problem = case.oracle
    bound = theorems.variance_bound_within(
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
    assert variance > theorems.variance_bound_within(gain, rule="itl", **unit)
    assert variance == pytest.approx(theorems.variance_bound_within(gain, rule="vtl", **unit))


@given(seeds, kernels, noise_shares, st.integers(1, 9))
@settings(max_examples=20, deadline=None)
def test_variance_of_targets_anywhere_is_bounded_for_itl(seed, kernel, noise, n):
    case = inside(tiny(seed, kernel, noise_share=noise, n=3))
    found = ask(theorems.variance_bound, case, n)
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
    check_order(case, ask(theorems.variance_bound, case, n, rule=rule, ratio=ratio.value))


def check_order(case, found):
    scale = 1e-9 * np.diag(case.oracle.K).max()
    assert np.all(found.floor <= found.variance + scale)
    assert np.all(found.variance <= found.bound + scale)
    assert np.all(found.bound <= found.a_priori * (1 + 1e-9))
    assert np.all(found.reducible >= 0)


def test_the_bound_beyond_the_samples_has_the_constants_of_the_proof():
    x, a = np.array([[0.0], [1.0]]), np.array([[0.4], [2.5]])
    kernel, rho, n = tm.kernels.Gaussian(1.0), 0.5, 9
    found = theorems.variance_bound(x, a, n, kernel=kernel, noise_std=rho)
    gain = theory.marginal_gains(x, a, n + 1, kernel=kernel, noise_std=rho)[-1]
    k, least = isqrt(n), 1 - np.exp(-0.5)  # the smaller eigenvalue
    c = 2 * 2 * 1.0 * (1 + rho**2) / least
    capacity = theory.information_capacity(x, None, k, kernel=kernel, noise_std=rho).value
    np.testing.assert_allclose(found.bound, found.floor + 2 * k * gain + c * capacity / k)


def test_the_bound_beyond_samples_of_a_singular_covariance_is_infinite():
    K = np.array([[1, 1, 0.5], [1, 1, 0.5], [0.5, 0.5, 1]])
    found = theorems.variance_bound(
        [0, 1], [2, 0], 4, kernel=tm.kernels.Precomputed(K), noise_std=0.5
    )
    assert found.bound[0] == float("inf") and found.bound[1] < float("inf")


def test_the_bound_on_errors_adds_standard_deviations():
    x = np.array([[0.0], [1.0]])
    ask = {"kernel": tm.kernels.Gaussian(1.0), "noise_std": 0.5}
    bound = theorems.variance_bound(x, [[0.4]], 4, **ask)
    found = theorems.error_bound(2.5, bound)
    assert found == pytest.approx(2.5 * (bound.floor**0.5 + (bound.bound - bound.floor) ** 0.5))
    assert np.all(found >= 2.5 * np.sqrt(bound.variance))


def test_the_rates_are_those_of_the_papers_table():
    d, n = 3, 1000
    L = log(n)
    table = {
        tm.kernels.Linear(): d * L,
        tm.kernels.Gaussian(0.5): L ** (d + 1),
        tm.kernels.Laplace(2.0): n ** (3 / 4) * L ** (1 / 4),
        tm.kernels.Matern(2.5): n ** (3 / 8) * L ** (5 / 8),
    }
    for kernel, expected in table.items():
        rate = theorems.capacity_rate(kernel, d)
        assert rate.at(n) == pytest.approx(expected) and rate.is_sublinear
        assert theorems.capacity_rate(tm.kernels.Scaled(kernel, 3.0), d) == rate
    assert theorems.capacity_rate(tm.kernels.Matern(0.5), d) == theorems.capacity_rate(
        tm.kernels.Laplace(), d
    )
    assert str(theorems.capacity_rate(tm.kernels.Matern(2.5), d)) == "n^0.375 log(n)^0.625"


def test_only_smooth_kernels_are_sure_to_reach_the_floor_beyond_the_samples():
    reaches = [theorems.capacity_rate(tm.kernels.Matern(nu), 2).is_below_root for nu in (0.5, 1.5)]
    assert reaches == [False, True]  # 2 nu > d


def test_kernels_outside_the_table_need_a_finite_domain():
    kernel = tm.kernels.Sum(tm.kernels.Gaussian(), tm.kernels.Linear())
    with pytest.raises(ValueError, match=r"no rate is known.*Give size"):
        theorems.capacity_rate(kernel, 2)
    assert theorems.capacity_rate(kernel, 2, size=7).at(100) == pytest.approx(7 * log(100))


@pytest.mark.parametrize("kernel", [tm.kernels.Linear(), tm.kernels.Gaussian(0.3)])
def test_capacities_grow_no_faster_than_their_rate(kernel):
    """On a grid of the unit interval, from 10 to 300 observations."""
    x = np.linspace(0, 1, 40)[:, None]
    rate = theorems.capacity_rate(kernel, 1)
    values = [
        theory.information_capacity(
            x, None, n, kernel=kernel, noise_std=0.3, method="greedy"
        ).value
        / rate.at(n)
        for n in (10, 50, 300)
    ]
    assert values[2] < 1.5 * values[0]


@given(st.integers(1, 60), st.integers(1, 8), st.floats(0.01, 1.0))
@settings(max_examples=40, deadline=None)
def test_few_rounds_near_a_point_are_as_rare_as_the_bound_says(n, size, weight):
    found = theorems.stochastic_target_bound(n, size=size, weight=weight)
    share = 1 - (1 - weight) ** size
    assert found.share == pytest.approx(share)
    few = sum(binomial(n, i, share) for i in range(n + 1) if i < found.rounds)
    assert few <= found.failure + 1e-12


def binomial(n: int, i: int, p: float) -> float:
    from math import comb

    return comb(n, i) * p**i * (1 - p) ** (n - i)


def test_the_papers_approximation_promises_rounds_that_do_not_exist():
    found = theorems.stochastic_target_bound(20, size=10, weight=0.3)
    assert found.approximate_rounds == 30 > 20 >= found.rounds  # K p n / 2
    assert found.approximate_failure == pytest.approx(exp(-10 * 0.3 * 20 / 8))
    assert found.approximate_failure < found.failure
    small = theorems.stochastic_target_bound(1000, size=2, weight=1e-4)
    assert small.failure == pytest.approx(small.approximate_failure, rel=1e-4)


def test_more_targets_and_heavier_balls_fail_less():
    """As the proposition is printed, exp(-(1-p) n / (8 K)), they would fail more."""
    few, more = (theorems.stochastic_target_bound(50, size=K, weight=0.1) for K in (1, 5))
    heavy = theorems.stochastic_target_bound(50, size=1, weight=0.5)
    assert more.failure < few.failure and heavy.failure < few.failure
    assert theorems.stochastic_target_bound(8, size=1, weight=1.0).failure == pytest.approx(
        exp(-1)
    )


def test_the_sketched_variance_falls_with_the_root_of_the_rounds():
    bound = theorems.stochastic_target_bound(200, size=1, weight=0.5)
    found = bound.reducible(2.0, constant=3.0, lipschitz=0.5, radius=0.1)
    assert found == pytest.approx(3 * 0.5 * 0.1 * 2 / sqrt(50))
    with pytest.raises(ValueError, match="weight is the probability of a ball"):
        theorems.stochastic_target_bound(10, size=1, weight=1.5)


x, a = np.array([[0.0], [1.0], [2.0]]), np.array([[0.5], [3.0]])
ASK = {"kernel": tm.kernels.Gaussian(1.0), "noise_std": 0.5}


@pytest.mark.parametrize("targets", [None, x[:1], a[:1], x], ids=["own", "{x}", "{a}", "A=S"])
@pytest.mark.parametrize("pool", [x[:1], x, x[[0, 0, 1]]], ids=["one", "three", "repeated"])
@pytest.mark.parametrize("bound", [theorems.gain_bound, theorems.variance_bound])
def test_small_and_repeated_sample_spaces_have_bounds(bound, pool, targets):
    for value in vars(bound(pool, targets, 3, **ASK)).values():
        assert not np.isnan(value).any() and np.all(np.asarray(value) >= 0)


@pytest.mark.parametrize("bound", [theorems.gain_bound, theorems.variance_bound])
def test_a_matrix_may_stand_for_the_kernel(bound):
    both = np.concatenate([x, a])
    K = tm.kernels.Precomputed(np.exp(-0.5 * (both - both.T) ** 2))
    found = vars(bound(np.arange(3), np.arange(3, 5), 3, kernel=K, noise_std=0.5))
    for name, value in vars(bound(x, a, 3, **ASK)).items():
        np.testing.assert_allclose(found[name], value, rtol=1e-8)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="noise_std must be"):
        theorems.gain_bound(x, a, 3, kernel=ASK["kernel"], noise_std=0.0)
    with pytest.raises(ValueError, match="ratio must be"):
        theorems.variance_bound(x, a, 2, ratio=0, **ASK)
    with pytest.raises(TypeError, match="the class itself"):
        theorems.capacity_rate(tm.kernels.Gaussian, 2)


def test_targets_that_no_sample_tells_about_have_no_gain():
    for rule in RULES:
        assert theorems.gain_bound(x, np.array([[1e3]]), 3, rule=rule, **ASK).gain == 0
