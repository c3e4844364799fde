"""estimate: what a selection will take, and the errors that it would give."""

import json

import numpy as np
import pytest
import torch

import tellmost as tm
from tellmost.evaluation.estimation import (
    Range,
    TimedTrial,
    at_size,
    estimate,
    in_time,
    passes_of,
)


def rows(n=3_000, d=12, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)


def bracket(expected: Range, passes: int) -> bool:
    return expected.least <= passes <= expected.most


SETTINGS = {
    "vtl": {},
    "itl": {"rule": "itl"},
    "mm-itl": {"rule": "mm-itl"},
    "ctl": {"rule": "ctl"},
    "uncertainty": {"rule": "uncertainty"},
    "top-k": {"rule": "top-k"},
    "random": {"rule": "random"},
    "mmr": {"rule": "mmr"},
    "one pass per pick": {"columns_ahead": 1},
    "some candidates": {"candidates": np.arange(0, 3_000, 2)},
    "observed": {"observed": np.array([2_999, 5])},
    "noise per row": {"noise_std": np.linspace(0.5, 1, 3_000)},
    "centred": {"normalize": "center+unit"},
    "another kernel": {"kernel": tm.kernels.Matern(1.5, 3.0), "noise_std": 0.3},
    "repeats": {"replace": True},
}


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
def test_a_selection_goes_as_estimated(options, monkeypatch):
    monkeypatch.setattr(
        "tellmost.evaluation.estimation.TRIAL_BYTES", 40_000
    )  # fewer rows than there are
    pool, targets = rows(), rows(10, seed=1)
    expected = estimate(pool, targets, 40, **options)
    chosen = tm.select(pool, targets, 40, **options)
    for name in ("columns_ahead", "pool", "form", "device", "rows", "features", "targets"):
        assert getattr(expected, name) == chosen.settings[name], name
    assert bracket(expected.passes, chosen.settings["passes"])
    assert 0 < expected.seconds.least <= expected.seconds.likely <= expected.seconds.most
    assert expected.trial_rows < len(pool)


def test_a_file_that_does_not_fit_is_streamed_within_its_budget(tmp_path):
    pool, targets = rows(20_000), rows(10, seed=1)
    np.save(tmp_path / "pool.npy", pool)
    expected = estimate(tmp_path / "pool.npy", targets, 30, memory="4MB", kernel="linear")
    chosen = tm.select(tmp_path / "pool.npy", targets, 30, memory="4MB", kernel="linear")
    assert (expected.pool, expected.columns_ahead) == (
        "streamed",
        chosen.settings["columns_ahead"],
    )
    assert bracket(expected.passes, chosen.settings["passes"])
    assert expected.memory <= expected.budget == 4_000_000
    assert "streamed" in expected.describe() and "from the disk" in expected.describe()
    held = estimate(tmp_path / "pool.npy", targets, 30, memory="50MB")
    assert held.pool == "held" and held.memory > held.data_bytes


def test_only_the_first_rows_are_read(monkeypatch):
    monkeypatch.setattr("tellmost.evaluation.estimation.TRIAL_BYTES", 12 * 4 * 200)

    class Blocks:
        def __iter__(self):
            yield rows(200)
            for _ in range(20):
                read.append(1)
                yield rows(200)

    read = []
    list(Blocks())
    shape_known = len(read)
    expected = estimate(Blocks(), rows(3), 5, memory="1.6MB", kernel="linear")
    assert expected.rows == 21 * 200 and expected.pool == "streamed"
    looks = (len(read) - shape_known) / 20
    assert looks < 2  # once for the shape; then the first rows, and a block ahead of them


def test_row_numbers_of_a_matrix_are_estimated_too():
    X = rows(60).astype(np.float64)
    kernel = tm.kernels.Precomputed(X @ X.T)
    expected = estimate(np.arange(50), np.arange(50, 60), 5, kernel=kernel)
    chosen = tm.select(np.arange(50), np.arange(50, 60), 5, kernel=kernel)
    assert bracket(expected.passes, chosen.settings["passes"])


@pytest.mark.parametrize(("n", "k"), [(1, 1), (2, 2), (20, 20)])
def test_tiny_pools_are_estimated(n, k):
    expected = estimate(rows(n), rows(2), k)
    assert expected.passes.least <= expected.passes.likely <= expected.passes.most
    said = json.loads(json.dumps(expected.to_dict()))
    assert said["k"] == k and said["seconds"]["likely"] > 0
    assert max(map(len, expected.describe().splitlines())) <= 80


WRONG = [
    {"rule": "nonsense"},
    {"k": 0},
    {"k": 31},
    {"targets": np.ones((2, 5))},
    {"targets": None},
    {"noise_ratio": 1.0, "noise_std": 1.0},
    {"noise_std": np.ones(3)},
    {"normalize": "l2"},
    {"memory": "much"},
    {"memory": "1KB"},
    {"device": "nowhere"},
    {"kernel": 3},
    {"candidates": [40]},
    {"observed": [1, 1]},
    {"columns_ahead": 0},
    {"target_weights": -np.ones(4)},
    {"pool": np.ones(3)},
    {"pool": "none.npy"},
    {"pool": np.full((30, 12), np.nan)},
]


@pytest.mark.parametrize("change", WRONG, ids=lambda change: "-".join(change))
def test_wrong_arguments_give_the_errors_of_select(change):
    arguments = {"pool": rows(30), "targets": rows(4), "k": 3} | change
    said = []
    for call in (estimate, tm.select):
        with pytest.raises((ValueError, TypeError, OSError)) as error:
            call(**arguments)
        said.append((type(error.value), str(error.value)))
    assert said[0] == said[1]


def trial(**change):
    plain = {
        "rows": 100,
        "first_look": 1.0,
        "set_up": 1.0,
        "each_pass": 1.0,
        "each_pick": 1.0,
        "per_entry": 0.0,
        "form": "weight space",
        "width": 10,
        "values": 2,
        "keeps_covariance": False,
        "passes_at_start": 1,
        "passes_per_pick": 0.1,
        "way": "all rows",
    }
    return TimedTrial(**(plain | change))


def test_times_grow_along_the_line_of_two_trials():
    small, large = trial(rows=100, set_up=2.0), trial(rows=400, set_up=5.0)
    assert at_size([small, large], "set_up", 1_000) == pytest.approx(11.0)
    assert at_size([large], "set_up", 800) == pytest.approx(10.0)
    assert at_size([small, large], "set_up", 400) == 5.0
    no_slower = trial(rows=400, set_up=2.0)  # such as launches on a GPU
    assert at_size([small, no_slower], "set_up", 800) == 2.0


def test_passes_lie_between_the_best_and_the_worst_forecast():
    assert passes_of(trial(), 101) == Range(11, 13, 102)
    assert passes_of(trial(width=1), 50) == Range(50, 50, 51)
    assert passes_of(trial(way="once"), 50) == Range(1, 1, 1)


def test_seconds_are_written_as_people_do():
    assert [in_time(s) for s in (0.0123, 2.5, 90, 7_200)] == ["12.3 ms", "2.5 s", "1.5 min", "2 h"]


def test_tensors_stay_where_they_are():
    expected = estimate(torch.from_numpy(rows()), rows(4), 3)
    assert expected.device == "cpu" and expected.pool == "held"
