"""A run that was interrupted goes on as if nothing had happened, or says why it cannot."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import tellmost as tm
from problems import targets_for
from tellmost import rules
from tellmost.running import progress
from tellmost.selecting import checkpoint as checkpoints
from tellmost.selecting import select

N, D, M, K = 40, 8, 5, 12
RNG = np.random.default_rng(0)
POOL, TARGETS = RNG.normal(size=(N, D)), RNG.normal(size=(M, D))
COST, GROUPS = RNG.uniform(0.5, 2.0, N), np.arange(N) % 4
STDS = RNG.uniform(0.5, 2.0, N)
MATRIX = (lambda X: X @ X.T)(RNG.normal(size=(N + M, D)))


class Interrupting:
    """In the place of the progress line: Ctrl-C after so many picks."""

    picks = 0

    def __init__(self, progress, **_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __call__(self, picks, most, gain):
        if picks == self.picks:
            raise KeyboardInterrupt


def interrupt(path, picks, *arguments, **options):
    """A run that ends with Ctrl-C after so many picks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(select, "ProgressLine", Interrupting)
        patch.setattr(Interrupting, "picks", picks)
        with pytest.raises(KeyboardInterrupt):
            tm.select(*arguments, checkpoint=path, progress=True, **options)


def assert_same_run(resumed, whole, picks):
    """The picks from the file are the same to the bit, the others up to rounding."""
    np.testing.assert_array_equal(resumed.indices, whole.indices)
    np.testing.assert_array_equal(resumed.gains[:picks], whole.gains[:picks])
    np.testing.assert_array_equal(resumed.uncertainty[: picks + 1], whole.uncertainty[: picks + 1])
    np.testing.assert_allclose(resumed.gains, whole.gains, rtol=1e-9)
    np.testing.assert_allclose(resumed.uncertainty, whole.uncertainty, rtol=1e-9)
    np.testing.assert_allclose(resumed.target_variance, whole.target_variance, rtol=1e-9)
    assert resumed.stop_reason == whole.stop_reason
    assert resumed.settings["resumed_picks"] == picks


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


# ---- going on


RUNS = {rule: {"rule": rule} for rule in rules.names()} | {
    "gaussian": {"kernel": tm.kernels.Gaussian(3.0)},
    "uncertainty in function space": {"rule": "uncertainty", "kernel": tm.kernels.Gaussian(3.0)},
    "mm-itl in function space": {"rule": "mm-itl", "kernel": tm.kernels.Matern(1.5, 3.0)},
    "feature map": {"kernel": tm.kernels.FeatureMap(lambda x: torch.tanh(x))},
    "ranked once": {"conditional": False},
    "cost": {"cost": COST},
    "random within a budget": {"rule": "random", "cost": COST, "budget": 15.0},
    "budget": {"cost": COST, "budget": 9.0, "k": None},
    "cost and a least gain": {"cost": COST, "min_gain_share": 0.05, "k": None},
    "least gain": {"min_gain_share": 0.05, "k": None},
    "groups": {"groups": GROUPS, "max_per_group": 2},
    "replace": {"replace": True, "noise_std": 4.0},
    "random with replace": {"rule": "random", "replace": True},
    "observed rows": {"observed": [3, 14, 15]},
    "observed points": {"observed": TARGETS[:2] + 0.5},
    "candidates": {"candidates": np.arange(5, N, 2), "observed": [0, 5]},
    "per-point noise": {"noise_std": STDS},
    "normalised": {"normalize": "center+unit"},
    "weights": {"target_weights": [1.0, 2.0, 0.0, 4.0, 5.0]},
    "little noise": {"noise_std": 1e-3, "k": 30},
}


@pytest.mark.parametrize("picks", [1, 5])
@pytest.mark.parametrize("options", RUNS.values(), ids=RUNS)
def test_an_interrupted_run_goes_on_where_it_was(options, picks, path):
    options = {"k": K, **options}
    targets = targets_for(options.get("rule", "vtl"), POOL, TARGETS)
    whole = tm.select(POOL, targets, **options)
    interrupt(path, picks, POOL, targets, **options)
    assert_same_run(tm.select(POOL, targets, checkpoint=path, **options), whole, picks)


