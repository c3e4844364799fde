"""A Ray cluster picks what one process picks, whatever happens to its workers meanwhile."""

import csv
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import cluster_cases as cases
import numpy as np
import pytest

import tellmost as tm

pytestmark = pytest.mark.starts_ray
SECONDS = 400  # a hang is an error, not a wait


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """What the cluster made of all cases, in a network of its own."""
    pytest.importorskip("ray")
    own_network = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    may = shutil.which("unshare") and shutil.which("ip")
    if not may or subprocess.run([*own_network, "true"], capture_output=True).returncode:
        pytest.skip("Ray listens on the machine's address, and no network of its own is allowed")
    folder = tmp_path_factory.mktemp("cluster")
    here = [str(Path(tm.__file__).parents[1]), *(entry for entry in sys.path if entry)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(here), "OMP_NUM_THREADS": "1"}
    command = [*own_network, sys.executable, cases.__file__, str(folder)]
    done = subprocess.run(
        command, env=environment, cwd=folder, timeout=SECONDS, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def load(folder: Path, name: str) -> tm.Selection:
    said = json.loads((folder / "said.json").read_text())
    assert name not in said, said[name]
    return tm.Selection.load(folder / f"{name}.tellmost")


def assert_same(chosen: tm.Selection, k: int, **options) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = tm.select(cases.ROWS, cases.TARGETS, k, **options)
    np.testing.assert_array_equal(chosen.indices, whole.indices)
    np.testing.assert_allclose(chosen.gains, whole.gains, rtol=1e-9)
    np.testing.assert_allclose(chosen.uncertainty, whole.uncertainty, rtol=1e-9)
    assert chosen.fingerprint == whole.fingerprint
    assert chosen.ids.tolist() == [cases.IDS[row] for row in whole.indices]


def test_workers_pick_what_one_process_picks(folder):
    chosen = load(folder, "local")
    assert_same(chosen, cases.K, **cases.LIMITS)
    assert chosen.settings["processes"] == 2
    about = chosen.settings["cluster"]
    assert (about["workers"], about["faults"]) == (2, [])
    assert len(about["processor_seconds"]) == len(about["most_memory"]) == 2


def test_a_run_survives_a_killed_and_a_frozen_worker_and_the_loss_of_a_node(folder):
    chosen = load(folder, "lost")
    assert_same(chosen, cases.K)
    faults = chosen.settings["cluster"]["faults"]
    assert len(faults) >= 3 and "ActorDiedError" in faults[0]
    assert any("has not answered for 8 s" in fault for fault in faults[1:])
    assert chosen.settings["cluster"]["workers"] == 1 == chosen.settings["processes"]
    assert "workers were lost" in chosen.settings["notes"][-1]


def test_a_run_goes_on_from_its_checkpoint_with_fewer_workers_and_from_a_dataset(folder):
    chosen = load(folder, "resumed")
    assert_same(chosen, cases.K + 8)
    assert chosen.settings["resumed_picks"] == cases.K


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("given up", "RuntimeError", "the selection was given up after 1 faults: worker 0 on"),
        ("too many", "RuntimeError", "must have room for 5 workers of 1 CPUs"),
        ("nan", "ValueError", "pool must be finite; row 0 of bad.npy"),
    ],
)
def test_what_cannot_be_done_is_said(name, kind, text, folder):
    came, said = json.loads((folder / "said.json").read_text())[name]
    assert came == kind and text in said


def test_no_worker_is_left(folder):
    assert json.loads((folder / "said.json").read_text())["still running"] == []


def test_the_command_writes_the_ids_that_the_workers_found(folder):
    assert json.loads((folder / "said.json").read_text())["command"] == 0
    with (folder / "picks.csv").open(newline="") as file:
        ids = [pick["id"] for pick in csv.DictReader(file)]
    expected = tm.select(cases.ROWS, cases.TARGETS, 9).indices
    assert ids == [cases.IDS[row] for row in expected]
