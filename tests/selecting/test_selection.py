"""What select returns: a value that unpacks, prints, saves, loads and can be continued."""

import contextlib
import dataclasses
import json
import zipfile

import numpy as np
import pytest
import torch

import oracle
import tellmost as tm
from problems import targets_for
from tellmost import rules
from tellmost.selecting.data import SMALL_NOISE

WITHOUT_SHAPES = pytest.mark.skipif(
    "config.getoption('--shapes', False)",
    reason="with shapes checked, annotations come first, and calls go through the checker",
)

N, D, M = 40, 8, 5
POOL = np.random.default_rng(0).normal(size=(N, D))
TARGETS = np.random.default_rng(1).normal(size=(M, D))
COST = np.random.default_rng(2).uniform(0.5, 2.0, N)
GROUPS = np.arange(N) % 4

CONDITIONING = ("vtl", "itl", "itl-y", "mm-itl", "ctl", "uncertainty", "undirected-itl")
CONDITIONING += ("undirected-vtl", "mmr", "k-center", "truvar", "local-uncertainty")
KERNELS = {"linear": tm.kernels.Linear(), "gaussian": tm.kernels.Gaussian(3.0)}
FIELDS = {field.name for field in dataclasses.fields(tm.Selection)} - {"kernel", "rule"}


@pytest.fixture
def chosen():
    return tm.select(POOL, TARGETS, k=6, observed=[3, 4], floor=True)


def assert_same(first, second):
    for name in FIELDS:
        one, other = getattr(first, name), getattr(second, name)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        else:
            assert one == other


# ---- shapes, types, unpacking


@pytest.mark.parametrize("rule", rules.names())
def test_results_have_their_shapes_and_types(rule):
    targets = targets_for(rule, POOL, TARGETS)
    chosen = tm.select(POOL.astype(np.float32), targets, k=6, rule=rule, floor=True)
    assert chosen.indices.shape == (6,) and chosen.indices.dtype == np.int64
    for values, shape in (
        (chosen.gains, (6,)),
        (chosen.uncertainty, (7,)),
        (chosen.target_variance, (2, M)),
        (chosen.floor, (M,)),
        (chosen.whole_pool, (M,)),
    ):
        assert isinstance(values, np.ndarray)
        assert values.shape == shape and values.dtype == np.float64
    assert isinstance(chosen.stop_reason, str) and isinstance(chosen.settings, dict)


def test_results_without_targets_have_the_same_types():
    chosen = tm.select(POOL, k=6, rule="uncertainty")
    assert chosen.target_variance.shape == (2, 0) and chosen.target_variance.dtype == np.float64
    assert chosen.uncertainty.shape == (7,) and chosen.settings["targets"] == 0


def test_uncertainty_is_the_mean_target_variance_before_and_after(chosen):
    before, after = chosen.target_variance.mean(axis=1)
    assert chosen.uncertainty[[0, -1]] == pytest.approx([before, after], rel=1e-12)


def test_uncertainty_uses_the_target_weights():
    weights = np.array([1.0, 2.0, 3.0, 0.0, 4.0])
    chosen = tm.select(POOL, TARGETS, k=4, target_weights=weights)
    expected = chosen.target_variance @ (weights / weights.sum())
    assert chosen.uncertainty[[0, -1]] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_gains_of_vtl_are_the_falls_of_uncertainty(kernel):
    chosen = tm.select(POOL, TARGETS, k=10, kernel=kernel)
    np.testing.assert_allclose(chosen.gains, -np.diff(chosen.uncertainty), rtol=1e-9)


def test_gains_are_not_divided_by_cost():
    chosen = tm.select(POOL, TARGETS, k=5, cost=COST)
    np.testing.assert_allclose(chosen.gains, -np.diff(chosen.uncertainty), rtol=1e-9)


def test_no_floor_is_computed_unless_asked_for():
    chosen = tm.select(POOL, TARGETS, k=2)
    assert chosen.floor is None and chosen.whole_pool is None


def test_a_selection_unpacks_into_indices_and_gains(chosen):
    indices, gains = chosen
    assert indices is chosen.indices and gains is chosen.gains


def test_the_length_is_the_number_of_picks(chosen):
    assert len(chosen) == 6


def test_a_selection_is_frozen(chosen):
    with pytest.raises(dataclasses.FrozenInstanceError):
        chosen.stop_reason = "because"


