"""Rules that make sense only where targets are rows of the pool: TruVar, local uncertainty."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import tellmost as tm
from problems import KERNELS, for_rule, make_case, seeds

POOL = np.random.default_rng(0).normal(size=(40, 4))
OUTSIDE = np.random.default_rng(1).normal(size=(3, 4))
KERNEL = tm.kernels.Gaussian(2.0)


# ---- where the targets are


@pytest.mark.parametrize("kernel", ["linear", KERNEL], ids=["linear", "gaussian"])
def test_truvar_refuses_targets_outside_the_candidates(kernel):
    mixed = np.concatenate([POOL[:2], OUTSIDE[:1]])
    with pytest.raises(ValueError, match=r"'truvar' needs every target .*1 of the 3 .*target 2"):
        tm.select(POOL, mixed, 3, rule="truvar", kernel=kernel)
    with pytest.raises(ValueError, match=r"2 of the 3 targets are no candidates \(target 1"):
        tm.select(POOL, POOL[:3], 3, rule="truvar", kernel=kernel, candidates=np.r_[0, 3:40])
    assert len(tm.select(POOL, POOL[:3], 3, rule="truvar", kernel=kernel)) == 3


@pytest.mark.parametrize("kernel", ["linear", KERNEL], ids=["linear", "gaussian"])
def test_local_uncertainty_needs_one_target_among_the_candidates(kernel):
    with pytest.raises(ValueError, match=r"at least one target .*3 of the 3 .*none is"):
        tm.select(POOL, OUTSIDE, 3, rule="local-uncertainty", kernel=kernel)
    mixed = np.concatenate([OUTSIDE, POOL[7:8]])
    chosen = tm.select(POOL, mixed, 1, rule="local-uncertainty", kernel=kernel)
    assert chosen.indices.tolist() == [7]


def test_a_rule_of_ones_own_may_ask_for_targets_in_the_pool():
    class Mine(tm.rules.VTL):
        targets_in_pool = "some"

    class Wrong(tm.rules.VTL):
        targets_in_pool = "none"

    with pytest.raises(ValueError, match="at least one target"):
        tm.select(POOL, OUTSIDE, 3, rule=Mine(), kernel="linear")
    with pytest.raises(ValueError, match="must be 'all', 'some' or None"):
        tm.select(POOL, OUTSIDE, 3, rule=Wrong(), kernel="linear")


# ---- local uncertainty


@pytest.mark.parametrize("kernel", ["linear", KERNEL], ids=["linear", "gaussian"])
def test_local_uncertainty_is_uncertainty_sampling_among_the_targets(kernel):
    rows = [3, 8, 11, 20, 33]
    options = {"k": 12, "kernel": kernel, "replace": True, "noise_std": 0.5}
    own = tm.select(POOL, POOL[rows], rule="local-uncertainty", **options)
    plain = tm.select(POOL, rule="uncertainty", candidates=rows, **options)
    np.testing.assert_array_equal(own.indices, plain.indices)
    np.testing.assert_allclose(own.gains, plain.gains, rtol=1e-9)


def test_nothing_is_gained_once_every_target_was_picked():
    chosen = tm.select(POOL, POOL[5:8], 6, rule="local-uncertainty", kernel="linear")
    assert set(chosen.indices[:3].tolist()) == {5, 6, 7}
    assert (chosen.gains[:3] > 0).all() and (chosen.gains[3:] == 0).all()
    stopped = tm.select(
        POOL, POOL[5:8], min_gain_share=1e-6, rule="local-uncertainty", kernel="linear"
    )
    assert len(stopped) == 3


# ---- TruVar


def test_the_threshold_is_that_of_the_first_epoch_that_is_not_over():
    rule = tm.rules.TruVar(beta=2.0, eta=1.0, shrink=0.1, slack=0.5)
    for sd, expected in ((0.8, 1.0), (0.75, 0.1), (0.7, 0.1), (0.075, 0.01), (0.0, 0.0)):
        variance = torch.tensor([sd**2, 0.01 * sd**2])
        assert rule.threshold(variance) == pytest.approx(expected)


@given(
    seed=seeds,
    kernel=st.sampled_from(KERNELS),
    beta=st.sampled_from([0.5, 2.0]),
    eta=st.sampled_from([0.3, 5.0]),
    r=st.sampled_from([0.1, 0.7]),
    delta=st.sampled_from([0.0, 0.4]),
)
@settings(max_examples=25, deadline=None)
def test_gains_of_truvar_are_the_oracles_for_any_parameters(seed, kernel, beta, eta, r, delta):
    case = for_rule(make_case(seed, kernel=kernel, weighted=True), "truvar")
    chosen = case.select(8, tm.rules.TruVar(beta, eta, r, delta))
    for t, index in enumerate(chosen.indices):
        gains = oracle.truvar(case.oracle, chosen.indices[:t].tolist(), beta, eta, r, delta)
        assert chosen.gains[t] == pytest.approx(gains[index], rel=1e-8, abs=1e-12)


def test_without_truncation_truvar_is_vtl():
    """A threshold far below every variance truncates nothing."""
    targets, options = POOL[4:12], {"kernel": KERNEL, "noise_std": 0.5}
    own = tm.select(POOL, targets, 10, rule=tm.rules.TruVar(beta=3.0, eta=1e-6), **options)
    vtl = tm.select(POOL, targets, 10, rule="vtl", **options)
    np.testing.assert_array_equal(own.indices, vtl.indices)
    np.testing.assert_allclose(own.gains, 9.0 * vtl.gains, rtol=1e-9)


def test_rows_of_length_one_have_reached_a_threshold_of_one():
    """Their variance is 1 but for rounding, and rounding must not decide about the epoch."""
    unit = POOL / np.linalg.norm(POOL, axis=1, keepdims=True)
    chosen = tm.select(unit, unit[:4], 3, rule="truvar", kernel="linear")
    assert chosen.gains[0] > 1e-3


BAD = {"beta": (0.0, "1"), "eta": (-1.0, float("inf")), "shrink": (0.0, 1.0)}
BAD |= {"slack": (-0.1, float("nan"))}


@pytest.mark.parametrize(("name", "value"), [(name, v) for name in BAD for v in BAD[name]])
def test_truvar_checks_its_parameters(name, value):
    with pytest.raises((TypeError, ValueError), match=rf"TruVar\({name}\) must be a"):
        tm.rules.TruVar(**{name: value})
