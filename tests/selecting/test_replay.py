"""A selection with its pool and targets in hand again answers questions as of then."""

import numpy as np
import pytest
import torch

import tellmost as tm
from tellmost.kernels.written import read_kernel
from tellmost.selecting.replay import recall

generator = np.random.default_rng(0)
POOL, TARGETS = generator.standard_normal((300, 12)), generator.standard_normal((15, 12))
CONDITIONS = {
    "plain": {},
    "normalised": {"normalize": "center+unit"},
    "another kernel": {"kernel": tm.kernels.Matern(2.5, 3.0), "noise_std": 0.3},
    "noise per point": {"noise_std": generator.uniform(0.1, 1.0, 300)},
    "observed rows": {"observed": [1, 2, 3]},
    "observed points": {"observed": generator.standard_normal((3, 12)), "normalize": "center"},
    "candidates": {"candidates": np.arange(100)},
    "weights": {"target_weights": generator.uniform(size=15)},
}


@pytest.fixture(params=CONDITIONS, ids=str)
def recalled(request, tmp_path):
    chosen = tm.select(POOL, TARGETS, 8, **CONDITIONS[request.param])
    chosen.save(tmp_path / "picks.tellmost")
    return recall(tm.Selection.load(tmp_path / "picks.tellmost"), POOL, TARGETS)


def test_what_each_pick_takes_from_each_target_adds_up_to_the_result(recalled):
    chosen = recalled.chosen
    falls = recalled.reductions(chosen.indices)
    before, after = chosen.target_variance
    np.testing.assert_allclose(before - falls.sum(axis=0), after, rtol=1e-9)
    weights = chosen.settings["target_weights"] or np.full(15, 1 / 15)
    np.testing.assert_allclose(falls @ np.array(weights), chosen.gains, rtol=1e-8)


def test_the_replay_of_a_prefix_knows_the_variance_of_each_target(recalled):
    prefix = recall(recalled.chosen[:3], POOL, TARGETS).chosen
    expected = recalled.select("vtl", 3).target_variance
    np.testing.assert_allclose(prefix.target_variance, expected, rtol=1e-9)


def test_the_same_rule_under_the_same_conditions_picks_the_same(recalled):
    again = recalled.select("vtl", 8)
    np.testing.assert_array_equal(again.indices, recalled.chosen.indices)


def test_another_rule_picks_among_the_same_candidates():
    chosen = tm.select(POOL, TARGETS, 5, candidates=np.arange(40, 60))
    others = recall(chosen, POOL, TARGETS).select(tm.rules.Random(3), 20)
    assert sorted(others.indices) == list(range(40, 60))


def test_more_noise_changes_what_is_picked():
    recalled = recall(tm.select(POOL, TARGETS, 20, kernel="linear"), POOL, TARGETS)
    noisy = recalled.select("vtl", 20, noise_factor=100.0)
    assert set(noisy.indices) != set(recalled.chosen.indices)
    expected = tm.select(POOL, TARGETS, 20, noise_ratio=100.0, kernel="linear")
    np.testing.assert_array_equal(noisy.indices, expected.indices)


def test_another_pool_is_refused():
    with pytest.raises(ValueError, match="not the one"):
        recall(tm.select(POOL, TARGETS, 5), POOL[::-1].copy(), TARGETS)


def test_other_targets_are_refused():
    chosen = tm.select(POOL, TARGETS, 5, kernel="linear")
    with pytest.raises(ValueError, match="15 of them; got 14"):
        recall(chosen, POOL, TARGETS[1:])
    with pytest.raises(ValueError, match="target 0 has variance"):
        recall(chosen, POOL, TARGETS[::-1].copy())


def test_a_kernel_that_no_file_can_hold_is_named(tmp_path):
    chosen = tm.select(
        POOL, TARGETS, 3, kernel=tm.kernels.Linear(2 * torch.eye(12, dtype=torch.float64))
    )
    assert recall(chosen, POOL, TARGETS).obstacle is None
    chosen.save(tmp_path / "picks.tellmost")
    recalled = recall(tm.Selection.load(tmp_path / "picks.tellmost"), POOL, TARGETS)
    assert "Linear(12-d)" in recalled.obstacle
    with pytest.raises(ValueError, match="not kept in the file"):
        recalled.reductions(chosen.indices)


@pytest.mark.parametrize(
    "kernel",
    [
        tm.kernels.Linear(),
        tm.kernels.Gaussian(0.5),
        tm.kernels.Laplace(lengthscale=[1.0, 2.0]),
        tm.kernels.Scaled(tm.kernels.Sum(tm.kernels.Linear(), tm.kernels.Matern(1.5)), 2.0),
        tm.kernels.Product(tm.kernels.Gaussian(), tm.kernels.Laplace()),
    ],
    ids=repr,
)
def test_a_kernel_is_read_from_what_it_prints(kernel):
    assert repr(read_kernel(repr(kernel))) == repr(kernel)


@pytest.mark.parametrize(
    "text",
    ["", "rbf", "Gaussian", "open('x')", "Gaussian(open('x'))", "Sum(1, 2)", "1", "(" * 300],
)
def test_anything_else_is_no_kernel(text):
    with pytest.raises(ValueError, match=r"kernel must be one of Linear\(\)"):
        read_kernel(text)


def test_a_kernel_with_a_wrong_value_says_what_is_wrong():
    with pytest.raises(ValueError, match="lengthscale must be positive"):
        read_kernel("Gaussian(lengthscale=-1.0)")


@pytest.mark.parametrize(
    "rule",
    [
        tm.rules.ITL(about="y", target_noise_std=5.0),
        tm.rules.MMR(relevance=0.7),
        tm.rules.Random(seed=3),
        tm.rules.VTL(),
    ],
    ids=repr,
)
def test_a_rule_is_recalled_with_its_parameters(rule, tmp_path):
    chosen = tm.select(POOL, TARGETS, 6, rule=rule, noise_std=0.1)
    chosen.save(tmp_path / "picks.tellmost")
    again = tm.Selection.load(tmp_path / "picks.tellmost")
    assert again.rule == rule
    picks = recall(again, POOL, TARGETS).select(again.rule, 6)
    np.testing.assert_array_equal(picks.indices, chosen.indices)


def test_a_rule_of_the_callers_own_is_kept_in_memory_and_not_in_a_file(tmp_path):
    class Mine(tm.rules.VTL):
        name = "mine"

    chosen = tm.select(POOL, TARGETS, 3, rule=Mine())
    assert isinstance(chosen.rule, Mine)
    chosen.save(tmp_path / "picks.tellmost")
    assert tm.Selection.load(tmp_path / "picks.tellmost").rule is None


def test_only_the_rule_that_was_used_picks_rows_repeatedly():
    chosen = tm.select(POOL, TARGETS, 8, candidates=[4, 7], noise_std=9.0, replace=True)
    again = recall(chosen, POOL, TARGETS)
    assert again.select("vtl", 8).indices.tolist() == chosen.indices.tolist()
    with pytest.raises(ValueError, match="larger than the 2 candidates"):
        again.select("itl", 8)
