"""What the driver of a cluster does without a cluster: files, shares, picks, refusals."""

import json
import os
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tellmost as tm
from tellmost.cluster.driver import absolute, cut, files_of, own_part
from tellmost.cluster.picks import PickLog

ROWS = np.random.default_rng(0).standard_normal((40, 4)).astype(np.float32)


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=30), st.data())
def test_runs_of_files_are_contiguous_and_each_has_some(counts, data):
    parts = data.draw(st.integers(1, len(counts)))
    runs = cut(counts, parts)
    assert [number for first, stop in runs for number in range(first, stop)] == [
        *range(len(counts))
    ]
    assert len(runs) == parts and all(first < stop for first, stop in runs)


@given(st.integers(1, 50), st.integers(1, 8))
def test_equal_files_are_shared_as_evenly_as_they_can(files, parts):
    parts = min(files, parts)
    sizes = [stop - first for first, stop in cut([7] * files, parts)]
    assert max(sizes) - min(sizes) <= 1


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_the_parts_of_all_workers_are_the_whole(counts, seed):
    n, edges = sum(counts), np.cumsum([0, *counts]).tolist()
    mask = np.random.default_rng(seed).random(n) < 0.5
    whole = {"cost": np.arange(n), "candidates": mask}
    named = {"candidates": np.flatnonzero(mask)}
    pairs = list(pairwise(edges))
    parts = [own_part(whole, *pair, n) for pair in pairs]
    for name, values in whole.items():
        np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), values)
    numbers = [own_part(named, *pair, n)["candidates"] + pair[0] for pair in pairs]
    np.testing.assert_array_equal(np.concatenate(numbers), named["candidates"])


def test_what_has_an_entry_per_row_has_one_for_each():
    with pytest.raises(ValueError, match=r"cost must have one entry per pool row, \(9,\)"):
        own_part({"cost": np.ones(8)}, 0, 5, 9)


def test_paths_are_found_from_anywhere():
    assert absolute(["a.npy", "s3://b/*.npy"]) == [f"{os.getcwd()}/a.npy", "s3://b/*.npy"]
    with pytest.raises(TypeError, match="the pool must be files that all workers can open"):
        files_of(ROWS)


def lines(picks):
    made = [{"row": row, "gain": 0.5, "uncertainty": 0.5} for row in range(picks)]
    return "".join(
        f"{json.dumps(line)}\n" for line in [{"tellmost_checkpoint": 1}, *made]
    ).encode()


@pytest.fixture
def memory():
    store = pytest.importorskip("fsspec").filesystem("memory")
    yield store
    for path in store.find("/"):
        store.rm(path)


def test_generations_are_whole_files_of_which_the_last_counts(memory):
    log = PickLog("memory://runs/run.jsonl")
    assert log.count == 0 and log.name == "run.jsonl"
    log.add(lines(3))
    log.keep()
    log.add(lines(5)[len(lines(3)) :])
    log.keep()
    assert memory.find("/runs") == ["/runs/run.jsonl.00000002"]
    assert PickLog("memory://runs/run.jsonl").content == lines(5)
    memory.pipe("/runs/run.jsonl.00000003", lines(9)[:-200])  # a write that was cut short
    again = PickLog("memory://runs/run.jsonl")
    assert lines(9).startswith(again.content) and again.content.endswith(b"\n")
    memory.pipe("/runs/run.jsonl.00000003", lines(2)[:-1])
    again = PickLog("memory://runs/run.jsonl")
    assert again.count == 5
    again.add(lines(6)[len(lines(5)) :])
    again.keep()
    assert memory.find("/runs") == ["/runs/run.jsonl.00000004"]


def test_a_local_checkpoint_is_that_of_a_run_without_a_cluster(tmp_path):
    path = tmp_path / "run.jsonl"
    tm.select(ROWS, ROWS[:3], 4, checkpoint=path)
    log = PickLog(path)
    assert log.count == 4 and log.content == path.read_bytes()
    whole = PickLog(None)
    whole.add(log.content)
    path.unlink()
    other = PickLog(path)
    other.add(whole.content)
    other.keep()
    assert tm.select(ROWS, ROWS[:3], 4, checkpoint=path).settings["resumed_picks"] == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"workers": 0}, "workers must be a whole number of at least 1"),
        ({"workers": 2, "cpus_per_worker": 0.5}, "cpus_per_worker must be a whole number"),
        ({"workers": 2, "timeout": 0}, "timeout must be a positive"),
        ({"workers": 2, "retries": 1.5}, "retries must be a whole number"),
        ({"workers": 2, "address": "somewhere"}, "address must be None, 'auto'"),
        ({"workers": 2, "address": "ray://host"}, "address must be None, 'auto'"),
    ],
)
def test_settings_that_mean_nothing_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        tm.cluster.Ray(**options)


def test_an_address_where_nobody_listens_is_refused_at_once():
    pytest.importorskip("ray")
    cluster = tm.cluster.Ray(workers=1, address="ray://127.0.0.1:9")
    with pytest.raises(ConnectionError, match=r"address: nobody answers at 127\.0\.0\.1:9"):
        tm.select("rows.npy", ROWS, 2, cluster=cluster)


def test_a_local_start_without_authentication_is_refused(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(ValueError, match="RAY_AUTH_MODE is 'disabled'"):
        tm.select("rows.npy", ROWS, 2, cluster=tm.cluster.Ray(workers=1))


def test_without_ray_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"needs ray; pip install 'tellmost\[ray\]'"):
        tm.select("rows.npy", ROWS, 2, cluster=tm.cluster.Ray(workers=1))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"group": "world"}, "group names yours"),
        ({"embed": "all-minilm"}, "files must hold vectors"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        tm.select("rows.npy", ROWS, 2, cluster=tm.cluster.Ray(workers=1), **options)
