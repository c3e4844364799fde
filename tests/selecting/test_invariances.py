"""What must not change a pick: order, scale, blocks, threads, precision, form of the posterior."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tellmost as tm
from problems import (
    clustered,
    for_rule,
    make_case,
    seeds,
    sizes_of_blocks,
    targets_for,
    tensor,
)
from tellmost import numerics

RULES = [
    "vtl",
    "itl",
    "itl-y",
    "mm-itl",
    "ctl",
    "truvar",
    "local-uncertainty",
    "uncertainty",
    "undirected-itl",
    "undirected-vtl",
    "cosine",
    "top-k",
    "mmr",
    "k-center",
]
KERNELS = {"linear": tm.kernels.Linear(), "gaussian": tm.kernels.Gaussian(3.0)}


@pytest.mark.parametrize("rule", RULES)
@given(seed=seeds, kernel=st.sampled_from(list(KERNELS)))
@settings(max_examples=8, deadline=None)
def test_permuting_the_pool_permutes_the_answer(rule, seed, kernel):
    undirected = rule in (
        "uncertainty",
        "local-uncertainty",
        "undirected-itl",
        "k-center",
    )  # equal prior variances would be ties
    m = 7 if rule == "local-uncertainty" else 4  # enough to pick from
    case = for_rule(make_case(seed, kernel="linear" if undirected else kernel, m=m), rule)
    if rule == "truvar":  # what it truncates is the same for several rows: ties
        rule = tm.rules.TruVar(eta=1e-3)
    order = np.random.default_rng(seed).permutation(len(case.pool))
    chosen = case.select(6, rule)
    moved = tm.select(case.pool[order], case.targets, 6, rule=rule, **case.arguments)
    np.testing.assert_array_equal(order[moved.indices], chosen.indices)
    np.testing.assert_allclose(moved.gains, chosen.gains, rtol=1e-8)


@pytest.mark.parametrize("rule", RULES)
@given(seed=seeds, factor=st.sampled_from([1e-6, 7.0, 1e8]))
@settings(max_examples=8, deadline=None)
def test_scaling_kernel_and_noise_together_changes_no_pick(rule, seed, factor):
    case = for_rule(make_case(seed, kernel="gaussian"), rule)
    chosen = case.select(6, rule)
    scaled = case.select(
        6,
        tm.rules.TruVar(eta=factor**0.5) if rule == "truvar" else rule,  # its unit is that of f
        kernel=tm.kernels.Scaled(case.arguments["kernel"], factor),
        noise_std=case.arguments["noise_std"] * factor**0.5,
    )
    np.testing.assert_array_equal(scaled.indices, chosen.indices)
    np.testing.assert_allclose(scaled.uncertainty, factor * chosen.uncertainty, rtol=1e-9)


@pytest.mark.parametrize("rule", ["vtl", "itl", "ctl"])
def test_a_noise_ratio_does_not_depend_on_the_unit_of_the_rows(rule):
    pool, targets = clustered(300, 12, 5, dtype=np.float64)
    plain = tm.select(pool, targets, 10, rule=rule, noise_ratio=0.5)
    larger = tm.select(1e4 * pool, 1e4 * targets, 10, rule=rule, noise_ratio=0.5)
    np.testing.assert_array_equal(plain.indices, larger.indices)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kernel", list(KERNELS))
def test_the_order_of_observed_does_not_matter(rule, kernel):
    pool, targets = clustered(80, 8, 4)
    targets = targets_for(rule, pool, targets)
    seen = np.array([3, 50, 17, 8])
    one, other = (
        tm.select(pool, targets, 6, rule=rule, kernel=KERNELS[kernel], observed=order)
        for order in (seen, seen[::-1].copy())
    )
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_allclose(one.gains, other.gains, rtol=1e-9)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kernel", list(KERNELS))
def test_block_size_and_threads_never_change_the_picks(rule, kernel, monkeypatch):
    pool, targets = clustered(300, 24, 10)
    targets = targets_for(rule, pool, targets)
    threads = torch.get_num_threads()
    monkeypatch.setattr("tellmost.rows.checks.SMALL_POOL_BYTES", 0)
    sizes, picks = sizes_of_blocks(monkeypatch), []
    for bytes_, largest, count in ((2**23, 300, 2), (2**13, 32, 1), (3 * 2**13, 128, 2)):
        monkeypatch.setattr(numerics, "BLOCK_BYTES", bytes_)
        monkeypatch.setattr(numerics, "CHUNK_BYTES", bytes_)
        monkeypatch.setattr("tellmost.posterior.function_space.CHUNK_BYTES", bytes_ // 64)
        torch.set_num_threads(count)
        chosen = tm.select(pool, targets, 8, rule=rule, kernel=KERNELS[kernel], noise_ratio=0.1)
        picks.append(chosen.indices.tolist())
        assert max(sizes) == largest
        sizes.clear()
    torch.set_num_threads(threads)
    assert picks[0] == picks[1] == picks[2]


@pytest.mark.parametrize("rule", [*RULES, "random", "k-means++"])
@pytest.mark.parametrize("kernel", list(KERNELS))
def test_a_prefix_is_the_selection_for_a_smaller_k(rule, kernel):
    pool, targets = clustered(200, 8, 4)
    targets = targets_for(rule, pool, targets)
    many, few = (tm.select(pool, targets, k, rule=rule, kernel=KERNELS[kernel]) for k in (12, 5))
    np.testing.assert_array_equal(many.indices[:5], few.indices)
    np.testing.assert_allclose(many.gains[:5], few.gains, rtol=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_float32_picks_equal_float64_picks(rule):
    pool, targets = clustered(500, 16, 6)
    targets = targets_for(rule, pool, targets)
    wide = pool.astype(np.float64), targets.astype(np.float64)
    one = tm.select(pool, targets, 10, rule=rule)
    other = tm.select(*wide, 10, rule=rule)
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_allclose(one.gains, other.gains, rtol=1e-12)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("per_point", [False, True])
def test_weight_space_and_function_space_agree(rule, per_point):
    """The linear kernel as features and as a precomputed matrix."""
    pool, targets = clustered(120, 10, 5, dtype=np.float64)
    targets = targets_for(rule, pool, targets)
    both = tensor(np.concatenate([pool, targets]))
    kernel = tm.kernels.Precomputed(both @ both.T)
    std = np.linspace(0.5, 1.5, 120) if per_point else 0.7
    rule = tm.rules.ITL("y", 0.7) if rule == "itl-y" else rule
    weights = tm.select(
        pool, targets, 9, rule=rule, noise_std=std, observed=[4, 9], kernel="linear"
    )
    functions = tm.select(
        np.arange(120),
        np.arange(120, 125),
        9,
        rule=rule,
        noise_std=std,
        kernel=kernel,
        observed=[4, 9],
    )
    assert weights.settings["form"] == "weight space"
    assert functions.settings["form"] == "function space"
    np.testing.assert_array_equal(weights.indices, functions.indices)
    np.testing.assert_allclose(weights.gains, functions.gains, rtol=1e-8)
    np.testing.assert_allclose(weights.uncertainty, functions.uncertainty, rtol=1e-9)


@pytest.mark.parametrize("rule", ["mm-itl", "vtl", "ctl", "truvar"])
@pytest.mark.parametrize("kernel", list(KERNELS))
def test_covariances_too_large_to_keep_are_recomputed(rule, kernel, monkeypatch):
    pool, targets = clustered(300, 8, 6)
    targets = targets_for(rule, pool, targets)
    arguments = {"rule": rule, "kernel": KERNELS[kernel], "observed": [5]}
    kept = tm.select(pool, targets, 10, **arguments)
    monkeypatch.setattr("tellmost.posterior.problem.KEEP_BYTES", 1_000)
    recomputed = tm.select(pool, targets, 10, **arguments)
    np.testing.assert_array_equal(kept.indices, recomputed.indices)
    np.testing.assert_allclose(kept.gains, recomputed.gains, rtol=1e-9)


@pytest.mark.parametrize("rule", ["uncertainty", "undirected-itl"])
@pytest.mark.parametrize("kernel", list(KERNELS))
def test_columns_ahead_pick_the_same_with_and_without_targets(rule, kernel):
    pool, targets = clustered(2_000, 12, 4)
    arguments = {"rule": rule, "kernel": KERNELS[kernel], "noise_std": 0.5}
    ahead = tm.select(pool, targets, 40, **arguments)
    one_by_one = tm.select(pool, None, 40, columns_ahead=1, **arguments)
    np.testing.assert_array_equal(ahead.indices, one_by_one.indices)
    np.testing.assert_allclose(ahead.gains, one_by_one.gains, rtol=1e-9)
    assert ahead.settings["passes"] < one_by_one.settings["passes"]


def test_vtl_rebuilds_its_running_values_before_they_mislead():
    """At small noise the squared covariances fall by many orders; picks stay the best ones."""
    pool, targets = clustered(400, 20, 5, dtype=np.float64)
    chosen = tm.select(
        pool, targets, 60, rule="vtl", noise_std=1e-4, columns_ahead=1, kernel="linear"
    )
    assert chosen.settings["passes"] > 61
    both = tensor(np.concatenate([pool, targets]))
    dense = tm.select(
        np.arange(400),
        np.arange(400, 405),
        60,
        rule="vtl",
        noise_std=1e-4,
        kernel=tm.kernels.Precomputed(both @ both.T),
    )
    np.testing.assert_allclose(chosen.uncertainty[:20], dense.uncertainty[:20], rtol=1e-6)
    assert chosen.uncertainty[-1] <= dense.uncertainty[-1] * (1 + 1e-5)


@pytest.mark.parametrize("normalize", ["unit", "center", "center+unit"])
@pytest.mark.parametrize("candidates", [None, np.arange(20, 280)])
@pytest.mark.parametrize("is_large", [False, True])
def test_normalising_on_the_fly_equals_normalising_first(
    normalize, candidates, is_large, monkeypatch
):
    if is_large:
        monkeypatch.setattr("tellmost.rows.checks.SMALL_POOL_BYTES", 0)
    pool, targets = clustered(300, 9, 5, dtype=np.float64)
    pool[7] = 0.0
    outside = pool[:3] + 0.1
    mean = pool.mean(axis=0) if "center" in normalize else 0.0

    def by_hand(rows):
        rows = rows - mean
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(length > 0, length, 1.0) if "unit" in normalize else rows

    some = {"candidates": candidates, "k": 8, "kernel": "linear"}
    ours = tm.select(pool, targets, normalize=normalize, observed=outside, **some)
    plain = tm.select(by_hand(pool), by_hand(targets), observed=by_hand(outside), **some)
    np.testing.assert_array_equal(ours.indices, plain.indices)
    np.testing.assert_allclose(ours.gains, plain.gains, rtol=1e-9)


def test_random_is_uniform_and_seeded():
    pool = np.zeros((50, 2)) + 1.0
    firsts = [
        int(tm.select(pool, None, 1, rule=tm.rules.Random(seed)).indices[0])
        for seed in range(2_000)
    ]
    counts = np.bincount(firsts, minlength=50)
    assert counts.min() > 15
    assert counts.max() < 75
    again = tm.select(pool, None, 9, rule=tm.rules.Random(3)).indices
    np.testing.assert_array_equal(again, tm.select(pool, None, 9, rule=tm.rules.Random(3)).indices)
    repeated = tm.select(pool, None, 200, rule=tm.rules.Random(1), replace=True).indices
    assert len(set(repeated.tolist())) > 40


@pytest.mark.parametrize("rule", [*RULES, "random", "k-means++"])
@pytest.mark.parametrize("kernel", list(KERNELS))
def test_the_callers_arrays_are_left_alone(rule, kernel):
    pool, targets = clustered(150, 6, 4, dtype=np.float64)
    targets = targets_for(rule, pool, targets)
    before = pool.copy(), targets.copy()
    tm.select(pool, targets, 8, rule=rule, kernel=KERNELS[kernel], observed=[1, 2], floor=True)
    np.testing.assert_array_equal(pool, before[0])
    np.testing.assert_array_equal(targets, before[1])
