"""The gains of a rule and the complexity of a task, against the oracle on random problems."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle_theory
import tellmost as tm
from tellmost import theory
from tiny_problems import RULES, inside, kernels, noise_shares, rules, seeds, tiny

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


@given(seeds, kernels, noise_shares)
@settings(max_examples=10, deadline=None)
def test_gains_of_itl_shrink_where_every_sample_is_a_target(seed, kernel, noise):
    case = inside(tiny(seed, kernel, noise_share=noise))
    gains = ask(theory.marginal_gains, case, 8)
    assert np.all(np.diff(gains) <= 1e-9 * gains[0])


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