UNDIRECTED = ["uncertainty", "undirected-itl", "undirected-vtl", "random", "k-center", "k-means++"]


@pytest.mark.parametrize("conditional", [True, False])
@pytest.mark.parametrize("kernel", [None, tm.kernels.Gaussian(3.0)], ids=["linear", "gaussian"])
@pytest.mark.parametrize("rule", UNDIRECTED)
def test_rules_without_targets_go_on_where_they_were(rule, kernel, conditional, path):
    options = {"k": K, "rule": rule, "kernel": kernel, "conditional": conditional}
    whole = tm.select(POOL, **options)
    interrupt(path, 5, POOL, **options)
    resumed = tm.select(POOL, checkpoint=path, **options)
    assert_same_run(resumed, whole, 5)
    assert_same_run(tm.select(POOL, checkpoint=path, **options), resumed, K)


def test_numbers_of_a_matrix_go_on_where_they_were(path):
    options = {"k": K, "kernel": tm.kernels.Precomputed(MATRIX), "noise_std": 0.5}
    rows, targets = np.arange(N), np.arange(N, N + M)
    whole = tm.select(rows, targets, **options)
    interrupt(path, 5, rows, targets, **options)
    assert_same_run(tm.select(rows, targets, checkpoint=path, **options), whole, 5)


def test_a_run_may_be_interrupted_again_and_again(path):
    whole = tm.select(POOL, TARGETS, K)
    for picks in (2, 3, 7):
        interrupt(path, picks, POOL, TARGETS, K)
    assert_same_run(tm.select(POOL, TARGETS, K, checkpoint=path), whole, 7)


def test_a_run_that_was_not_interrupted_is_the_same_with_a_checkpoint(path):
    with_file = tm.select(POOL, TARGETS, K, checkpoint=path)
    assert_same_run(with_file, tm.select(POOL, TARGETS, K), 0)


def test_without_a_checkpoint_nothing_is_resumed():
    assert tm.select(POOL, TARGETS, 3).settings["resumed_picks"] == 0


@pytest.mark.parametrize("rule", ["vtl", "itl", "ctl", "mm-itl", "uncertainty", "random"])
def test_a_finished_run_returns_what_it_returned_and_leaves_its_file(rule, path):
    first = tm.select(POOL, TARGETS, K, rule=rule, checkpoint=path)
    content = path.read_bytes()
    again = tm.select(POOL, TARGETS, K, rule=rule, checkpoint=path)
    assert_same_run(again, first, K)
    assert path.read_bytes() == content


def test_a_finished_run_takes_no_pass_for_each_pick(path):
    first = tm.select(POOL, TARGETS, K, checkpoint=path)
    again = tm.select(POOL, TARGETS, K, checkpoint=path)
    assert again.settings["passes"] == 1 < first.settings["passes"]


def test_a_larger_k_goes_on_and_a_smaller_one_is_a_prefix(path):
    whole = tm.select(POOL, TARGETS, K)
    for k, resumed in ((8, 0), (K, 8), (3, 3)):
        chosen = tm.select(POOL, TARGETS, k, checkpoint=path)
        assert chosen.settings["resumed_picks"] == resumed and chosen.stop_reason == "k reached"
        np.testing.assert_array_equal(chosen.indices, whole.indices[:k])
        np.testing.assert_array_equal(chosen.gains, whole.gains[:k])
        np.testing.assert_array_equal(chosen.uncertainty, whole.uncertainty[: k + 1])
    assert len(lines_of(path)) == K + 1


@pytest.mark.parametrize("bound", ["min_gain", "min_gain_share"])
def test_a_least_gain_that_picks_of_the_file_do_not_reach_ends_there(bound, path):
    whole = tm.select(POOL, TARGETS, K, checkpoint=path)
    least = whole.gains[4] * 1.001 / (1.0 if bound == "min_gain" else whole.gains[0])
    chosen = tm.select(POOL, TARGETS, K, checkpoint=path, **{bound: least})
    plain = tm.select(POOL, TARGETS, K, **{bound: least})
    assert_same_run(chosen, plain, len(plain))
    assert 0 < len(plain) < K and bound in chosen.stop_reason
    assert len(lines_of(path)) == K + 1


