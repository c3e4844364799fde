"""Storages of a study: nothing is lost or doubled, whoever dies and whatever goes away."""

import os
import subprocess
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

optuna = pytest.importorskip("optuna")

from optuna.exceptions import StorageInternalError  # noqa: E402
from optuna.trial import TrialState  # noqa: E402

import study_workers  # noqa: E402
from study_workers import fork, go_on, measure, open_study, settings_of  # noqa: E402
from tellmost.integrations import optuna as field  # noqa: E402
from tellmost.integrations.optuna_storage import retrying  # noqa: E402

KILLS, ROUNDS = 20, 30
pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
is_there = (study_workers.PROGRAMS / "initdb").exists()
without = pytest.mark.skipif(not is_there, reason="needs the Debian package postgresql")
KINDS = ["sqlite", "journal", pytest.param("postgres", marks=[pytest.mark.service, without])]
IN_MEMORY = Path("/dev/shm")


@pytest.fixture
def folder():
    """A folder where writing costs little: a kill asks nothing of the disk."""
    place = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def server():
    with study_workers.postgres() as running:
        yield running


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 400 kB of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk], capture_output=True
    )
    if made.returncode:
        pytest.skip("a file system can only be mounted by root")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def url_of(kind, folder, request):
    if kind == "postgres":
        return request.getfixturevalue("server").new_url()
    return f"sqlite:///{folder}/laser.db" if kind == "sqlite" else f"journal:{folder}/laser.log"


@pytest.mark.parametrize("kind", KINDS)
def test_killed_workers_lose_and_double_nothing(kind, folder, request):
    url = url_of(kind, folder, request)
    rng = np.random.default_rng()  # other moments every time
    met = study_workers.kill_and_check(url, folder, KILLS, ROUNDS, rng)
    assert met == KILLS


def write(url, rounds, rng, delay, failures):
    """A worker that tells some trials late, and some as failed."""
    study = open_study(url, patience=30.0)
    while sum(one.state.is_finished() for one in study.get_trials(deepcopy=False)) < rounds:
        (trial,) = field.ask(study)
        time.sleep(float(rng.uniform(0, delay)))
        if rng.random() < failures:
            field.tell(study, trial, failed="the shutter was closed")
        else:
            field.tell(study, trial, *measure(trial.params))


def workers(url, count, rounds, delay, failures):
    """Run workers side by side, and return the study that they leave."""
    open_study(url)
    generators = [np.random.default_rng(seed) for seed in range(count)]
    children = [fork(lambda g=g: write(url, rounds, g, delay, failures)) for g in generators]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * count
    return open_study(url)


def check_shared(study, least):
    """Every trial is there once with what was told, none is violated, all can be replayed."""
    trials = study.trials
    assert [one.number for one in trials] == list(range(len(trials)))
    assert Counter(one.state for one in trials).keys() <= {TrialState.COMPLETE, TrialState.FAIL}
    assert len(trials) >= least
    for one in trials:
        assert one.state == TrialState.FAIL or one.value == measure(one.params)[0]
        assert one.state == TrialState.FAIL or one.user_attrs["heat"] <= 1.0
    now = field.status(study)
    assert now["violated"] == [] and now["pending"] == [] and now["abandoned"] == {}
    assert now["told"] == len(trials)


def test_two_writers_share_an_sqlite_file(folder):
    check_shared(workers(f"sqlite:///{folder}/laser.db", 2, 16, 0.005, 0.2), 16)


@without
@pytest.mark.service
def test_eight_workers_share_a_study_on_postgresql(server):
    check_shared(workers(server.new_url(), 8, 200, 0.05, 0.1), 200)


@without
@pytest.mark.service
def test_a_database_that_goes_away_is_waited_for(server):
    study, reference = open_study(server.new_url()), open_study(None)
    go_on(study, 3)
    server.stop()
    with pytest.raises(StorageInternalError, match=r"the storage cannot be used: .*connection"):
        field.ask(study, retry=0.2)
    again = threading.Timer(1.0, server.start)
    again.start()
    (trial,) = field.ask(study, retry=30.0)
    again.join()
    server.stop()
    again = threading.Timer(1.0, server.start)
    again.start()
    field.tell(study, trial, *measure(trial.params), retry=30.0)
    again.join()
    go_on(study, 6)
    go_on(reference, 6)
    assert settings_of(study) == settings_of(reference)


def fill(path):
    """Write until the disk is full."""
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(512))


def test_trials_of_workers_that_died_are_failed_and_those_of_operators_wait(folder):
    url = f"sqlite:///{folder}/laser.db"
    (asked,) = field.ask(open_study(url))

    def die(trial):
        time.sleep(0.5)  # after the first beat
        os._exit(0)

    def work():
        open_study(url, heartbeat=1).optimize(die, n_trials=1)

    os.waitpid(fork(work), 0)
    study = open_study(url, heartbeat=1)
    assert [one["trial"] for one in field.status(study)["pending"]] == [asked.number, 1]
    time.sleep(3.2)  # two beats, in whole seconds of the database

    def objective(trial):
        value, limits = measure({name: trial.params[name] for name in ("power", "gas")})
        trial.set_user_attr("heat", limits["heat"])
        return value

    study.optimize(objective, n_trials=1)
    states = [one.state for one in study.get_trials(deepcopy=False)]
    assert states == [TrialState.RUNNING, TrialState.FAIL, TrialState.COMPLETE]
    assert [one["trial"] for one in field.status(study)["pending"]] == [asked.number]


@pytest.mark.parametrize("kind", ["sqlite", "journal"])
def test_a_full_disk_loses_nothing(kind, small_disk, request):
    url = url_of(kind, small_disk, request)
    study, reference = open_study(url), open_study(None)
    go_on(study, 3)
    before = settings_of(study)
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space"):
        fill(ballast)
    with pytest.raises((StorageInternalError, OSError), match=r"(?i)full|no space|disk I/O"):
        go_on(study, 60)
    ballast.unlink()
    time.sleep(2 * study_workers.PATIENCE)
    again = open_study(url)
    assert settings_of(again)[:3] == before
    go_on(again, 8)
    go_on(reference, 8)
    assert settings_of(again) == settings_of(reference)


@pytest.mark.parametrize("kind", ["sqlite", "journal"])
def test_a_file_that_must_not_be_written_is_said_to_be_so(kind, small_disk, request):
    url = url_of(kind, small_disk, request)
    child = fork(lambda: go_on(open_study(url), 2))  # it leaves no file open
    assert os.waitpid(child, 0)[1] == 0
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    began = time.monotonic()
    with pytest.raises((StorageInternalError, OSError), match=r"(?i)read-?only"):
        retrying(lambda: go_on(open_study(url), 3))
    assert time.monotonic() - began < 20  # it does not wait for what does not pass


def test_a_line_that_was_cut_off_is_taken_for_nothing(folder):
    url, path = f"journal:{folder}/laser.log", folder / "laser.log"
    go_on(open_study(url), 2)
    with path.open("ab") as file:
        file.write(b'{"op_code": 5, "worker_id": "half a li')
    study, reference = open_study(url), open_study(None)
    go_on(study, 4)
    go_on(reference, 4)
    assert settings_of(study) == settings_of(reference)
