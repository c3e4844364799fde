"""Processes that hold a pool between them pick what one process picks that holds all of it."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import shard_cases
import tellmost as tm

CASES = shard_cases.cases()
LOGGED = shard_cases.logged_cases()
TOGETHER = Path(shard_cases.__file__)
ONE_OF_EACH = ("16", "budget", "groups", "features", "matrix", "floor", "top-b", "centred")
FOR_THREE = shard_cases.FOR_THREE
SECONDS = 300  # a hang is an error, not a wait


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """What two processes made of all cases."""
    folder = tmp_path_factory.mktemp("shards")
    for name, case in LOGGED.items():
        case.whole(k=3, checkpoint=folder / f"{name}, alone.jsonl")
    tm.select(np.eye(3), np.eye(3), 2, checkpoint=folder / "alone.jsonl", kernel="linear")
    run_together(2, folder)
    return folder


@pytest.fixture(scope="module")
def folder_of_three(tmp_path_factory) -> Path:
    """What three processes made of some cases."""
    folder = tmp_path_factory.mktemp("three")
    run_together(3, folder)
    return folder


def run_together(size: int, folder: Path) -> None:
    path = os.pathsep.join([str(Path(tm.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(TOGETHER)]
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(size), str(folder)],
            env=environment,
            cwd=folder,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        for rank, process in enumerate(processes):
            _, said = process.communicate(timeout=SECONDS)
            assert process.returncode == 0, f"process {rank}: {said[-3000:]}"
    finally:
        for process in processes:
            process.kill()


@pytest.mark.process
@pytest.mark.parametrize("name", CASES)
def test_two_processes_pick_what_one_picks(name, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = CASES[name].whole()
    for rank in (0, 1):
        assert_same(tm.Selection.load(folder / f"{name}.{rank}"), whole, processes=2)


@pytest.mark.process
@pytest.mark.parametrize("name", [name for name in CASES if name.endswith(FOR_THREE)])
def test_three_processes_pick_what_one_picks(name, folder_of_three):
    whole = CASES[name].whole()
    for rank in (0, 1, 2):
        assert_same(tm.Selection.load(folder_of_three / f"{name}.{rank}"), whole, processes=3)


def assert_same(part: tm.Selection, whole: tm.Selection, *, processes: int) -> None:
    np.testing.assert_array_equal(part.indices, whole.indices)
    for values in ("gains", "uncertainty", "target_variance", "floor", "whole_pool"):
        expected = getattr(whole, values)
        if expected is not None:
            np.testing.assert_allclose(
                getattr(part, values), expected, rtol=1e-9, atol=1e-12, err_msg=values
            )
    assert part.stop_reason == whole.stop_reason
    assert part.fingerprint == whole.fingerprint
    assert part.settings["notes"] == whole.settings["notes"]
    assert part.settings["processes"] == processes
    for count in ("rows", "candidates", "targets", "features", "form"):
        assert part.settings[count] == whole.settings[count]


@pytest.mark.process
@pytest.mark.parametrize("name", CASES)
def test_both_processes_return_the_same(name, folder):
    one, other = (tm.Selection.load(folder / f"{name}.{rank}") for rank in (0, 1))
    assert one.settings == other.settings
    np.testing.assert_array_equal(one.gains, other.gains)
    np.testing.assert_allclose(one.uncertainty, other.uncertainty, rtol=1e-14)


@pytest.mark.process
@pytest.mark.parametrize("writer", ["alone", "together"])
@pytest.mark.parametrize("name", LOGGED)
def test_a_run_goes_on_with_any_number_of_processes(name, writer, folder):
    never_interrupted = LOGGED[name].whole(k=20)
    resumed = [tm.Selection.load(folder / f"{name}, {writer}.{rank}") for rank in (0, 1)]
    log = folder / f"{name}, {writer}.jsonl"
    alone = LOGGED[name].whole(k=20, checkpoint=log)
    assert alone.settings["resumed_picks"] >= 12
    for part in (*resumed, alone):
        assert part.settings["resumed_picks"] >= 5
        np.testing.assert_array_equal(part.indices, never_interrupted.indices[: len(part)])
        np.testing.assert_allclose(
            part.uncertainty, never_interrupted.uncertainty[: len(part) + 1], rtol=1e-9
        )


ERRORS = {
    "nan": "on process 1 of the group: pool must be finite; row 7",
    "nan, centred": "on process 1 of the group: pool must be finite; row 7",
    "features": "the same number of features; got [5] on process 0 and [4] on process 1",
    "features and targets": "the same number of features; got [5] on process 0",
    "k": "the same k; got 3 on process 0 and 4 on process 1",
    "rule": "the same rule; got VTL() on process 0 and ITL(",
    "seed": "the same rule; got Random(seed=0) on process 0",
    "targets": "the same targets",
    "unknown rule": "on process 1 of the group: unknown rule 'vlt'",
    "no file": "on process 1 of the group: ",
    "k too large": "k = 1000 is larger than the 120 candidates",
    "cost": "on process 1 of the group: cost must be positive; row 0 has -1",
    "cost on one": "the same cost; got an entry per row on process 0 and None on process 1",
    "groups on one": "the same groups",
    "observed": "observed must name rows of the pool, 0 to 119; got 120",
    "candidates": "candidates must name at least one row; got none on any process",
    "checkpoint": "on process 0 of the group: checkpoint alone.jsonl belongs to another run",
    "nan rule": "the rule gave NaN",
    "floor": "floor=True with group needs inner products, or at most 2,000 candidates; got",
}


@pytest.mark.process
@pytest.mark.parametrize("name", ERRORS)
def test_an_error_on_one_process_is_an_error_on_both(name, folder):
    kinds = set()
    for rank in (0, 1):
        kind, said = json.loads((folder / f"errors.{rank}.json").read_text())[name]
        assert ERRORS[name] in said
        kinds.add(kind)
    assert len(kinds) == 1 or name == "no file"


@pytest.mark.process
def test_all_errors_are_looked_at(folder):
    assert json.loads((folder / "errors.0.json").read_text()).keys() == ERRORS.keys()


def test_a_group_needs_torch_distributed():
    with pytest.raises(ValueError, match=r"group needs torch\.distributed to be initialised"):
        tm.select(np.eye(3), np.eye(3), 1, group="world", kernel="linear")


@pytest.fixture
def world(tmp_path):
    """This process as a group of its own."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    yield torch.distributed.group.WORLD
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("name", [name for name in CASES if name.endswith(ONE_OF_EACH)])
def test_a_group_of_one_picks_alike(name, world):
    """In this process, so that the shapes are checked in the second pass."""
    case = CASES[name]
    alone = case.whole()
    assert_same(
        tm.select(case.pool, case.targets, **case.options, group=world), alone, processes=1
    )


def test_a_group_is_a_process_group(world):
    with pytest.raises(TypeError, match=r"group must be a process group .*; got str"):
        tm.select(np.eye(3), np.eye(3), 1, group="world", kernel="linear")
