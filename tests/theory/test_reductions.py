"""What sets of observations tell: monotone, never negative, redundant or synergistic."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle_theory
import tellmost as tm
from tellmost import theory
from tiny_problems import RULES, inside, kernels, noise_shares, rules, seeds, tiny

some_rows = st.lists(st.integers(0, 3), max_size=4)


def reduction(case, picks, rule="itl", given=()):
    return theory.uncertainty_reduction(
        case.pool, case.targets, picks, rule=rule, given=given, **case.arguments
    )


@given(seeds, kernels, rules, noise_shares, some_rows, some_rows)
@settings(max_examples=60, deadline=None)
def test_reductions_equal_the_oracle(seed, kernel, rule, noise, picks, known):
    case = tiny(seed, kernel, noise_share=noise)
    expected = oracle_theory.reduction(case.oracle, picks, rule, known)
    assert reduction(case, picks, rule, known) == pytest.approx(expected, rel=1e-8, abs=1e-11)


@given(seeds, noise_shares, st.lists(st.integers(0, 3), min_size=1, max_size=4))
@settings(max_examples=20, deadline=None)
def test_information_is_the_entropy_that_the_targets_lose(seed, noise, picks):
    case = tiny(seed, "matern", noise_share=noise)
    expected = oracle_theory.entropy_difference(case.oracle, picks)
    assert reduction(case, picks) == pytest.approx(expected, rel=1e-8)


@given(seeds, kernels, rules, some_rows, st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_reductions_are_monotone_and_never_negative(seed, kernel, rule, picks, more):
    case = tiny(seed, kernel)
    less = reduction(case, picks, rule)
    assert less >= 0
    assert reduction(case, [*picks, more], rule) >= less - 1e-12


@given(seeds, kernels, some_rows, some_rows, st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_itl_is_submodular_where_every_sample_is_a_target(seed, kernel, picks, more, row):
    case = inside(tiny(seed, kernel))
    small = reduction(case, [row], given=picks)
    large = reduction(case, [row], given=[*picks, *more])
    assert small >= large - 1e-9


def test_itl_is_not_submodular_elsewhere():
    """Two uncorrelated samples whose sum is the target: the paper's Gaussian example."""
    a, noise = 0.6, 0.1
    K = tm.kernels.Precomputed(np.array([[1, 0, a], [0, 1, a], [a, a, 1]]))
    ask = {"kernel": K, "noise_std": noise}
    pool, target = np.array([0, 1]), np.array([2])
    alone = theory.uncertainty_reduction(pool, target, [1], **ask)
    after = theory.uncertainty_reduction(pool, target, [1], given=[0], **ask)
    squared = a**2 / (1 + noise**2)
    assert alone == pytest.approx(-0.5 * np.log1p(-squared))
    assert after == pytest.approx(-0.5 * np.log(1 - 2 * squared) - alone)
    assert after > alone


@pytest.mark.parametrize("a", [0.3, 0.6, 0.7, 0.707])
def test_uncorrelated_gaussians_can_be_as_synergistic_as_you_like(a):
    K = tm.kernels.Precomputed(np.array([[1, 0, a], [0, 1, a], [a, a, 1]]))
    ask = {"kernel": K, "noise_std": 1e-5}
    found = theory.multivariate_information([0, 1], [2], [0, 1], **ask)
    ratio = theory.information_ratio([0, 1], [2], [0, 1], **ask)
    expected = np.log(1 - 2 * a**2 + a**4) / np.log(1 - 2 * a**2)
    assert found.is_synergistic and not found.is_redundant
    assert ratio == pytest.approx(expected, rel=1e-6) and ratio == pytest.approx(found.ratio)
    assert ratio < 1 and (a < 0.707 or ratio < 0.2)


@given(seeds, kernels, some_rows)
@settings(max_examples=30, deadline=None)
def test_multivariate_information_is_what_the_chain_rule_leaves(seed, kernel, known):
    """I(f; y; z) = I(f; y) - I(f; y | z), for vectors y and z."""
    case = tiny(seed, kernel)
    y, z = [0, 1], [2, 2]
    found = theory.multivariate_information(
        case.pool, case.targets, [y, z], given=known, **case.arguments
    )
    first = oracle_theory.reduction(case.oracle, y, "itl", known)
    given_z = oracle_theory.reduction(case.oracle, y, "itl", [*known, *z])
    assert found.value == pytest.approx(first - given_z, abs=1e-9)