def test_indices_index_arrays_tensors_lists_and_subsets(chosen):
    labels = [f"row {i}" for i in range(N)]
    tensor = torch.from_numpy(POOL)
    subset = torch.utils.data.Subset(labels, chosen.indices)
    expected = POOL[chosen.indices.tolist()]
    np.testing.assert_array_equal(POOL[chosen.indices], expected)
    np.testing.assert_array_equal(tensor[chosen.indices].numpy(), expected)
    np.testing.assert_array_equal(tensor[torch.from_numpy(chosen.indices)].numpy(), expected)
    assert [labels[i] for i in chosen.indices] == [subset[i] for i in range(6)]


# ---- printing


@pytest.mark.parametrize("rule", rules.names())
def test_printing_takes_one_line_that_says_what_happened(rule):
    chosen = tm.select(POOL, targets_for(rule, POOL, TARGETS), k=6, rule=rule, floor=True)
    text = str(chosen)
    assert text == repr(chosen) and "\n" not in text
    for part in ("6 of 40", f"by {rule}", "uncertainty", "->", "%", "floor", "k reached"):
        assert part in text
    assert "nan" not in text and len(text) < 200


def test_printing_states_the_candidates_not_the_pool():
    chosen = tm.select(POOL, TARGETS, k=2, candidates=[1, 2, 3])
    assert "2 of 3" in str(chosen)


def test_printing_an_empty_selection_works():
    chosen = tm.select(POOL, TARGETS, k=2, cost=np.full(N, 5.0), budget=1.0)
    assert len(chosen) == 0 and "0 of 40" in str(chosen) and "budget" in str(chosen)


def test_a_floor_of_zero_is_called_uninformative():
    assert "uninformative" in str(tm.select(POOL, TARGETS, k=2, floor=True))
    short = tm.select(POOL[:3], TARGETS, k=2, floor=True)
    assert "uninformative" not in str(short) and "floor" in str(short)


# ---- settings


EVERYTHING = {
    "plain": {},
    "per-point noise": {"noise_std": np.full(N, 0.5)},
    "weights": {"target_weights": [1.0, 2.0, 3.0, 4.0, 5.0]},
    "kernel with a tensor": {"kernel": tm.kernels.Gaussian(torch.full((D,), 2.0))},
    "feature map": {"kernel": tm.kernels.FeatureMap(lambda x: x[:, :3])},
    "floor": {"floor": True, "normalize": "center+unit"},
    "limits": {"cost": COST, "budget": 5.0, "groups": GROUPS, "max_per_group": 2},
    "observed": {"observed": POOL[:2], "candidates": np.arange(5, 20)},
}


@pytest.mark.parametrize("options", EVERYTHING.values(), ids=EVERYTHING)
def test_settings_can_be_written_as_json(options):
    settings = tm.select(POOL, TARGETS, k=3, **options).settings
    assert json.loads(json.dumps(settings, allow_nan=False)) == settings


def test_settings_of_a_pool_without_variance_can_be_written_as_json():
    settings = tm.select(np.ones((4, 3)), np.eye(3), k=2, normalize="center").settings
    assert settings["noise_ratio"] is None
    assert json.loads(json.dumps(settings, allow_nan=False)) == settings


def test_settings_record_what_was_used():
    pool = POOL.astype(np.float32)
    settings = tm.select(pool, TARGETS, k=3, normalize="unit", noise_ratio=2.0).settings
    assert settings["rule"] == "vtl" and settings["normalize"] == "unit"
    assert settings["dtype"] == "float32" and settings["device"] == "cpu"
    assert settings["noise_ratio"] == pytest.approx(2.0)
    assert settings["noise_variance"] == pytest.approx(2.0)  # unit rows have unit variance
    assert (settings["rows"], settings["features"], settings["targets"]) == (N, D, M)


# ---- saving and loading


@pytest.mark.parametrize("options", EVERYTHING.values(), ids=EVERYTHING)
def test_what_was_saved_is_loaded(options, tmp_path):
    chosen = tm.select(POOL, TARGETS, k=3, **options)
    chosen.save(tmp_path / "picks.tellmost")
    assert_same(tm.Selection.load(tmp_path / "picks.tellmost"), chosen)


