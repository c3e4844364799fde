"""The memory budget: what it may be, what becomes of it, and that it is kept."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tellmost as tm
from tellmost import numerics
from tellmost.running import memory

CPU = torch.device("cpu")
POOL = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
TARGETS = np.random.default_rng(1).normal(size=(3, 4))

SIZES = {
    "500MB": 500_000_000,
    "4GB": 4_000_000_000,
    "2GiB": 2**31,
    "1.5 kB": 1_500,
    " 7 b ": 7,
    "1TiB": 2**40,
    123: 123,
}


@pytest.mark.parametrize(("given", "count"), SIZES.items(), ids=str)
def test_a_size_may_be_written_as_people_do(given, count):
    assert memory.check_memory(given) == count


NO_SIZES = [
    *("", "lots", "4", "4 G", "-1GB", "1e9B", "4GB!", "0MB", 0, -5),
    *(True, 1.5, [1], b"4GB"),
]


@pytest.mark.skipif("config.getoption('--shapes', False)", reason="annotations refuse it first")
@pytest.mark.parametrize("given", NO_SIZES, ids=repr)
def test_what_is_no_size_is_refused_before_the_pool_is_opened(given):
    with pytest.raises(
        (ValueError, TypeError), match="memory must be a whole number of"
    ) as caught:
        tm.select("gone.npy", TARGETS, k=1, memory=given, kernel="linear")
    assert "'500MB', '4GB' or '2GiB'" in str(caught.value)
    assert "half of what is available" in str(caught.value)


def test_a_budget_that_is_too_small_says_what_is_needed_and_for_what():
    pool = np.ones((100_000, 16), np.float32)
    with pytest.raises(ValueError, match="memory must be at least") as caught:
        tm.select(pool, np.ones((2, 16)), k=1, memory="8MB", kernel="linear")
    message = str(caught.value)
    assert "100,000 rows of 16 features and 2 targets" in message
    assert "11.2 MB for values per row" in message and "got 8 MB. Give more" in message


def test_without_a_budget_half_of_what_is_available_is_taken(monkeypatch):
    monkeypatch.setattr("tellmost.running.memory.available", lambda device: 10**8)
    assert tm.select(POOL, TARGETS, k=1, kernel="linear").settings["memory"] == 5 * 10**7


def test_a_pool_that_needs_more_than_half_of_what_is_available_takes_more(monkeypatch):
    monkeypatch.setattr("tellmost.running.memory.available", lambda device: 5 * 10**6)
    pool = np.ones((16_000, 4), np.float32)
    chosen = tm.select(pool, TARGETS, k=1, kernel="linear")
    assert 2.5e6 < chosen.settings["memory"] <= 5 * 10**6


def test_too_little_available_memory_is_said_to_be_that(monkeypatch):
    monkeypatch.setattr("tellmost.running.memory.available", lambda device: 1_000)
    with pytest.raises(ValueError, match="that much is not available"):
        tm.select(POOL, TARGETS, k=1, kernel="linear")


def test_available_memory_is_a_plausible_number(monkeypatch):
    assert 10**7 < memory.available(CPU) < 10**14
    monkeypatch.setattr(memory, "Path", lambda path: Path("/nowhere"))
    assert 10**7 < memory.available(CPU) < 10**14


@given(
    rows=st.integers(1, 10**7),
    features=st.integers(1, 4_096),
    targets=st.integers(0, 1_000),
    factor=st.floats(1.0, 100.0),
)
def test_the_parts_of_a_plan_add_up_to_the_budget(rows, features, targets, factor):
    sizes = memory.Sizes(
        rows,
        features,
        targets,
        4 * rows * features,
        picks=10,
        has_weights=True,
        sees_targets=False,
    )
    budget = int(factor * memory.least_budget(sizes))
    made = memory.plan(sizes, budget, CPU, is_here=False)
    held = sizes.data_bytes if made.holds_pool else 0
    used = sizes.for_rows + sizes.for_points + sizes.for_blocks(made.block_bytes, made.threads)
    assert used + held + made.kept == budget
    assert held <= budget / 2
    assert made.block_bytes <= numerics.BLOCK_BYTES
    assert memory.plan(sizes, budget, CPU, is_here=True).holds_pool is False


def test_a_file_is_held_up_to_half_the_budget_and_streamed_beyond(tmp_path):
    pool = np.random.default_rng(0).normal(size=(4_000, 128)).astype(np.float32)  # 2 MB
    np.save(tmp_path / "pool.npy", pool)
    targets = pool[:3] + 0.1
    expected = tm.select(pool, targets, k=5, kernel="linear")
    for budget, how in (("8MB", "held"), ("4MB", "streamed"), (None, "held")):
        chosen = tm.select(tmp_path / "pool.npy", targets, k=5, memory=budget, kernel="linear")
        assert chosen.settings["pool"] == how
        np.testing.assert_array_equal(chosen.indices, expected.indices)
    array = tm.select(pool, targets, k=5, memory="4MB", kernel="linear")
    assert array.settings["pool"] == "held" and array.settings["memory"] == 4_000_000


@pytest.mark.parametrize("rule", ["mm-itl", "vtl", "cosine"])
@pytest.mark.parametrize("kernel", [tm.kernels.Linear(), tm.kernels.Gaussian(3.0)], ids=repr)
def test_covariances_that_do_not_fit_are_recomputed(rule, kernel):
    pool = np.random.default_rng(0).normal(size=(3_000, 8))
    targets = np.random.default_rng(1).normal(size=(90, 8))
    arguments = {"k": 4, "rule": rule, "kernel": kernel}
    tight = tm.select(pool, targets, memory="2.1MB", **arguments)
    ample = tm.select(pool, targets, **arguments)
    np.testing.assert_array_equal(tight.indices, ample.indices)
    np.testing.assert_allclose(tight.gains, ample.gains, rtol=1e-9)


def test_features_that_do_not_fit_are_not_kept():
    pool = np.random.default_rng(0).normal(size=(3_000, 8))
    kernel = tm.kernels.FeatureMap(lambda x: torch.cat([x, x.square(), x**3], dim=1))
    tight = tm.select(pool, pool[:2], k=4, kernel=kernel, memory="2.1MB")
    ample = tm.select(pool, pool[:2], k=4, kernel=kernel)
    assert (tight.settings["form"], ample.settings["form"]) == ("function space", "weight space")
    np.testing.assert_array_equal(tight.indices, ample.indices)


CODE = """
import json, sys, threading, time
import numpy as np, torch
import tellmost as tm
torch.set_num_threads(1)