def test_a_least_gain_above_the_first_one_leaves_nothing(path):
    whole = tm.select(POOL, TARGETS, K, checkpoint=path)
    chosen = tm.select(POOL, TARGETS, K, checkpoint=path, min_gain=2 * whole.gains[0])
    assert len(chosen) == 0 and "min_gain" in chosen.stop_reason


def test_equal_gains_all_reach_a_share_of_one(path):
    pool, options = np.eye(6), {"noise_std": 0.1, "min_gain_share": 1.0, "kernel": "linear"}
    whole = tm.select(pool, np.eye(6), **options)
    interrupt(path, 3, pool, np.eye(6), **options)
    assert_same_run(tm.select(pool, np.eye(6), checkpoint=path, **options), whole, 3)


def test_what_changes_no_pick_may_change(path):
    interrupt(path, 5, POOL, TARGETS, K)
    chosen = tm.select(
        POOL, TARGETS, K + 1, checkpoint=str(path), floor=True, device="cpu", progress=False
    )
    assert chosen.settings["resumed_picks"] == 5 and chosen.floor is not None


def test_the_same_values_in_another_dtype_or_from_a_file_are_the_same_run(path, tmp_path):
    pool, targets = POOL.astype(np.float32), TARGETS.astype(np.float32)
    interrupt(path, 5, pool, targets, K)
    np.save(tmp_path / "pool.npy", pool)
    chosen = tm.select(
        tmp_path / "pool.npy", torch.from_numpy(targets).double(), K, checkpoint=path
    )
    assert chosen.settings["resumed_picks"] == 5


def test_rounding_makes_no_other_run(path):
    """Another device or number of threads rounds means, lengths and products differently."""
    options = {"k": K, "kernel": tm.kernels.Gaussian(3.0), "noise_std": 0.5}
    interrupt(path, 5, POOL, TARGETS, **options)
    nearly = TARGETS * (1 + 1e-15 * np.sign(TARGETS))
    options["noise_std"] *= 1 + 1e-15
    chosen = tm.select(POOL, nearly, checkpoint=path, **options)
    assert chosen.settings["resumed_picks"] == 5


def test_the_time_left_is_that_of_new_picks(capfd, monkeypatch):
    seconds = iter([0.0, 10.0, 20.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))
    with progress.ProgressLine(True) as line:
        line(901, 1_000, 0.5)
        line(902, 1_000, 0.5)
    assert "902 of 1,000 picks, gain 0.5, 980 s left" in capfd.readouterr().err


@pytest.mark.process
@pytest.mark.parametrize("rule", ["vtl", "uncertainty", "random"])
def test_a_killed_process_loses_nothing(rule, path):
    code = (
        "import sys, time, numpy as np, tellmost as tm\n"
        "from tellmost.running.progress import ProgressLine\n"
        "ProgressLine.__call__ = lambda *_: time.sleep(0.005)\n"
        "pool, targets = np.load(sys.argv[1]), np.load(sys.argv[2])\n"
        "tm.select(pool, targets, 200, rule=sys.argv[4], checkpoint=sys.argv[3])\n"
    )
    rng = np.random.default_rng(1)
    pool, targets = rng.normal(size=(500, D)), rng.normal(size=(M, D))
    files = [path.with_name("pool.npy"), path.with_name("targets.npy")]
    for file, array in zip(files, (pool, targets), strict=True):
        np.save(file, array)
    child = subprocess.Popen([sys.executable, "-c", code, *files, path, rule])
    try:
        while len(lines_of(path)) < 20:
            assert child.poll() is None
            time.sleep(0.01)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    made = len(lines_of(path)) - 1
    chosen = tm.select(pool, targets, 200, rule=rule, checkpoint=path)
    assert 19 <= chosen.settings["resumed_picks"] <= made < 200
    assert_same_run(
        chosen, tm.select(pool, targets, 200, rule=rule), chosen.settings["resumed_picks"]
    )


# ---- the file