def test_an_empty_selection_is_saved_and_loaded(tmp_path):
    chosen = tm.select(POOL, TARGETS, k=2, cost=np.full(N, 5.0), budget=1.0)
    chosen.save(str(tmp_path / "picks"))
    assert_same(tm.Selection.load(str(tmp_path / "picks")), chosen)


def test_saving_replaces_an_earlier_file_and_leaves_no_other(chosen, tmp_path):
    path = tmp_path / "picks.tellmost"
    tm.select(POOL, TARGETS, k=1).save(path)
    chosen.save(path)
    assert len(tm.Selection.load(path)) == 6
    assert list(tmp_path.iterdir()) == [path]


def test_a_saved_selection_holds_no_pickle(chosen, tmp_path):
    chosen.save(tmp_path / "picks.npz")
    with np.load(tmp_path / "picks.npz", allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    assert all(array.dtype.kind in "fiU" for array in arrays.values())
    np.testing.assert_array_equal(arrays["indices"], chosen.indices)


@pytest.mark.parametrize("exists", [True, False])
def test_an_interrupted_save_leaves_no_half_file(exists, chosen, tmp_path, monkeypatch):
    path = tmp_path / "picks.tellmost"
    if exists:
        chosen.save(path)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}

    def write_half(file, **arrays):
        file.write(b"PK and then")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", write_half)
    with pytest.raises(KeyboardInterrupt):
        chosen.save(path)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_saving_into_a_missing_folder_names_it(chosen, tmp_path):
    with pytest.raises(FileNotFoundError, match="gone"):
        chosen.save(tmp_path / "gone" / "picks")


def test_loading_a_missing_file_or_a_folder_names_it(tmp_path):
    for path in (tmp_path / "gone", tmp_path):
        with pytest.raises(FileNotFoundError, match=f"there is no file .*{path.name}"):
            tm.Selection.load(path)


def write_array(path):
    with path.open("wb") as file:
        np.save(file, POOL)


def write_archive(path, **arrays):
    with path.open("wb") as file:
        np.savez(file, **arrays)


def write_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("about.npy", "no array")


def write_cut_short(path):
    tm.select(POOL, TARGETS, k=5).save(path)
    path.write_bytes(path.read_bytes()[:-30])