def test_observing_a_point_again_is_redundant_and_more_than_two_parts_may_be_asked_for():
    x = np.array([[0.0], [0.5], [3.0]])
    ask = {"kernel": tm.kernels.Gaussian(1.0), "noise_std": 0.1}
    found = theory.multivariate_information(x, [[0.2]], [0, 0, 1], **ask)
    assert found.is_redundant and found.ratio > 1
    assert len(found.apart) == 3 and found.apart[0] == found.apart[1]
    nothing = theory.multivariate_information(x, [[100.0]], [0, 1], **ask)
    assert not nothing.is_redundant and not nothing.is_synergistic and nothing.ratio == 1


@given(seeds, kernels, rules, st.lists(st.integers(0, 3), min_size=1, max_size=3), some_rows)
@settings(max_examples=40, deadline=None)
def test_information_ratios_equal_the_oracle(seed, kernel, rule, picks, known):
    case = tiny(seed, kernel)
    found = theory.information_ratio(
        case.pool, case.targets, picks, rule=rule, given=known, **case.arguments
    )
    expected = oracle_theory.information_ratio(case.oracle, picks, rule, known)
    assert found == pytest.approx(expected, rel=1e-6)
    assert found > 0


@pytest.mark.parametrize("rule", RULES)
@given(seed=seeds, kernel=kernels)
@settings(max_examples=6, deadline=None)
def test_the_submodularity_ratio_equals_the_oracle(rule, seed, kernel):
    case = tiny(seed, kernel, n=3)
    found = theory.submodularity_ratio(case.pool, case.targets, 3, rule=rule, **case.arguments)
    picks = case.select(3, rule, replace=True).indices.tolist()
    expected = min(oracle_theory.submodularity_ratio(case.oracle, picks, rule), 1.0)
    assert found.is_exact and found.value == pytest.approx(expected, rel=1e-6)
    there = theory.information_ratio(
        case.pool, case.targets, found.subset, rule=rule, given=found.given, **case.arguments
    )
    assert there == pytest.approx(found.value, rel=1e-6)


@given(seeds, kernels, rules)
@settings(max_examples=6, deadline=None)
def test_the_submodularity_ratio_of_sets_equals_the_oracle_and_is_no_smaller(seed, kernel, rule):
    case = tiny(seed, kernel)
    ask = (case.pool, case.targets, 3)
    found = theory.submodularity_ratio(*ask, rule=rule, repeats=False, **case.arguments)
    picks = case.select(3, rule, replace=True).indices.tolist()
    expected = min(oracle_theory.submodularity_ratio_of_sets(case.oracle, picks, rule), 1.0)
    assert found.is_exact and found.value == pytest.approx(expected, rel=1e-6)
    assert not set(found.subset) & set(found.given)
    assert len(set(found.subset)) == len(found.subset)
    with pytest.raises(ValueError, match="of multisets"):
        theory.information_capacity(*ask, ratio=found, **case.arguments)
    multisets = theory.submodularity_ratio(*ask, rule=rule, **case.arguments)
    assert multisets.value <= found.value * (1 + 1e-9)
    drawn = {"rule": rule, "repeats": False, "method": "sampled", "draws": 20}
    assert theory.submodularity_ratio(*ask, **drawn, **case.arguments).value >= found.value - 1e-9


@given(seeds, kernels)
@settings(max_examples=8, deadline=None)
def test_a_sampled_submodularity_ratio_is_an_upper_bound(seed, kernel):
    case = tiny(seed, kernel)
    ask = (case.pool, case.targets, 3)
    exact = theory.submodularity_ratio(*ask, method="exact", **case.arguments)
    drawn = theory.submodularity_ratio(*ask, method="sampled", draws=20, **case.arguments)
    again = theory.submodularity_ratio(*ask, method="sampled", draws=20, **case.arguments)
    assert exact.value - 1e-9 <= drawn.value == again.value <= 1
    assert not drawn.is_exact


@given(seeds, kernels)
@settings(max_examples=8, deadline=None)
def test_the_submodularity_ratio_is_one_where_every_sample_is_a_target(seed, kernel):
    case = inside(tiny(seed, kernel, n=3))
    found = theory.submodularity_ratio(case.pool, case.targets, 3, **case.arguments)
    assert found.value == pytest.approx(1.0, abs=1e-9)


def test_large_sample_spaces_are_sampled_unless_an_exact_ratio_is_asked_for():
    x = np.random.default_rng(0).standard_normal((40, 2))
    ask = {"kernel": tm.kernels.Gaussian(1.0), "noise_std": 0.5}
    assert not theory.submodularity_ratio(x, x[:2], 6, draws=20, **ask).is_exact
    with pytest.raises(ValueError, match=r"tries every pair of sets.*sampled"):
        theory.submodularity_ratio(x, x[:2], 6, method="exact", **ask)
