"""Processes that are killed or told to stop at random moments, and files with damaged bytes."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack

import exact  # noqa: F401 - it lets the tests be imported
import numpy as np

import study_workers
import tellmost as tm
from tellmost.cli import ending
from test_damage import FILES, damaged

FORK = multiprocessing.get_context("fork")
CODES = {signal.SIGINT: ending.INTERRUPTED, signal.SIGTERM: ending.TERMINATED}
MOST_KILLS = 5


def damage(rng, folder, note):
    """Read damaged files of one kind: as they are, or with the one error that says so."""
    note["file"] = str(rng.choice(list(FILES)))
    write, read = FILES[note["file"]]
    path, outcomes = folder / note["file"], Counter()
    write(path)
    content = path.read_bytes()
    for note["number"] in range(20):
        path.write_bytes(damaged(content, rng))
        try:
            read(path)
            outcomes["read"] += 1
        except ValueError as error:
            if type(error) is not ValueError:  # such as UnicodeDecodeError
                raise
            outcomes["refused"] += 1
    return outcomes


def kill_select(rng, folder, note):
    """Kill a selection that keeps a checkpoint, until it is done: its picks are the same."""
    pool = rng.standard_normal((int(rng.integers(50, 1500)), 12))
    kernel = tm.kernels.Gaussian(3.0) if rng.random() < 0.5 else None
    note |= {"rule": str(rng.choice(["vtl", "itl", "ctl", "random", "k-center"]))}
    note |= {"kernel": kernel, "n": len(pool), "k": int(rng.integers(5, 40))}

    def choose(**options):
        options |= {"rule": note["rule"], "kernel": kernel, "noise_ratio": 0.1}
        return tm.select(pool, pool[:6] + 0.1, note["k"], **options)

    whole, seconds = timed(choose)
    path, kills = folder / "checkpoint", 0
    while kills < MOST_KILLS and interrupted(rng, seconds, lambda: choose(checkpoint=path)):
        kills += 1
    resumed = choose(checkpoint=path)
    for name in ("indices", "gains", "uncertainty"):
        same = np.array_equal(getattr(whole, name), getattr(resumed, name))
        assert same, f"{name} after {kills} kills are not those of the whole run"
    return Counter(kills=kills)


def kill_safe(rng, folder, note):
    """Kill an optimizer that saves each tell: the file loads, and has what was acknowledged."""
    points, note["rounds"] = rng.uniform(0, 1, (25, 2)), int(rng.integers(3, 12))
    values = 1.5 - ((points - 0.4) ** 2).sum(axis=1)
    path, told = folder / "state.json", folder / "told"

    def made():
        gp, other = (tm.GP(tm.kernels.Matern(2.5, s), noise_std=0.1) for s in (0.7, 1.0))
        known = {"constraints": {"g": tm.Constraint(other, at_least=0)}, "beta": 1.5}
        return tm.SafeOptimizer(points, objective=gp, safe_seed=[int(values.argmax())], **known)

    def rows(optimizer):
        return [trial.index for trial in optimizer.history]

    def go(saves=True):
        optimizer = made().load(path) if saves and path.exists() else made()
        while len(optimizer.history) < note["rounds"]:
            query = optimizer.ask()
            optimizer.tell(query, values[query.index], {"g": values[query.index]})
            if saves:
                optimizer.save(path)
                with told.open("a") as file:
                    file.write(".")
        return rows(optimizer)

    (whole, seconds), kills = timed(lambda: go(saves=False)), 0
    while kills < MOST_KILLS and interrupted(rng, seconds, go):
        kills += 1
        known = rows(made().load(path)) if path.exists() else []
        acknowledged = len(told.read_text()) if told.exists() else 0
        assert len(known) >= acknowledged, f"{acknowledged} were told, {len(known)} are known"
        assert known == whole[: len(known)], f"the file has {known} of {whole}"
    assert go() == whole, f"after {kills} kills other points are asked for"
    return Counter(kills=kills)


def kill_study(rng, folder, note):
    """Kill workers on a study: what was told is there once, and the next point is the same."""
    has_server = (study_workers.PROGRAMS / "initdb").exists()
    note["storage"] = str(rng.choice(["sqlite", "journal", *["postgres"] * has_server]))
    with ExitStack() as until:
        url = {"sqlite": f"sqlite:///{folder}/a.db", "journal": f"journal:{folder}/a.log"}
        if note["storage"] == "postgres":
            url["postgres"] = until.enter_context(study_workers.postgres()).new_url()
        rounds = int(rng.integers(8, 25))
        kills = study_workers.kill_and_check(url[note["storage"]], folder, MOST_KILLS, rounds, rng)
    return Counter(kills=kills)


def stop_command(rng, folder, note):
    """Interrupt or terminate ``tellmost select``: it ends so, and leaves all or nothing."""
    kind = str(rng.choice(["csv", "jsonl", "parquet"]))
    number = signal.SIGINT if rng.random() < 0.5 else signal.SIGTERM
    note |= {"output": kind, "signal": number.name, "forked": bool(rng.random() < 0.9)}
    pool = rng.standard_normal((int(rng.integers(50, 3000)), 10))
    np.save(folder / "pool.npy", pool)
    np.save(folder / "targets.npy", pool[:5] + 0.1)
    os.mkdir(folder / "out")

    def command(out):
        words = f"select {folder}/pool.npy -t {folder}/targets.npy -k 20 -o {out}.{kind}"
        return words.split()

    if note["forked"]:
        said = folder / "said"
        code, seconds = timed(lambda: ended(lambda: ending.main(command(folder / "whole")), said))
        late = rng.random() * seconds
        got = ended(lambda: ending.main(command(folder / "out/a")), said, late, number)
        note["said"] = said.read_text()
    else:
        code, seconds = timed(lambda: in_a_shell(command(folder / "whole"), note))
        got = in_a_shell(command(folder / "out/a"), note, rng.random() * seconds, number)
    assert code == 0, f"the undisturbed command ended with {code}"
    ends = {0, CODES[number]} | (set() if note["forked"] else {-number})  # as Python starts
    assert got in ends, f"exit code {got}, which is none of {sorted(ends)}"
    left = {path.name: path.read_bytes() for path in (folder / "out").iterdir()}
    whole = {f"a.{kind}": (folder / f"whole.{kind}").read_bytes()}
    assert left == whole or (left == {} and got != 0), f"left over: {sorted(left)}, code {got}"
    return Counter(stopped=int(got != 0))


def timed(work):
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def interrupted(rng, seconds, work):
    """Kill a process that works, at a random moment; whether it had not ended by then."""
    code = ended(work, delay=rng.uniform(0, 1.3) * seconds, number=signal.SIGKILL)
    assert code in (0, -signal.SIGKILL), f"the process ended with {code}"
    return code != 0


def ended(work, said=os.devnull, delay=0.0, number=None):
    """The exit code of a copy of this process that works, sent a signal after so many seconds.

    What it prints is written to the file ``said``.
    """

    def run():
        signal.alarm(0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for stream in (1, 2):
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        ready.set()
        work()

    ready = FORK.Event()
    child = FORK.Process(target=run)
    child.start()
    assert ready.wait(60), "the process did not begin"
    child.join(0.005 + delay if number else None)
    if child.exitcode is None:
        os.kill(child.pid, number)
    child.join(60)
    assert child.exitcode is not None, f"the process goes on after signal {number}"
    return child.exitcode


def in_a_shell(words, note, delay=0.0, number=None):
    """The exit code of the program, started as a user does and sent a signal."""
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-m", "tellmost", *words], **pipes) as child:
        if number:
            time.sleep(delay)
            child.send_signal(number)
        note["said"] = child.communicate(timeout=120)[1]
        return child.returncode
