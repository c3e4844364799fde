"""What rules say of themselves, and what they give where a variance vanishes."""

import numpy as np
import pytest
import torch

import tellmost as tm
from problems import clustered, tensor
from tellmost import rules
from tellmost.posterior.problem import State, TargetState

ONE = torch.ones(1, dtype=torch.float64)
WITH_TARGETS = {"vtl", "itl", "itl-y", "mm-itl", "ctl", "ctl-y", "truvar", "local-uncertainty"}
WITH_TARGETS |= {"cosine", "top-k", "mmr"}
WEIGHING = {"vtl", "mm-itl", "ctl", "ctl-y", "truvar", "cosine"}
SIGNED = {"ctl", "ctl-y", "cosine", "top-k", "mmr"}
SHRINKING = {"uncertainty", "undirected-itl", "local-uncertainty"}


@pytest.mark.parametrize("name", rules.names())
def test_a_rule_says_what_is_true_of_it(name):
    rule = rules.get(name)
    assert rule.needs_targets == (name in WITH_TARGETS)
    assert rule.weighs_targets == (name in WEIGHING)
    assert rule.is_signed == (name in SIGNED)
    assert rule.gains_only_shrink == (name in SHRINKING)
    assert rules.is_random(rule) == (name in ("random", "k-means++"))
    assert rules.noise_of_targets(rule, 0.3) == (0.3 if name == "itl-y" else 0.0)


def test_random_draws_are_the_same_in_every_version():
    """A selection that goes on from a checkpoint draws what it would have drawn."""
    state = State(torch.arange(3), 2, ONE.expand(3), {})
    drawn = [0.9582257255834086, 0.5530656892115748, 0.6732203965253376]
    assert rules.Random(seed=5).gain(state).tolist() == drawn


@pytest.mark.parametrize("rule", ["ctl", "ctl-y", "mm-itl"])
def test_a_small_unit_of_f_changes_no_correlation_and_no_information(rule):
    pool, targets = clustered(40, 6, 3)
    kernel = tm.kernels.Gaussian(3.0)
    plain = tm.select(pool, targets, 8, rule=rule, kernel=kernel, noise_std=0.5)
    tiny = tm.kernels.Scaled(kernel, 2.0**-60)
    small = tm.select(pool, targets, 8, rule=rule, kernel=tiny, noise_std=0.5 * 2.0**-30)
    np.testing.assert_array_equal(plain.indices, small.indices)
    np.testing.assert_allclose(plain.gains, small.gains, rtol=1e-9)


def test_a_target_of_which_everything_is_known_adds_nothing_to_mm_itl():
    targets = TargetState(tensor([0.0, 1.0]), tensor([0.0, 1.0]), tensor([0.5, 0.5]))
    fields = {"variance": ONE, "covariance": tensor([[0.0, 0.6]])}
    gain = rules.MMITL().gain(State(torch.arange(1), 0, 0.2 * ONE, fields, targets))
    assert float(gain) == pytest.approx(-0.25 * np.log(1 - 0.36 / 1.2))


def test_information_stays_finite_where_noise_is_lost_in_rounding():
    targets = TargetState(ONE, ONE, ONE)
    fields = {"variance": ONE, "covariance": ONE[:, None] * (1 + 1e-15)}
    gain = rules.MMITL().gain(State(torch.arange(1), 0, 1e-40 * ONE, fields, targets))
    assert bool(torch.isfinite(gain).all()) and float(gain) > 10
