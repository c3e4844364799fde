"""Information capacities: exact where everything can be tried, bounded on both sides elsewhere."""

from dataclasses import replace
from math import e, exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle_theory
from tellmost import theory
from tellmost.theory.setting import ENUMERATED
from tiny_problems import inside, kernels, noise_shares, repeated, seeds, tiny


def capacity(case, n, **more):
    return theory.information_capacity(case.pool, case.targets, n, **case.arguments, **more)


@given(seeds, kernels, noise_shares, st.integers(1, 3), st.booleans())
@settings(max_examples=25, deadline=None)
def test_exact_capacities_equal_the_oracle(seed, kernel, noise, n, has_repeated):
    case = tiny(seed, kernel, noise_share=noise, n=3)
    case = repeated(case) if has_repeated else case
    found = capacity(case, n)
    assert found.is_exact and found.value == found.upper
    assert found.value == pytest.approx(oracle_theory.capacity(case.oracle, n), rel=1e-8)
    by_subset = oracle_theory.reduction(case.oracle, found.subset, "itl")
    assert by_subset == pytest.approx(found.value, rel=1e-8)


@given(seeds, kernels, noise_shares, st.integers(1, 4), st.booleans())
@settings(max_examples=25, deadline=None)
def test_greedy_capacities_enclose_the_exact_one(seed, kernel, noise, n, samples_are_targets):
    case = tiny(seed, kernel, noise_share=noise)
    case = inside(case) if samples_are_targets else case
    exact, greedy = capacity(case, n, method="exact"), capacity(case, n, method="greedy")
    assert greedy.value <= exact.value * (1 + 1e-9) and exact.value <= greedy.upper * (1 + 1e-9)
    assert greedy.is_of_samples == exact.is_of_samples == samples_are_targets
    if samples_are_targets:
        assert "1 - 1/e" in greedy.guarantee
        assert greedy.value >= (1 - 1 / e) * exact.value
    else:
        assert "no known share" in greedy.guarantee


@given(seeds, kernels, noise_shares)
@settings(max_examples=10, deadline=None)
def test_with_the_exact_submodularity_ratio_greedy_has_a_guarantee(seed, kernel, noise):
    case = tiny(seed, kernel, noise_share=noise, n=3)
    ratio = theory.submodularity_ratio(case.pool, case.targets, 3, **case.arguments)
    greedy, exact = capacity(case, 3, method="greedy", ratio=ratio), capacity(case, 3)
    assert "1 - exp(-kappa)" in greedy.guarantee
    assert greedy.value >= (1 - exp(-ratio.value)) * exact.value * (1 - 1e-9)
    assert exact.value <= greedy.upper * (1 + 1e-9)
    assert greedy.upper <= greedy.value / (1 - exp(-ratio.value)) * (1 + 1e-9)


def test_a_ratio_that_guarantees_nothing_is_refused():
    case = tiny(0, "gaussian")
    drawn = theory.submodularity_ratio(
        case.pool, case.targets, 2, method="sampled", draws=3, **case.arguments
    )
    with pytest.raises(ValueError, match="exact submodularity_ratio"):
        capacity(case, 2, ratio=drawn)
    with pytest.raises(ValueError, match="n=3 and a ratio of 2"):
        capacity(case, 3, ratio=replace(drawn, is_exact=True))


@given(seeds, kernels, st.integers(1, 4))
@settings(max_examples=15, deadline=None)
def test_capacities_obey_data_processing_and_grow_ever_slower(seed, kernel, n):
    case = tiny(seed, kernel)
    own = replace(case, targets=None)
    assert capacity(case, n).value <= capacity(own, n).value + 1e-12
    values = [0.0, *(capacity(own, size).value for size in range(1, 5))]
    assert np.all(np.diff(values) >= 0)
    shares = [value / size for size, value in enumerate(values) if size]
    assert np.all(np.diff(shares) <= 1e-12)  # gamma_n / n falls


@given(seeds, kernels, st.integers(1, 4))
@settings(max_examples=15, deadline=None)
def test_the_closed_form_bounds_every_capacity(seed, kernel, n):
    case = replace(tiny(seed, kernel), targets=None)
    K = case.oracle.K[: case.oracle.n, : case.oracle.n]
    signal = float((np.diag(K) / case.oracle.noise).max())
    rank = int(np.linalg.matrix_rank(K))
    bound = theory.capacity_bound(n, rank=rank, signal_to_noise=signal)
    assert capacity(case, n).value <= bound * (1 + 1e-9)


def test_the_closed_form_is_reached_by_one_point():
    found = theory.information_capacity([[2.0]], None, 5, noise_std=0.5)
    assert found.subset.tolist() == [0] * 5
    assert found.value == pytest.approx(0.5 * log(1 + 5 * 16))
    assert theory.capacity_bound(5, rank=1, signal_to_noise=16) == pytest.approx(found.value)


def test_many_choices_are_made_greedily_and_refused_if_exactness_is_asked_for():
    x = np.random.default_rng(0).standard_normal((50, 3))
    found = theory.information_capacity(x, x[:3], 8, noise_std=1.0)
    assert not found.is_exact and found.value < found.upper < float("inf")
    with pytest.raises(ValueError, match=f"at most {ENUMERATED:,}"):
        theory.information_capacity(x, x[:3], 8, noise_std=1.0, method="exact")
