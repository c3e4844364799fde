"""What the call means without options: embeddings, targets as examples, and what it notes."""

import numpy as np
import pytest
import torch

import tellmost as tm
from problems import clustered
from shard_cases import Case

POOL, TARGETS = clustered(400, 20, 8)
OPTIONS = {"normalize": "center+unit", "targets_are": "examples", "noise_ratio": 0.1}


def kinds(chosen):
    return chosen.settings["note_kinds"]


def assert_same(one, other):
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_allclose(one.gains, other.gains, rtol=1e-9)
    np.testing.assert_allclose(one.uncertainty, other.uncertainty, rtol=1e-9)


# ---- what rows, kernel and targets mean


@pytest.mark.parametrize("rule", ["vtl", "ctl", "mm-itl"])
def test_no_kernel_means_embeddings_whose_targets_are_examples(rule):
    chosen = tm.select(POOL, TARGETS, 10, rule=rule)
    assert_same(chosen, tm.select(POOL, TARGETS, 10, rule=rule, kernel="linear", **OPTIONS))
    found = chosen.settings["examples"]
    assert chosen.settings["targets_are"] == "examples" and found["gain"] > 0.2
    text = f"{found['rows']} rows stand for 8 targets (gain {found['gain']:.2g})"
    assert text in repr(chosen) and "rows centred and scaled to unit length" in repr(chosen)


def test_a_kernel_takes_rows_and_targets_as_they_are():
    by_name = tm.select(POOL, TARGETS, 10, kernel="linear")
    assert_same(by_name, tm.select(POOL, TARGETS, 10, kernel=tm.kernels.Linear()))
    used = by_name.settings
    assert (used["normalize"], used["targets_are"], used["noise_ratio"]) == (None, "all", 1.0)


@pytest.mark.parametrize("rule", ["itl", "itl-y", "cosine", "mmr"])
def test_rules_that_take_no_mean_over_targets_take_them_for_all(rule):
    chosen = tm.select(POOL, TARGETS, 5, rule=rule)
    assert chosen.settings["targets_are"] == "all"
    assert chosen.settings["normalize"] == "center+unit"
    with pytest.raises(ValueError, match="targets_are='examples' has no meaning for rule"):
        tm.select(POOL, TARGETS, 5, rule=rule, targets_are="examples")


def test_rules_without_targets_keep_rows_as_they_are():
    chosen = tm.select(POOL, TARGETS, 5, rule="uncertainty")
    assert_same(chosen, tm.select(POOL, TARGETS, 5, rule="uncertainty", kernel="linear"))


@pytest.mark.parametrize("one_each", [True, False])
def test_targets_that_do_not_predict_one_another_are_all_there_is(one_each):
    rng = np.random.default_rng(0)
    centres = 4 * rng.standard_normal((20, 30))
    pool = np.repeat(centres, 20, axis=0) + rng.standard_normal((400, 30))
    targets = centres[:8] if one_each else centres[:1]
    chosen = tm.select(pool, targets, 5)
    assert chosen.settings["targets_are"] == "all" and "targets are all" in kinds(chosen)
    assert "targets as all there is" in repr(chosen)
    assert_same(chosen, tm.select(pool, targets, 5, targets_are="all"))
    with pytest.warns(UserWarning, match="taken for all that is wanted"):
        tm.select(pool, targets, 5, targets_are="examples")