def write_flipped_bytes(path):
    tm.select(POOL, TARGETS, k=5).save(path)
    content = bytearray(path.read_bytes())
    for i in range(60, len(content) // 2, 7):
        content[i] ^= 0xFF
    path.write_bytes(bytes(content))


WRONG = {
    "nothing": lambda path: path.touch(),
    "words": lambda path: path.write_text("rank,index\n1,2\n"),
    "an array": write_array,
    "another archive": lambda path: write_archive(path, pool=POOL),
    "no archive of arrays": write_zip,
    "about a number": lambda path: write_archive(path, about=np.array("3")),
    "about without a format": lambda path: write_archive(path, about=np.array("{}")),
    "arrays missing": lambda path: write_archive(path, about=np.array('{"format": 1}')),
    "pickled objects": lambda path: write_archive(path, about=np.array([{}], dtype=object)),
    "cut short": write_cut_short,
    "flipped bytes": write_flipped_bytes,
}


@pytest.mark.parametrize("write", WRONG.values(), ids=WRONG)
def test_loading_anything_else_is_refused_by_name(write, tmp_path):
    write(tmp_path / "picks")
    with pytest.raises(ValueError, match=r"^picks is not a saved Selection.*Selection\.save"):
        tm.Selection.load(tmp_path / "picks")


def test_loading_another_format_says_so(tmp_path):
    write_archive(tmp_path / "picks", about=np.array('{"format": 99}'))
    with pytest.raises(ValueError, match=r"picks was saved by another version.*format 99"):
        tm.Selection.load(tmp_path / "picks")


# ---- continuing


def problem(rule):
    """Targets for rules that use them, and few enough that ITL stays directed."""
    return targets_for(rule, POOL, TARGETS) if rules.get(rule).needs_targets else None


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("rule", CONDITIONING)
def test_a_selection_continues_exactly_where_it_ended(rule, kernel):
    options = {"targets": problem(rule), "rule": rule, "kernel": kernel}
    whole = tm.select(POOL, k=15, **options)
    first = tm.select(POOL, k=10, **options)
    rest = tm.select(POOL, k=5, observed=first, **options)
    np.testing.assert_array_equal(first.indices, whole.indices[:10])
    np.testing.assert_array_equal(rest.indices, whole.indices[10:])
    np.testing.assert_allclose(rest.gains, whole.gains[10:], rtol=1e-8)
    np.testing.assert_allclose(rest.uncertainty, whole.uncertainty[10:], rtol=1e-8)
    np.testing.assert_array_equal(rest.observed_indices, first.indices)


@pytest.mark.parametrize("rule", ["uncertainty", "undirected-itl"])
def test_undirected_rules_continue_exactly_when_there_are_targets(rule):
    whole = tm.select(POOL, TARGETS, k=15, rule=rule)
    first = tm.select(POOL, TARGETS, k=10, rule=rule)
    rest = tm.select(POOL, TARGETS, k=5, rule=rule, observed=first)
    np.testing.assert_array_equal(np.r_[first.indices, rest.indices], whole.indices)


@pytest.mark.parametrize("rule", ["random", "cosine", "top-k"])
def test_rules_that_do_not_condition_continue_in_their_order(rule):
    whole = tm.select(POOL, TARGETS, k=15, rule=rule)
    first = tm.select(POOL, TARGETS, k=10, rule=rule)
    rest = tm.select(POOL, TARGETS, k=5, rule=rule, observed=first)
    np.testing.assert_array_equal(np.r_[first.indices, rest.indices], whole.indices)


CONTINUED = {
    "plain": {},
    "normalised": {"normalize": "center+unit"},
    "per-point noise": {"noise_std": np.random.default_rng(3).uniform(0.5, 2.0, N)},
    "candidates": {"candidates": np.arange(1, N, 2)},
    "weights": {"target_weights": [1.0, 2.0, 3.0, 4.0, 5.0]},
    "cost": {"cost": COST},
}


@pytest.mark.parametrize("options", CONTINUED.values(), ids=CONTINUED)
def test_a_selection_continues_three_times_through_files(options, tmp_path):
    whole = tm.select(POOL, TARGETS, k=12, **options)
    picks, earlier = [], None
    for part in range(4):
        chosen = tm.select(POOL, TARGETS, k=3, observed=earlier, **options)
        picks.append(chosen.indices)
        chosen.save(tmp_path / f"part {part}")
        earlier = tm.Selection.load(tmp_path / f"part {part}")
    np.testing.assert_array_equal(np.concatenate(picks), whole.indices)
    np.testing.assert_array_equal(earlier.observed_indices, whole.indices[:9])
    assert earlier.uncertainty[-1] == pytest.approx(whole.uncertainty[-1], rel=1e-10)


@pytest.mark.parametrize("normalize", [None, "center+unit"])
@pytest.mark.parametrize("rule", CONDITIONING)
def test_a_selection_continues_with_points_observed_outside_the_pool(rule, normalize, tmp_path):
    points = np.random.default_rng(4).normal(size=(3, D))
    options = {"targets": problem(rule), "rule": rule, "normalize": normalize}
    whole = tm.select(POOL, k=9, observed=points, **options)
    earlier = tm.select(POOL, k=3, observed=points, **options)
    for _ in range(2):
        earlier.save(tmp_path / "part")
        earlier = tm.Selection.load(tmp_path / "part")
        np.testing.assert_array_equal(earlier.observed_points, points)
        earlier = tm.select(POOL, k=3, observed=earlier, **options)
    np.testing.assert_array_equal(earlier.observed_indices, whole.indices[:6])
    np.testing.assert_array_equal(earlier.indices, whole.indices[6:])


def test_observed_rows_equal_the_selection_that_named_them():
    first = tm.select(POOL, TARGETS, k=4)
    by_selection = tm.select(POOL, TARGETS, k=4, observed=first)
    by_rows = tm.select(POOL, TARGETS, k=4, observed=first.indices)
    np.testing.assert_array_equal(by_rows.indices, by_selection.indices)
    assert not set(by_rows.indices) & set(first.indices)


def test_points_given_as_rows_or_as_points_say_the_same():
    by_rows = tm.select(POOL, TARGETS, k=1, observed=[3, 7], candidates=np.arange(10, N))
    by_points = tm.select(POOL, TARGETS, k=1, observed=POOL[[3, 7]], candidates=np.arange(10, N))
    np.testing.assert_array_equal(by_rows.indices, by_points.indices)
    np.testing.assert_allclose(by_rows.uncertainty, by_points.uncertainty, rtol=1e-12)


def test_a_selection_with_repeats_continues():
    options = {"replace": True, "noise_std": 5.0}
    whole = tm.select(POOL, TARGETS, k=12, **options)
    first = tm.select(POOL, TARGETS, k=8, **options)
    rest = tm.select(POOL, TARGETS, k=4, observed=first, **options)
    assert len(set(first.indices.tolist())) < 8
    np.testing.assert_array_equal(np.r_[first.indices, rest.indices], whole.indices)


@pytest.mark.parametrize("rule", rules.names())
def test_a_prefix_is_the_selection_for_a_smaller_k(rule):
    targets = targets_for(rule, POOL, TARGETS)
    whole = tm.select(POOL, targets, k=15, rule=rule)
    for k in (1, 4, 9):
        part = tm.select(POOL, targets, k=k, rule=rule)
        np.testing.assert_array_equal(part.indices, whole.indices[:k])
        np.testing.assert_array_equal(part.gains, whole.gains[:k])
        np.testing.assert_allclose(part.uncertainty, whole.uncertainty[: k + 1], rtol=1e-12)


def test_a_slice_from_the_start_is_the_selection_for_a_smaller_k(chosen, tmp_path):
    part = tm.select(POOL, TARGETS, k=4, observed=[3, 4], floor=True)
    prefix = chosen[:4]
    for name in ("indices", "gains", "floor", "whole_pool", "observed_indices"):
        np.testing.assert_array_equal(getattr(prefix, name), getattr(part, name))
    np.testing.assert_allclose(prefix.uncertainty, part.uncertainty, rtol=1e-12)
    assert prefix.stop_reason == part.stop_reason and len(prefix) == 4
    assert repr(prefix) == repr(part)
    prefix.save(tmp_path / "prefix.npz")
    assert_same(tm.Selection.load(tmp_path / "prefix.npz"), prefix)
    rest = tm.select(POOL, TARGETS, k=2, observed=prefix)
    np.testing.assert_array_equal(rest.indices, chosen.indices[4:])


def test_a_prefix_says_what_it_does_not_know(chosen):
    prefix = chosen[:4][:2]
    assert np.isnan(prefix.target_variance[1]).all() and prefix.settings["prefix_of"] == 6
    np.testing.assert_array_equal(prefix.target_variance[0], chosen.target_variance[0])
    np.testing.assert_array_equal(chosen[:0].target_variance[1], chosen.target_variance[0])
    assert chosen[:-1].indices.tolist() == chosen.indices[:5].tolist()
    assert chosen[:6] is chosen[:99] is chosen[::] is chosen


@pytest.mark.parametrize("part", [slice(1, None), slice(None, None, 2), slice(None, None, -1)])
def test_other_slices_are_no_selections(part, chosen):
    with pytest.raises(ValueError, match=r"only the first picks .* such as chosen\[:10\]"):
        chosen[part]


@WITHOUT_SHAPES
def test_a_single_pick_is_no_selection(chosen):
    with pytest.raises(TypeError, match=r"One pick is chosen\.indices\[2\]"):
        chosen[2]


def test_a_notebook_shows_a_table_of_escaped_text(chosen):
    shown = chosen._repr_html_()
    assert shown.count("<tr>") == 7 and f"<td>{chosen.indices[0]}</td>" in shown
    odd = dataclasses.replace(chosen, stop_reason="<script>", settings=chosen.settings)
    assert "<script>" not in odd._repr_html_() and "&lt;script&gt;" in odd._repr_html_()
    assert tm.select(POOL, TARGETS, k=15)._repr_html_().count("<tr>") == 12


# ---- frames


def test_a_frame_has_a_row_per_pick(chosen):
    pytest.importorskip("pandas")
    frame = chosen.to_frame()
    assert frame.columns.tolist() == [
        *("rank", "index", "gain", "uncertainty", "nearest_target", "similarity")
    ]
    assert frame["rank"].tolist() == [1, 2, 3, 4, 5, 6]
    np.testing.assert_array_equal(frame["index"], chosen.indices)
    np.testing.assert_array_equal(frame["gain"], chosen.gains)
    np.testing.assert_array_equal(frame["uncertainty"], chosen.uncertainty[1:])


# ---- what it warns of


@pytest.mark.parametrize(
    ("k", "ratio", "warns"), [(20, 0.9, True), (20, 1.0, False), (3, 0.01, False)]
)
def test_more_picks_than_directions_are_warned_of_where_the_noise_is_below_the_signal(
    k, ratio, warns
):
    expected = pytest.warns(UserWarning, match=f"{k} picks exceed the effective rank")
    with expected if warns else contextlib.nullcontext():
        chosen = tm.select(POOL, TARGETS, k, noise_ratio=ratio, kernel="linear")
    assert (SMALL_NOISE in chosen.settings["note_kinds"]) == warns


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_noise_as_large_as_rows_of_unit_length_is_no_small_noise(dtype):
    rows = (POOL / np.linalg.norm(POOL, axis=1, keepdims=True)).astype(dtype)
    chosen = tm.select(rows, TARGETS, len(rows), noise_std=1.0, kernel="linear")
    assert SMALL_NOISE not in chosen.settings["note_kinds"]


@pytest.mark.parametrize(
    ("pool", "targets", "normalize", "said"),
    [
        (POOL, 50 * TARGETS, None, "the targets have 45 times the length of the pool's rows"),
        (POOL, TARGETS / 50, None, "the targets have 0.018 times the length"),
        (POOL * np.array([1, 1e6] + [1] * (POOL.shape[1] - 2)), TARGETS, "unit", "feature 1 of"),
        (np.ones_like(POOL), TARGETS, "center", "all rows of the pool are equal"),
    ],
)
def test_scales_that_make_inner_products_say_little_are_noted(pool, targets, normalize, said):
    with pytest.warns(UserWarning, match=said):
        tm.select(pool, targets, 3, normalize=normalize, noise_ratio=1.0)


# ---- why it ended


@WITHOUT_SHAPES
def test_a_warning_points_at_the_line_that_called_select():
    with pytest.warns(UserWarning, match="effective rank") as warned:
        tm.select(POOL, TARGETS, 20, noise_ratio=0.01)
    assert {warning.filename for warning in warned} == {__file__}


def test_exactly_k_picks_are_made_even_at_zero_gain():
    chosen = tm.select(np.eye(5, 3), np.eye(3)[2], k=5)
    assert len(chosen) == 5 and chosen.stop_reason == "k reached"


@pytest.mark.parametrize("rule", ["vtl", "itl", "mm-itl"])
def test_gains_that_are_rounding_beside_the_first_go_to_the_lowest_row(rule):
    """The first row is along the target; the others share a little of it, the last one most."""

    def order(shares: list[float]) -> list[int]:
        pool = np.eye(4, 5, k=1)
        pool[:, 0] = np.sqrt([1.0, *shares])
        return tm.select(
            pool, np.eye(5)[0], 4, rule=rule, noise_std=1.0, kernel="linear"
        ).indices.tolist()

    assert order([1e-16, 3e-16, 2e-15]) == [0, 1, 2, 3]
    assert order([1e-12, 3e-12, 2e-11]) == [0, 3, 2, 1]


def test_a_budget_ends_a_selection_and_says_so():
    chosen = tm.select(POOL, TARGETS, cost=COST, budget=6.0)
    assert "budget" in chosen.stop_reason
    spent = COST[chosen.indices].sum()
    left = np.delete(COST, chosen.indices)
    assert spent <= 6.0 < spent + left.min()


@pytest.mark.parametrize("rule", ["vtl", "itl", "mm-itl", "uncertainty", "random"])
@pytest.mark.parametrize("budget", [0.6, 2.0, 7.3, 20.0])
def test_a_budget_is_never_exceeded(budget, rule):
    chosen = tm.select(POOL, TARGETS, cost=COST, budget=budget, rule=rule)
    assert COST[chosen.indices].sum() <= budget


@pytest.mark.parametrize("count", [3, 7, 10, 20])
@pytest.mark.parametrize("each", [0.01, 0.07, 0.1, 0.3, 1.1])
def test_equal_costs_fill_a_budget_to_the_last_place(each, count):
    budget = round(100 * each * count) / 100
    chosen = tm.select(POOL, TARGETS, cost=np.full(N, each), budget=budget)
    assert len(chosen) == count


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e6, 1e12])
def test_the_unit_of_cost_changes_no_pick(scale):
    expected = tm.select(POOL, TARGETS, k=10, cost=COST)
    chosen = tm.select(POOL, TARGETS, k=10, cost=scale * COST)
    np.testing.assert_array_equal(chosen.indices, expected.indices)