def lines_of(path):
    return path.read_bytes().splitlines() if path.exists() else []


def test_the_file_says_what_was_picked(path):
    chosen = tm.select(POOL, TARGETS, 4, candidates=np.arange(10, N), checkpoint=path)
    header, *picks = map(json.loads, lines_of(path))
    assert header["tellmost_checkpoint"] == 1 and header["run"]["rule"].startswith("vtl")
    assert [pick["row"] for pick in picks] == chosen.indices.tolist()
    assert [pick["gain"] for pick in picks] == chosen.gains.tolist()
    assert [pick["uncertainty"] for pick in picks] == chosen.uncertainty[1:].tolist()
    assert list(path.parent.iterdir()) == [path]


def test_every_pick_is_with_the_system_before_the_next_is_made(path, monkeypatch):
    sizes = []

    def look(self, picks, most, gain):
        sizes.append(len(lines_of(path)) - 1)

    monkeypatch.setattr(select.ProgressLine, "__call__", look)
    tm.select(POOL, TARGETS, 4, checkpoint=path, progress=True)
    assert sizes == [1, 2, 3, 4]


@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_the_disk_is_waited_for_now_and_then_and_at_the_end(seconds, path, monkeypatch):
    sizes, sync = [], os.fsync

    def look(file):
        if stat.S_ISREG(os.fstat(file).st_mode):  # and no folder
            sizes.append(os.fstat(file).st_size)
        sync(file)

    monkeypatch.setattr(os, "fsync", look)
    monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN_SYNCS", seconds)
    interrupt(path, 4, POOL, TARGETS, K)
    assert len(sizes) == (2 if seconds else 6)
    assert sizes[-1] == path.stat().st_size


@pytest.mark.parametrize("cut", [1, 7, 30])
def test_a_torn_last_line_is_written_anew(cut, path):
    whole = tm.select(POOL, TARGETS, K)
    interrupt(path, 5, POOL, TARGETS, K)
    path.write_bytes(path.read_bytes()[:-cut])
    assert_same_run(tm.select(POOL, TARGETS, K, checkpoint=path), whole, 4)
    assert [json.loads(line)["row"] for line in lines_of(path)[1:]] == whole.indices.tolist()


def test_a_file_of_a_first_line_alone_is_a_run_before_its_first_pick(path):
    whole = tm.select(POOL, TARGETS, K, checkpoint=path)
    path.write_bytes(lines_of(path)[0] + b"\n")
    assert_same_run(tm.select(POOL, TARGETS, K, checkpoint=path), whole, 0)


def test_what_an_interrupted_beginning_left_is_no_obstacle(path):
    left = path.with_name(path.name + ".123-abcd.part")  # by a run that was killed
    left.write_bytes(b'{"tellmost_ch')
    assert len(tm.select(POOL, TARGETS, 3, checkpoint=path)) == 3
    assert sorted(path.parent.iterdir()) == sorted([path, left])  # it may be somebody's


def test_a_run_that_fails_before_its_first_pick_leaves_no_file(path):
    kernel = tm.kernels.FeatureMap(lambda x: x[:1])
    with pytest.raises(ValueError, match="FeatureMap"):
        tm.select(POOL, TARGETS, 3, kernel=kernel, checkpoint=path)
    assert not path.exists()


# ---- refusals


def refuse(match, path, *arguments, error=ValueError, **options):
    """Refused with this message, and the file left as it was."""
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(error, match=match):
        tm.select(*arguments, checkpoint=path, **options)
    assert before is None or path.read_bytes() == before


def replace_line(path, number, text):
    lines = path.read_bytes().split(b"\n")
    lines[number - 1] = text
    path.write_bytes(b"\n".join(lines))


GARBAGE = {
    "nothing": b"",
    "words": b"rank,index\n1,2\n",
    "bytes": bytes(range(256)),
    "a number": b"3\n",
    "other JSON lines": b'{"row": 1}\n{"row": 2}\n',
    "half a first line": b'{"tellmost_checkpoint": 1, "run": {"po',
    "a damaged first line": b'{"tellmost_checkpoint": 1, "run": {"po\n',
}


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE)
def test_another_file_is_refused_and_left_alone(content, path):
    path.write_bytes(content)
    refuse(r"run\.jsonl exists, and is no checkpoint.*another path", path, POOL, TARGETS, k=3)