def anonymous():
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon"):
            return 1024 * int(line.split()[1])

path, small, rule, budget = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
targets = np.random.default_rng(1).normal(size=(20, 256)).astype(np.float32)
tm.select(small, targets, k=3, rule=rule)  # libraries take memory of their own at first use
before = peak = anonymous()
done = False

def watch():
    global peak
    while not done:
        peak = max(peak, anonymous())
        time.sleep(0.001)

thread = threading.Thread(target=watch)
thread.start()
chosen = tm.select(path, targets, k=6, rule=rule, memory=budget)
done = True
thread.join()
print(json.dumps({"grown": peak - before, "pool": chosen.settings["pool"]}))
"""


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc")
@pytest.mark.parametrize(
    ("form", "rule"), [("npy", "vtl"), ("npy", "mm-itl"), ("parquet", "itl"), ("parquet", "mmr")]
)
def test_a_pool_several_times_the_budget_stays_within_it(form, rule, tmp_path):
    rows = np.random.default_rng(0).standard_normal((70_000, 256), np.float32)  # 72 MB
    budget = 20_000_000 if form == "npy" else 28_000_000  # pyarrow gives memory back late
    paths = [tmp_path / f"pool.{form}", tmp_path / f"small.{form}"]
    for path, part in zip(paths, (rows, rows[:500]), strict=True):
        SAVERS[form](path, part)
    command = [sys.executable, "-c", CODE, *map(str, paths), rule, str(budget)]
    said = json.loads(subprocess.check_output(command, text=True, timeout=300))
    assert said["pool"] == "streamed"
    assert said["grown"] < budget, f"{said['grown'] / 1e6:.1f} MB"


def save_parquet(path, rows):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    column = arrow.FixedSizeListArray.from_arrays(rows.reshape(-1), rows.shape[1])
    table = arrow.table({"v": column})
    parquet.write_table(table, path, row_group_size=10_000, use_dictionary=False)


SAVERS = {"npy": np.save, "parquet": save_parquet}


def make_groups(folder: Path, version: int, groups: dict[str, tuple[str, int, int]]) -> Path:
    """Write control groups as Linux shows them: limit, use and what of it is cached files."""
    names = {
        1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        2: ("memory.max", "memory.current", "inactive_file"),
    }[version]
    for path, (limit, used, cached) in groups.items():
        group = folder / ("memory" if version == 1 else ".") / path
        group.mkdir(parents=True, exist_ok=True)
        (group / names[0]).write_text(f"{limit}\n")
        (group / names[1]).write_text(f"{used}\n")
        (group / "memory.stat").write_text(f"anon 12\n{names[2]} {cached}\n")
    return folder


@pytest.mark.parametrize(
    ("version", "membership"),
    [(1, "12:pids:/\n5:memory:/jobs/mine\n0::/\n"), (2, "0::/jobs/mine\n")],
)
def test_the_limits_of_all_containers_around_the_process_count(version, membership, tmp_path):
    groups = {"jobs/mine": ("max", 70, 0), "jobs": ("1000", 700, 50), "": ("4000", 900, 0)}
    if version == 1:  # which writes a large number for no limit
        groups["jobs/mine"] = (str(2**63 - 4096), 70, 0)
    root = make_groups(tmp_path / "cgroup", version, groups)
    (tmp_path / "mine").write_text(membership)
    left = list(memory.left_of_containers(tmp_path / "mine", root))
    assert min(left) == 350 and 3100 in left
    assert list(memory.left_of_containers(tmp_path / "gone", root)) == []


def test_a_container_that_sees_its_own_group_as_the_root_is_found(tmp_path):
    """Docker with version 1 names the path outside, which is not there inside."""
    root = make_groups(tmp_path, 1, {"": ("1000", 400, 100)})
    (tmp_path / "mine").write_text("5:memory:/docker/0123456789ab\n")
    assert list(memory.left_of_containers(tmp_path / "mine", root)) == [700]


def test_the_budget_keeps_to_the_limit_of_the_process_and_of_its_container(monkeypatch):
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**30, limits[1]))
    try:
        assert 0 < memory.available(CPU) <= 2**30
        budget = tm.select(POOL, TARGETS, k=1, kernel="linear").settings["memory"]
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert budget <= 2**29
    monkeypatch.setattr(memory, "left_of_containers", lambda **_: iter([2**28]))
    assert memory.available(CPU) == 2**28


def test_picks_without_end_are_refused_with_what_they_would_take():
    with pytest.raises(ValueError, match="values per row and 1,000,000,000,000 picks"):
        tm.select(POOL, TARGETS, k=10**12, replace=True, kernel="linear")
    with pytest.raises(ValueError, match="is larger than the 40 candidates"):
        tm.select(POOL, TARGETS, k=10**12, kernel=tm.kernels.Gaussian(1.0))