def test_picks_are_ranked_by_gain_per_cost():
    gains = tm.select(POOL, TARGETS, k=N, conditional=False)
    first_gain = np.array(
        [tm.select(POOL, TARGETS, k=1, candidates=[i]).gains[0] for i in range(N)]
    )
    chosen = tm.select(POOL, TARGETS, k=1, cost=COST)
    assert chosen.indices[0] == (first_gain / COST).argmax()
    assert gains.indices[0] == first_gain.argmax()


def test_what_no_longer_fits_is_skipped_for_what_does():
    cost = np.full(N, 2.0)
    cost[-3:] = 0.5
    chosen = tm.select(POOL, TARGETS, cost=cost, budget=3.0, kernel="linear")
    assert len(chosen) >= 3 and cost[chosen.indices].sum() in (2.5, 3.0)


def test_a_least_gain_ends_a_selection_and_says_so():
    whole = tm.select(POOL, TARGETS, k=10)
    bound = whole.gains[5] * (1 + 1e-9)
    chosen = tm.select(POOL, TARGETS, min_gain=bound)
    expected = int((whole.gains < bound).argmax())
    assert len(chosen) == expected and (chosen.gains >= bound).all()
    assert "min_gain" in chosen.stop_reason


def test_a_least_share_of_the_first_gain_ends_a_selection_and_says_so():
    whole = tm.select(POOL, TARGETS, k=20)
    chosen = tm.select(POOL, TARGETS, min_gain_share=0.1)
    expected = int((whole.gains < 0.1 * whole.gains[0]).argmax())
    assert len(chosen) == expected > 1
    assert "0.1 of the first" in chosen.stop_reason