def test_another_format_is_refused(path):
    path.write_bytes(b'{"tellmost_checkpoint": 99, "run": {}}\n')
    refuse(r"another version of Tellmost \(format 99, this one", path, POOL, TARGETS, k=3)


DAMAGE = {
    "empty": b"",
    "torn": b'{"row": 3, "gain": 0.1',
    "zeros": b"\0" * 40,
    "a list": b"[1, 2.0, 3.0]",
    "no gain": b'{"row": 3, "uncertainty": 0.1}',
    "a negative row": b'{"row": -1, "gain": 0.1, "uncertainty": 0.1}',
    "a huge row": b'{"row": 99999999999999999999, "gain": 0.1, "uncertainty": 0.1}',
    "a broken row": b'{"row": 1.5, "gain": 0.1, "uncertainty": 0.1}',
    "a gain in words": b'{"row": 1, "gain": "0.1", "uncertainty": 0.1}',
}


@pytest.mark.parametrize("text", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_line_is_named(text, path):
    tm.select(POOL, TARGETS, 5, checkpoint=path)
    replace_line(path, 3, text)
    refuse(r"run\.jsonl is damaged: line 3 is no pick", path, POOL, TARGETS, k=5)


def test_picks_that_cannot_have_been_made_are_refused(path):
    options = {"k": 5, "candidates": np.arange(1, N, 2)}
    chosen = tm.select(POOL, TARGETS, checkpoint=path, **options)
    text = '{{"row": {}, "gain": 0.1, "uncertainty": 0.1}}'
    for row in (0, N, 10**9, chosen.indices[0]):  # no candidates, and one picked before
        replace_line(path, 3, text.format(row).encode())
        match = r"line 3 is not a pick .* its row .*damaged, or another version"
        refuse(match, path, POOL, TARGETS, **options)


def lose_a_line(lines):
    del lines[3]


def swap_lines(lines):
    lines[3], lines[4] = lines[4], lines[3]


def times(name, factor):
    def damage(lines):
        pick = json.loads(lines[3])
        lines[3] = json.dumps(pick | {name: factor * pick[name]}).encode()

    return damage


def entry(name, value):
    def put(lines):
        lines[3] = json.dumps(json.loads(lines[3]) | {name: value}).encode()

    return put


FREE_ROW = 11
DAMAGED_PICKS = {
    "a lost line": lose_a_line,
    "swapped lines": swap_lines,
    "another row": entry("row", FREE_ROW),
    "gain 123": entry("gain", 123.0),
    "gain NaN": entry("gain", float("nan")),
    "a negative gain": entry("gain", -0.5),
    "uncertainty -5": entry("uncertainty", -5.0),
    "uncertainty infinite": entry("uncertainty", float("inf")),
    "uncertainty a little off": times("uncertainty", 0.999),
    "half a gain": times("gain", 0.5),
}
REPLAYED = {
    "finished": {"k": 6},
    "going on": {"k": 8},
    "to a least gain": {"k": None, "min_gain": 1e-3},
    "no more than the variance": {"k": 6, "rule": "uncertainty"},
    "of the whole pool": {"k": 6, "targets": None, "rule": "undirected-vtl"},
    "of tiny rows": {"k": 6, "pool": 1e-7 * POOL, "targets": 1e-7 * TARGETS},
    "a baseline": {"k": 6, "rule": "cosine"},
    "at random": {"k": 6, "rule": "random"},
    "ranked once": {"k": 6, "conditional": False},
    "in function space": {"k": 6, "kernel": tm.kernels.Gaussian(3.0)},
}


@pytest.mark.parametrize("options", REPLAYED.values(), ids=REPLAYED)
@pytest.mark.parametrize("damage", DAMAGED_PICKS.values(), ids=DAMAGED_PICKS)
def test_a_damaged_pick_is_refused_and_its_line_is_named(damage, options, path):
    options = {"pool": POOL, "targets": TARGETS, **options}
    chosen = tm.select(**options | {"k": 6, "min_gain": None}, checkpoint=path)
    assert FREE_ROW not in chosen.indices
    lines = lines_of(path)
    damage(lines)
    path.write_bytes(b"\n".join(lines) + b'\n{"ro')  # nor is a torn line touched then
    refuse(r"run\.jsonl .*line 4 is (not a|no) pick", path, **options)


def test_a_line_that_is_too_long_is_damaged_and_a_torn_one_of_any_length_is_not(path):
    whole = tm.select(POOL, TARGETS, K, checkpoint=path)
    content = path.read_bytes()
    path.write_bytes(content + bytes(10**5))  # a power cut leaves zeros
    assert_same_run(tm.select(POOL, TARGETS, K, checkpoint=path), whole, K)
    replace_line(path, 4, b" " * 10**5 + lines_of(path)[3])
    refuse(r"line 4 is no pick", path, POOL, TARGETS, k=K)


def test_no_more_lines_are_read_than_the_call_can_have(path):
    tm.select(POOL, TARGETS, 3, checkpoint=path)
    with path.open("ab") as file:
        file.write(b"{}\n" * 1_000)
    assert len(tm.select(POOL, TARGETS, 3, checkpoint=path)) == 3
    refuse("line 5 is no pick", path, POOL, TARGETS, k=4)
    path.write_bytes(b"".join(line + b"\n" for line in lines_of(path)[:4] * 300))
    refuse("line 5 is no pick", path, POOL, TARGETS, min_gain=1e-9)


def changed(array, value=1.0):
    array = np.array(array)
    array[7 % len(array)] += value
    return array


class Own:
    """A rule without a repr of its own."""

    name, unit, needs = "own", "none", frozenset({"variance"})
    needs_targets = weighs_targets = gains_only_shrink = is_signed = False

    def __init__(self, power):
        self.power = power

    def gain(self, state):
        return state.variance**self.power


PLAIN = {"pool": POOL, "targets": TARGETS, "k": 5, "kernel": "linear"}
OTHERS = {
    "pool": ({}, {"pool": changed(POOL)}, "pool"),
    "targets": ({}, {"targets": changed(TARGETS, 1e-6)}, "targets"),
    "order of targets": ({}, {"targets": TARGETS[::-1]}, "targets"),
    "fewer targets": ({}, {"targets": TARGETS[:3]}, "targets and target_weights"),
    "no targets": ({"rule": "random"}, {"targets": None}, "targets and target_weights"),
    "target weights": ({}, {"target_weights": [1, 2, 3, 4, 5]}, "target_weights"),
    "noise": ({"noise_std": 0.1}, {"noise_std": 0.2}, "noise"),
    "noise ratio": ({}, {"noise_ratio": 2.0}, "noise"),
    "noise of a point": ({"noise_std": STDS}, {"noise_std": changed(STDS)}, "noise"),
    "noise per point": ({"noise_std": 1.0}, {"noise_std": np.ones(N)}, "noise"),
    "targets and noise": ({}, {"targets": -TARGETS, "noise_ratio": 2.0}, "targets and noise"),
    "rule": ({}, {"rule": "itl"}, "rule"),
    "seed": ({"rule": "random"}, {"rule": tm.rules.Random(seed=1)}, "rule"),
    "relevance": ({"rule": "mmr"}, {"rule": tm.rules.MMR(0.7)}, "rule"),
    "about": ({"rule": "itl"}, {"rule": "itl-y"}, "rule"),
    "own rule": ({"rule": Own(1.0)}, {"rule": Own(2.0)}, "rule"),
    "kernel": ({}, {"kernel": tm.kernels.Gaussian(3.0)}, "kernel"),
    "lengthscale": (
        {"kernel": tm.kernels.Gaussian(3.0)},
        {"kernel": tm.kernels.Gaussian(3.0001)},
        "kernel",
    ),
    "covariance": (
        {"kernel": tm.kernels.Linear(torch.eye(D))},
        {"kernel": tm.kernels.Linear(1.0001 * torch.eye(D)), "noise_std": 1.0},
        "values of the kernel",
    ),
    "feature map": (
        {"kernel": tm.kernels.FeatureMap(lambda x: x[:, :3])},
        {"kernel": tm.kernels.FeatureMap(lambda x: x[:, 1:4])},
        "values of the kernel and noise",
    ),
    "normalize": ({}, {"normalize": "unit"}, "normalize"),
    "candidates": ({}, {"candidates": np.arange(30)}, "candidates"),
    "other candidates": (
        {"candidates": np.arange(30)},
        {"candidates": np.arange(1, 31)},
        "candidates",
    ),
    "observed rows": ({"observed": [1, 2]}, {"observed": [1, 3]}, "observed"),
    "observed points": ({"observed": POOL[:2]}, {"observed": POOL[1:3]}, "observed"),
    "nothing observed": ({"observed": [1, 2]}, {"observed": None}, "observed"),
    "cost": ({"cost": COST}, {"cost": changed(COST)}, "cost"),
    "no cost": ({"cost": COST}, {"cost": None}, "cost"),
    "budget": ({"cost": COST, "budget": 20.0}, {"budget": 21.0}, "budget"),
    "groups": (
        {"groups": GROUPS, "max_per_group": 2},
        {"groups": changed(GROUPS, -3)},
        "groups",
    ),
    "max_per_group": (
        {"groups": GROUPS, "max_per_group": 2},
        {"max_per_group": 3},
        "max_per_group",
    ),
    "replace": ({}, {"replace": True}, "replace"),
    "conditional": ({}, {"conditional": False}, "conditional"),
    "least gain where costs rank": (
        {"cost": COST},
        {"min_gain": 1e-3},
        "min_gain or min_gain_share",
    ),
}


@pytest.mark.parametrize(("options", "other", "named"), OTHERS.values(), ids=OTHERS)
def test_the_checkpoint_of_another_run_is_refused_and_says_what_differs(
    options, other, named, path
):
    if "noise_std" not in options | other:
        options = {"noise_ratio": 1.0, **options}
    elif "noise_std" not in options:
        options = {"noise_std": 1.0, **options}
    arguments = PLAIN | options
    tm.select(**arguments, checkpoint=path)
    match = rf"^checkpoint run\.jsonl belongs to another run, which differs in {named}\. Delete it"
    refuse(match, path, **(arguments | other))
    assert len(tm.select(**arguments, checkpoint=path)) == 5


def test_another_matrix_is_refused(path):
    arguments = {"k": 3, "noise_std": 0.5, "checkpoint": path}
    rows, targets = np.arange(N), np.arange(N, N + M)
    tm.select(rows, targets, kernel=tm.kernels.Precomputed(MATRIX), **arguments)
    of_pool, of_targets = MATRIX.copy(), MATRIX.copy()
    of_pool[1, 1] += 0.5
    of_targets[N + 1, N + 1] += 0.5
    for matrix, named in ((of_pool, "pool"), (of_targets, "values of the kernel")):
        with pytest.raises(ValueError, match=f"differs in {named}"):
            tm.select(rows, targets, kernel=tm.kernels.Precomputed(matrix), **arguments)


@pytest.mark.skipif(
    "config.getoption('--shapes', False)",
    reason="with shapes checked, annotations refuse bad input before the library does",
)
@pytest.mark.parametrize("checkpoint", [3, b"run.jsonl", True, ["run.jsonl"]])
def test_a_path_has_to_be_one(checkpoint):
    with pytest.raises(TypeError, match="checkpoint must be the path of a file; got"):
        tm.select(POOL, TARGETS, 3, checkpoint=checkpoint)


def test_a_folder_is_refused(tmp_path):
    refuse("is a folder", tmp_path, POOL, TARGETS, k=3)


def test_a_missing_folder_is_named(tmp_path):
    path = tmp_path / "gone" / "run.jsonl"
    refuse("no folder .*gone.*Make it first", path, POOL, TARGETS, k=3, error=FileNotFoundError)


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="there is no such device here")
def test_a_device_is_refused():
    refuse("is a device or pipe", Path("/dev/null"), POOL, TARGETS, k=3)
