"""What Hübotter et al. 2024 prove or state, each as a test."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import tellmost as tm
from problems import make_case, picks_as_a_list, seeds, tensor


@given(
    seed=seeds, kernel=st.sampled_from(["gaussian", "matern"]), observed=st.sampled_from([0, 2])
)
@settings(max_examples=15, deadline=None)
def test_itl_with_the_pool_inside_the_targets_is_uncertainty_sampling(seed, kernel, observed):
    case = make_case(seed, kernel=kernel, n=12, observed=observed, d=3)
    case = replace(case, targets=np.concatenate([case.pool, case.targets]))
    itl, uncertainty = (case.select(8, rule) for rule in ("itl", "uncertainty"))
    np.testing.assert_array_equal(itl.indices, uncertainty.indices)


@given(seed=seeds, kernel=st.sampled_from(["linear", "gaussian", "matern"]))
@settings(max_examples=15, deadline=None)
def test_itl_vtl_and_mm_itl_agree_on_one_target(seed, kernel):
    case = make_case(seed, kernel=kernel, m=1)
    picks = [picks_as_a_list(case.select(8, rule)) for rule in ("itl", "vtl", "mm-itl")]
    assert picks[0] == picks[1] == picks[2]


@given(seed=seeds, kernel=st.sampled_from(["gaussian", "matern"]))
@settings(max_examples=15, deadline=None)
def test_ctl_and_cosine_agree_with_them_on_the_first_pick(seed, kernel):
    """Prior variances are equal and correlations positive under a stationary kernel."""
    case = make_case(seed, kernel=kernel, m=1)
    first = {int(case.select(1, r).indices[0]) for r in ("itl", "vtl", "mm-itl", "ctl", "cosine")}
    assert len(first) == 1


def ten_points():
    """Nine points close together, and one far away of slightly larger variance."""
    x = np.concatenate([np.linspace(0.0, 0.4, 9), [20.0]])[:, None]
    K = oracle.matrix(lambda a, b: oracle.gaussian(a, b, 1.0), x, x)
    scale = np.sqrt(np.array([1.0] * 9 + [1.1]))
    return K * np.outer(scale, scale)


def test_mm_itl_is_no_generalisation_of_uncertainty_sampling():
    points, kernel = np.arange(10), tm.kernels.Precomputed(tensor(ten_points()))
    first = {
        rule: int(tm.select(points, points, 1, rule=rule, kernel=kernel, noise_std=0.1).indices[0])
        for rule in ("uncertainty", "itl", "mm-itl")
    }
    assert first["uncertainty"] == first["itl"] == 9
    assert first["mm-itl"] < 9


@given(seed=seeds, kernel=st.sampled_from(["linear", "gaussian"]), per_point_noise=st.booleans())
@settings(max_examples=20, deadline=None)
def test_itl_gains_add_up_to_the_joint_information(seed, kernel, per_point_noise):
    case = make_case(seed, kernel=kernel, per_point_noise=per_point_noise)
    chosen = case.select(6, "itl")
    expected = oracle.mutual_information(case.oracle, picks_as_a_list(chosen))
    assert chosen.gains.sum() == pytest.approx(expected, rel=1e-9)


@given(
    seed=seeds,
    kernel=st.sampled_from(["linear", "gaussian"]),
    weighted=st.booleans(),
    conditional=st.booleans(),
)
@settings(max_examples=20, deadline=None)
def test_vtl_gains_are_the_falls_of_uncertainty(seed, kernel, weighted, conditional):
    case = make_case(seed, kernel=kernel, weighted=weighted)
    chosen = case.select(8, "vtl", conditional=conditional)
    falls = -np.diff(chosen.uncertainty)
    np.testing.assert_allclose(chosen.gains, falls, rtol=1e-9, atol=1e-13 * chosen.uncertainty[0])


def test_gaussian_synergy_makes_the_second_gain_larger():
    """X is to be learned from Y and Z, independent of each other: together worth more."""
    a = 0.65
    K = np.array([[1.0, a, a], [a, 1.0, 0.0], [a, 0.0, 1.0]])
    chosen = tm.select(
        np.array([1, 2]),
        np.array([0]),
        2,
        rule="itl",
        kernel=tm.kernels.Precomputed(tensor(K)),
        noise_std=1e-4,
    )
    assert chosen.gains[1] > chosen.gains[0]
    ratio = 2 * chosen.gains[0] / chosen.gains.sum()
    assert ratio < 1
    assert ratio == pytest.approx(np.log(1 - 2 * a**2 + a**4) / np.log(1 - 2 * a**2), rel=1e-6)


@given(seed=seeds)
@settings(max_examples=10, deadline=None)
def test_vtl_is_the_squared_correlation_weighted_by_variance(seed):
    case = make_case(seed, kernel="gaussian")
    chosen = case.select(4, "vtl")
    for t, index in enumerate(chosen.indices):
        K = oracle.posterior(case.oracle, picks_as_a_list(chosen)[:t])
        A, v = case.oracle.A, np.diag(K)
        correlation = K[index, A] / np.sqrt(v[A] * (v[index] + case.oracle.noise[index]))
        assert chosen.gains[t] == pytest.approx(case.oracle.w @ (v[A] * correlation**2), rel=1e-9)


@given(seed=seeds, kernel=st.sampled_from(["linear", "gaussian"]))
@settings(max_examples=10, deadline=None)
def test_forward_and_backward_forms_of_itl_agree(seed, kernel):
    case = make_case(seed, kernel=kernel, m=3)
    chosen = case.select(4, "itl")
    for t, index in enumerate(chosen.indices):
        forward = oracle.forward_itl(case.oracle, picks_as_a_list(chosen)[:t])
        assert chosen.gains[t] == pytest.approx(forward[index], rel=1e-7)


@given(seed=seeds)
@settings(max_examples=10, deadline=None)
def test_the_two_forms_of_the_oracles_vtl_agree(seed):
    case = make_case(seed, kernel="matern", weighted=True, observed=2)
    by_traces = oracle.vtl_by_traces(case.oracle, [3, 5])
    np.testing.assert_allclose(oracle.vtl(case.oracle, [3, 5]), by_traces, rtol=1e-8, atol=1e-12)


def test_vtl_gains_can_grow_even_for_targets_equal_to_the_pool():
    """So lazy greedy is not exact for it, and it does not claim so."""
    grown = 0
    for seed in range(40):
        case = make_case(seed, kernel="linear", n=8, d=4, noise_share=0.05)
        case = replace(case, targets=case.pool)
        problem = replace(case.oracle, K=np.kron(np.ones((2, 2)), case.oracle.K[:8, :8]), m=8)
        before, after = oracle.vtl(problem, []), oracle.vtl(problem, [0])
        grown += bool(np.any(after[1:] > before[1:] * (1 + 1e-9)))
    assert grown > 0
    assert not tm.rules.VTL.gains_only_shrink