def test_k_ends_a_selection_before_the_other_bounds():
    chosen = tm.select(POOL, TARGETS, k=2, min_gain=1e-12, cost=COST, budget=30.0)
    assert len(chosen) == 2 and chosen.stop_reason == "k reached"


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("rule", ["vtl", "random", "cosine", "uncertainty"])
def test_no_group_gives_more_than_its_share(rule, most):
    labels = np.array(["a", "b", "c", "d"])[GROUPS]
    chosen = tm.select(POOL, TARGETS, k=4 * most, groups=labels, max_per_group=most, rule=rule)
    _, counts = np.unique(labels[chosen.indices], return_counts=True)
    assert counts.tolist() == [most] * 4


def test_exhausted_groups_end_a_selection_and_say_so():
    chosen = tm.select(POOL, TARGETS, k=9, groups=GROUPS, max_per_group=2)
    assert len(chosen) == 8 and "group" in chosen.stop_reason


def test_exhausted_groups_are_not_mistaken_for_a_spent_budget():
    chosen = tm.select(POOL, TARGETS, groups=GROUPS, max_per_group=1, cost=np.ones(N), budget=4.5)
    assert len(chosen) == 4 and "group" in chosen.stop_reason


def test_a_budget_that_runs_out_before_the_groups_is_named():
    chosen = tm.select(POOL, TARGETS, groups=GROUPS, max_per_group=5, cost=np.ones(N), budget=3.5)
    assert len(chosen) == 3 and "budget" in chosen.stop_reason