def test_a_table_is_scaled_by_columns_with_the_median_distance():
    scales = np.array([1.0, 1e3, 1e-4] + [1.0] * 17)
    plain, scaled = (tm.select(POOL * s, TARGETS * s, 12, kernel="gaussian") for s in (1, scales))
    np.testing.assert_array_equal(plain.indices, scaled.indices)
    x = POOL[np.linspace(0, 399, 256).round().astype(int)].astype(float) / POOL.std(axis=0)
    distances = np.sqrt(((x[:, None] - x) ** 2).sum(axis=2))[np.triu_indices(256, 1)]
    expected = np.sort(distances)[(len(distances) - 1) // 2] * POOL.std(axis=0)
    np.testing.assert_allclose(plain.kernel.lengthscale, expected, rtol=1e-5)


# ---- the measure does not depend on what may be picked


def test_rounds_prefixes_and_files_agree(tmp_path):
    whole = tm.select(POOL, TARGETS, 12, candidates=np.arange(0, 400, 2))
    first = tm.select(POOL, TARGETS, 5, candidates=np.arange(0, 400, 2))
    assert_same(whole[:5], first)
    second = tm.select(POOL, TARGETS, 7, candidates=np.arange(0, 400, 2), observed=first)
    np.testing.assert_array_equal(second.indices, whole.indices[5:])
    assert second.settings["examples"] == whole.settings["examples"]
    whole.save(tmp_path / "chosen.tellmost")
    assert tm.Selection.load(tmp_path / "chosen.tellmost").settings == whole.settings


def test_an_interrupted_run_goes_on_and_other_examples_are_another_run(tmp_path):
    path = tmp_path / "run.jsonl"
    tm.select(POOL, TARGETS, 4, checkpoint=path)
    again = tm.select(POOL, TARGETS, 9, checkpoint=path)
    assert again.settings["resumed_picks"] == 4
    assert_same(again, tm.select(POOL, TARGETS, 9))
    with pytest.raises(ValueError, match="differs in targets as examples"):
        tm.select(POOL, TARGETS, 9, checkpoint=path, targets_are="all")


def test_streamed_rows_are_picked_from_alike(tmp_path):
    pool, targets = clustered(8_000, 128, 8)
    np.save(tmp_path / "pool.npy", pool)
    held = tm.select(pool, targets, 8)
    streamed = tm.select(tmp_path / "pool.npy", targets, 8, memory="7MB", dedupe=1.0)
    assert streamed.settings["pool"] == "streamed" and held.settings["examples"] is not None
    assert_same(streamed, held)


def test_memory_that_cannot_hold_what_stands_for_the_targets_is_refused(monkeypatch):
    monkeypatch.setattr("tellmost.posterior.problem.KEEP_BYTES", 10_000)
    with pytest.raises(ValueError, match=r"rows that stand for the targets.*targets_are='all'"):
        tm.select(POOL, TARGETS, 5, rule="mm-itl")
    assert len(tm.select(POOL, TARGETS, 5)) == 5  # a moment of features is all that VTL needs


def test_sums_of_many_features_are_those_of_a_triangle(monkeypatch):
    pool, targets = clustered(900, 250, 8)
    whole = tm.select(pool, targets, 6)
    monkeypatch.setattr("tellmost.posterior.weight_space.TRIANGLE_STEP", 300)
    assert_same(tm.select(pool, targets, 6), whole)


# ---- copies


@pytest.mark.parametrize("rule", ["vtl", "itl", "top-k", "random"])
@pytest.mark.parametrize("kernel", [None, tm.kernels.Gaussian(5.0)])
def test_copies_of_picks_are_closed_and_counted(rule, kernel):
    pool = np.repeat(POOL[:60], 5, axis=0)
    chosen = tm.select(pool, TARGETS, 12, rule=rule, kernel=kernel, dedupe=0.9999, observed=[7])
    sources = chosen.indices // 5
    assert len(set(sources)) == 12 and 1 not in sources
    assert chosen.settings["closed_copies"] == 4 * 13
    used_up = tm.select(pool, TARGETS, 100, rule=rule, kernel=kernel, dedupe=0.9999)
    assert len(used_up) == 60 and "copies" in used_up.stop_reason


def test_rows_that_are_near_to_a_pick_are_closed():
    chosen = tm.select(POOL, TARGETS, 30, kernel="linear", dedupe=0.6)
    unit = POOL / np.linalg.norm(POOL, axis=1, keepdims=True)
    cosines = unit[chosen.indices] @ unit.T
    assert np.triu(cosines[:, chosen.indices], 1).max() < 0.6
    near = (cosines >= 0.6).any(axis=0)
    assert chosen.settings["closed_copies"] == near.sum() - len(chosen)


def test_copies_among_the_picks_are_noted():
    with pytest.warns(UserWarning, match="10 of the 20 picks are exact copies"):
        chosen = tm.select(np.repeat(POOL, 2, axis=0), TARGETS, 20, rule="top-k")
    assert "copies" in kinds(chosen)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"dedupe": 1.5}, "dedupe, a cosine such as 0.98, must be .* at most 1"),
        ({"dedupe": 0.9, "replace": True}, "dedupe has no meaning with replace=True"),
        ({"dedupe": 0.9, "conditional": False}, "dedupe has no meaning with conditional=False"),
        ({"targets_are": "both"}, "targets_are must be None, 'examples' or 'all'"),
    ],
)
def test_options_without_meaning_are_refused(options, match):
    with pytest.raises(ValueError, match=match):
        tm.select(POOL, TARGETS, 3, **options)


# ---- what a careful colleague would say

UNLIKE = np.where(np.arange(20) == 3, 1e6, 1.0)
NOTED = {
    "large mean": (POOL + 5, TARGETS + 5, 5, {"kernel": "linear"}, "the mean row has 9"),
    "unlike features": (POOL * UNLIKE, TARGETS * UNLIKE, 5, {}, "feature 3 of the pool"),
    "unlike lengths": (POOL, 50 * TARGETS, 5, {}, "from another space"),
    "equal rows": (np.ones((9, 3)), np.eye(3), 1, {}, "all rows of the pool are equal"),
    "few features": (POOL[:, :5], TARGETS[:, :5], 9, {}, "exceed the 5 features"),
}


@pytest.mark.parametrize("kind", NOTED)
def test_what_makes_inner_products_say_little_is_noted(kind):
    pool, targets, k, options, match = NOTED[kind]
    with pytest.warns(UserWarning, match=match):
        chosen = tm.select(pool, targets, k, **options)
    assert kind in kinds(chosen)
    assert kind not in kinds(tm.select(POOL, TARGETS, 5))


def test_a_few_features_name_the_kernel_for_tables():
    with pytest.warns(UserWarning, match="kernel='gaussian'"):
        tm.select(POOL[:, :5], TARGETS[:, :5], 9)
    assert "few features" not in kinds(
        tm.select(POOL[:, :5], TARGETS[:, :5], 9, kernel="gaussian")
    )


def test_a_group_of_one_estimates_the_same(tmp_path):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    try:
        case = Case(POOL, TARGETS, {"k": 8, "dedupe": 0.95})
        together = tm.select(
            case.pool, case.targets, **case.options, group=torch.distributed.group.WORLD
        )
    finally:
        torch.distributed.destroy_process_group()
    assert_same(together, case.whole())


def test_python_s_own_complaints_name_the_call_that_the_user_made():
    said = r"^(select\(\) )?got an unexpected keyword argument 'noise'"  # jaxtyping names nobody
    with pytest.raises(TypeError, match=said):
        tm.select(np.eye(3), np.eye(3), 2, noise=0.1)  # type: ignore[call-arg]
