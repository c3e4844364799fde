"""Workers on a study that are killed at random moments, and a PostgreSQL of one's own."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
import traceback
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import optuna

import tellmost as tm
from tellmost.integrations import optuna as field

PROGRAMS = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/usr/lib/postgresql"))
SPACE = tm.Box({"power": tm.Parameter(0, 5, step=0.25), "gas": tm.Parameter(choices=["a", "b"])})
PATIENCE = 0.1  # a killed worker is not waited for longer

optuna.logging.set_verbosity(optuna.logging.WARNING)


def make_sampler(patience=PATIENCE, confidence=0.999):
    kernel = tm.kernels.Matern(2.5, lengthscale=SPACE.lengthscales({"power": 1.5, "gas": 2.0}))
    limit = tm.Constraint(tm.GP(kernel, noise_std=0.05), at_most=1.0)
    return field.SafeSampler(
        SPACE,
        objective=tm.GP(kernel, noise_std=0.05),
        constraints={"heat": limit},
        safe_seed=[{"power": 1.0, "gas": "a"}],
        confidence=confidence,
        patience=patience,
    )


def open_study(url, patience=PATIENCE, **options):
    in_memory = url is None
    storage = (
        optuna.storages.InMemoryStorage() if in_memory else field.open_storage(url, **options)
    )
    return optuna.create_study(
        storage=storage,
        study_name="laser",
        sampler=make_sampler(patience),
        direction="maximize",
        load_if_exists=True,
    )


def measure(setting):
    """A function of the setting alone, so that who measures it makes no difference."""
    x, is_b = setting["power"], setting["gas"] == "b"
    return float(np.sin(x) + 0.2 * is_b), {"heat": float(0.2 * x - 0.5 + 0.1 * is_b)}


def go_on(study, rounds, acknowledge=lambda number, value: None):
    """Tell what waits, then ask and tell until so many trials are told."""
    waiting = [(one["trial"], one["parameters"]) for one in field.status(study)["pending"]]
    while waiting or len(settings_of(study)) < rounds:
        if not waiting:
            (trial,) = field.ask(study)
            waiting = [(trial.number, trial.params)]
        number, setting = waiting.pop()
        value, limits = measure(setting)
        field.tell(study, number, value, limits)
        acknowledge(number, value)


def settings_of(study):
    """The settings that were told, in order."""
    states = (optuna.trial.TrialState.COMPLETE,)
    told = study.get_trials(deepcopy=False, states=states)
    return [one.params for one in sorted(told, key=lambda one: one.datetime_complete)]


def fork(work):
    """Run something in a copy of this process, which ends without cleaning up."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def kill_and_check(url, folder, kills, rounds, rng):
    """Kill workers at random moments: nothing told is lost or doubled, nothing is asked otherwise.

    Returns the number of kills that met a worker which was at work.
    """
    reference = open_study(None)
    go_on(reference, rounds)
    acknowledged, met = Path(folder) / "acknowledged", 0

    def work():
        with acknowledged.open("a") as file:

            def say(number, value):
                file.write(f"{number} {value!r}\n")
                file.flush()

            study = open_study(url)
            (Path(folder) / "ready").touch()
            go_on(study, rounds, say)

    while met < kills:
        (Path(folder) / "ready").unlink(missing_ok=True)
        child = fork(work)
        while not (Path(folder) / "ready").exists():
            if os.waitpid(child, os.WNOHANG) != (0, 0):
                raise AssertionError("a worker ended before it began")
            time.sleep(0.002)
        time.sleep(float(rng.uniform(0.0, 0.08)))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        met += os.WIFSIGNALED(status)
        check_nothing_lost(url, acknowledged, reference)
        if not os.WIFSIGNALED(status):
            break
    study = open_study(url)
    go_on(study, rounds)
    assert settings_of(study) == settings_of(reference)
    check_nothing_lost(url, acknowledged, reference)
    return met


def check_nothing_lost(url, acknowledged, reference):
    study = open_study(url)
    told = {one.number: one.value for one in study.trials if one.value is not None}
    lines = acknowledged.read_text().splitlines() if acknowledged.exists() else []
    said = [line.split() for line in lines]
    assert len({number for number, _ in said}) == len(said), "a trial was acknowledged twice"
    assert {int(n): float(v) for n, v in said}.items() <= told.items(), "a tell was lost"
    settings = settings_of(study)
    assert settings == settings_of(reference)[: len(settings)], "another point was asked for"


# ---- PostgreSQL


class Postgres:
    """A PostgreSQL of one's own in a folder, on a socket, as the user postgres if we are root."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.data, self.socket = self.folder / "data", self.folder
        runuser = shutil.which("runuser", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        self.as_user = [runuser, "-u", "postgres", "--"] if os.getuid() == 0 else []
        if self.as_user:
            self.folder.chmod(0o777)
        self._call("initdb", "-D", self.data, "-A", "trust", "-U", "postgres", "-N")
        self.start()
        self.count = 0

    def start(self):
        options = f"-F -k {self.socket} -h '' -c max_connections=60"  # the machine stays up
        log = self.folder / "log"
        self._call("pg_ctl", "-D", self.data, "-o", options, "-l", log, "-w", "start")

    def stop(self, mode="immediate"):
        self._call("pg_ctl", "-D", self.data, "-m", mode, "-w", "stop")

    def new_url(self):
        """The URL of a new database."""
        self.count += 1
        name = f"field{self.count}"
        self._call("createdb", "-h", self.socket, "-U", "postgres", name)
        return f"postgresql://postgres@/{name}?host={self.socket}"

    def _call(self, program, *arguments):
        words = [*self.as_user, str(PROGRAMS / program), *map(str, arguments)]
        done = (
            subprocess.run(
                words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/"
            )
            if program != "pg_ctl"
            else subprocess.run(
                words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True, cwd="/"
            )
        )  # the server would keep a pipe open
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stdout}")


@contextmanager
def postgres():
    """A PostgreSQL that ends with the block."""
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        server = Postgres(folder)
        try:
            yield server
        finally:
            server.stop()