ROOMY = {
    "budget": {"cost": np.ones(N), "budget": 1000.0},
    "min_gain": {"min_gain": 1e-300},
    "min_gain_share": {"min_gain_share": 1e-300},
}


@pytest.mark.parametrize("options", ROOMY.values(), ids=ROOMY)
def test_a_pool_that_is_used_up_is_not_mistaken_for_k(options):
    chosen = tm.select(POOL, TARGETS, **options)
    assert len(chosen) == N
    assert chosen.stop_reason == "no candidate left"


def test_costs_do_not_hide_gains_that_reach_min_gain():
    """A cheap row of little gain ranks first, and must neither end nor open the selection."""
    pool, targets = np.eye(4), np.ones((1, 4))
    pool[3] *= 0.01
    arguments = {"noise_std": 0.1, "cost": [1, 1, 1, 1e-6], "kernel": "linear"}
    chosen = tm.select(pool, targets, min_gain=0.1, **arguments)
    assert sorted(chosen.indices) == [0, 1, 2]
    assert "min_gain" in chosen.stop_reason
    share = tm.select(pool, targets, min_gain_share=0.5, **arguments)
    assert sorted(share.indices) == [0, 1, 2]


def test_a_changed_row_makes_another_pool():
    rng = np.random.default_rng(0)
    pool, targets = rng.standard_normal((3_000, 8)), rng.standard_normal((4, 8))
    first = tm.select(pool, targets, 5)
    changed = pool.copy()
    changed[1] += 1.0
    with pytest.raises(ValueError, match="another pool"):
        tm.select(changed, targets, 2, observed=first)


def test_another_matrix_makes_another_pool():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2, 20, 5))
    arguments = {"noise_std": 0.3, "targets": np.arange(15, 20)}
    first = tm.select(np.arange(15), k=3, kernel=tm.kernels.Precomputed(X @ X.T), **arguments)
    kernel = tm.kernels.Precomputed(Y @ Y.T)
    with pytest.raises(ValueError, match="another pool"):
        tm.select(np.arange(15), k=3, kernel=kernel, observed=first, **arguments)


def test_groups_go_on_counting_in_the_next_round():
    rng = np.random.default_rng(1)
    pool, targets = rng.standard_normal((300, 6)), rng.standard_normal((3, 6))
    arguments = {"groups": rng.integers(0, 3, size=300), "max_per_group": 2}
    whole = tm.select(pool, targets, 6, **arguments)
    first = tm.select(pool, targets, 4, **arguments)
    second = tm.select(pool, targets, 2, observed=first, **arguments)
    np.testing.assert_array_equal(second.indices, whole.indices[4:])


def test_a_rule_that_reads_what_changes_is_scored_every_time():
    class Careful:
        """Looks at nothing that is kept for the rows, but at the targets' variance."""

        name, unit = "careful", "none"
        needs = frozenset({"correlation"})
        needs_targets, weighs_targets, gains_only_shrink, is_signed = True, False, False, False

        def gain(self, state):
            return state.correlation.square() @ state.target_variance

    rng = np.random.default_rng(2)
    pool, targets = rng.standard_normal((100, 4)), rng.standard_normal((3, 4))
    chosen = tm.select(pool, targets, 6, rule=Careful(), noise_std=0.1)
    after = tm.select(pool, targets, 1, rule=Careful(), noise_std=0.1, observed=chosen.indices[:5])
    assert after.indices[0] == chosen.indices[5]
    assert after.gains[0] == pytest.approx(chosen.gains[5])


def test_a_map_to_more_features_than_points_needs_no_matrix_of_features():
    rng = np.random.default_rng(3)
    pool, targets = rng.standard_normal((30, 3)), rng.standard_normal((2, 3))
    W = torch.from_numpy(rng.standard_normal((3, 20_000)))
    kernel = tm.kernels.FeatureMap(lambda x: torch.tanh(x @ W))
    chosen = tm.select(pool, targets, 4, kernel=kernel, floor=True)
    assert chosen.settings["form"] == "function space"
    as_rows = tm.select(
        torch.tanh(torch.from_numpy(pool) @ W),
        torch.tanh(torch.from_numpy(targets) @ W),
        4,
        kernel="linear",
    )
    np.testing.assert_array_equal(chosen.indices, as_rows.indices)


def test_the_nearest_target_is_that_of_the_largest_correlation_under_the_kernel():
    far = POOL + 5  # without centring all look alike
    chosen = tm.select(far, TARGETS + 5, 4, normalize="center+unit", kernel="linear")
    cosines = oracle.cosines(far[chosen.indices] - far.mean(0), TARGETS + 5 - far.mean(0))
    np.testing.assert_array_equal(chosen.nearest_target, cosines.argmax(1))
    np.testing.assert_allclose(chosen.similarity, cosines.max(1), rtol=1e-9)
    chosen = tm.select(POOL, TARGETS, 4, kernel=KERNELS["gaussian"])
    squared = ((POOL[chosen.indices][:, None] - TARGETS) ** 2).sum(axis=2)
    np.testing.assert_array_equal(chosen.nearest_target, squared.argmin(1))
    np.testing.assert_allclose(chosen.similarity, np.exp(-squared.min(1) / 18), rtol=1e-9)
    assert tm.select(POOL, k=3, rule="k-center").nearest_target is None
