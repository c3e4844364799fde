"""Run what has not been run yet, several at a time on one device, until the time is over.

    python -m tellmost_reproduction.networks.scheduling --data data --device cuda \
        --out runs.jsonl --minutes 9 --workers 8

Every finished run is a line of ``--out`` at once. Call it again and it goes on; runs of other
files (``--have``) count as done. Nothing is started after ``--minutes``.
"""

import argparse
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import torch

from tellmost_reproduction.networks.configurations import ROUNDS, SEEDS, smaller
from tellmost_reproduction.networks.experiments import EXPERIMENTS, Experiment, Job, jobs_in_order
from tellmost_reproduction.networks.problems import read_problem
from tellmost_reproduction.networks.runs import Bench, Run, append_run, read_runs

GRACE = 45.0
"""Seconds that runs may still take when the time is over, before their processes are ended."""


@dataclass(frozen=True)
class Conditions:
    """Where and how long the runs are."""

    data: Path | None
    device: str
    rounds: int = ROUNDS
    is_smoke: bool = False
    threads: int = 1


@dataclass(frozen=True)
class Failure:
    job: str
    message: str


class Worker:
    """Runs jobs one after the other; what a dataset needs is set up when it is first met."""

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self._benches: dict[str, Bench] = {}

    def run(self, job: Job) -> Run:
        configuration, seed = job
        if self._conditions.is_smoke:
            configuration = smaller(configuration)
        rounds = self._conditions.rounds
        return self._bench(configuration.dataset, rounds).run(configuration, seed, rounds)

    def _bench(self, dataset: str, rounds: int) -> Bench:
        if dataset not in self._benches:
            here = self._conditions
            device = torch.device(here.device)
            problem = read_problem(dataset, here.data, device, is_smoke=here.is_smoke)
            most = max(
                one.batch for experiment in EXPERIMENTS.values() for one in experiment.on(dataset)
            )
            self._benches[dataset] = Bench(problem, capacity=rounds * most)
        return self._benches[dataset]


def set_up(conditions: Conditions) -> None:
    """Of this process: threads, and products in TF32, which is how networks are trained."""
    torch.set_num_threads(conditions.threads)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    warnings.filterwarnings("ignore", message=".*exceed the effective rank.*")


def work(
    conditions: Conditions, jobs: "Queue[Job | None]", done: "Queue[Any]", deadline: float
) -> None:
    """In a process of its own: until no job is left, or the time is over."""
    set_up(conditions)
    worker = Worker(conditions)
    while time.time() < deadline and (job := jobs.get()) is not None:
        try:
            done.put(worker.run(job))
        except Exception:
            done.put(Failure(f"{job[0].name}, seed {job[1]}", traceback.format_exc()))
    done.put(None)


def run_jobs(
    jobs: Sequence[Job], conditions: Conditions, *, workers: int, deadline: float, out: Path
) -> list[Failure]:
    """Append every finished run to ``out``; what failed."""
    context = get_context("spawn")
    waiting, done = context.Queue(), context.Queue()
    for job in (*jobs, *[None] * workers):
        waiting.put(job)
    processes = [
        context.Process(target=work, args=(conditions, waiting, done, deadline), daemon=True)
        for _ in range(workers)
    ]
    for process in processes:
        process.start()
    try:
        return collect(done, processes, deadline, len(jobs), out)
    finally:
        waiting.cancel_join_thread()
        for process in processes:
            process.terminate()


def collect(
    done: "Queue[Any]", processes: Sequence[Any], deadline: float, count: int, out: Path
) -> list[Failure]:
    failures: list[Failure] = []
    started = time.time()
    finished, left = 0, len(processes)
    while left and time.time() < deadline + GRACE and any(p.is_alive() for p in processes):
        if done.empty():
            time.sleep(0.05)
            continue
        result = done.get()
        if result is None:
            left -= 1
        elif isinstance(result, Failure):
            failures.append(result)
            print(f"failed: {result.job}\n{result.message}", file=sys.stderr, flush=True)
        else:
            finished += 1
            append_run(result, out)
            report(result, finished, count, time.time() - started)
    return failures


def report(run: Run, finished: int, count: int, seconds: float) -> None:
    print(
        f"{seconds:6.0f} s  {finished} of {count}  {run.configuration} {run.seed}: accuracy "
        f"{run.accuracy[-1]:.3f}, share {run.share[-1]:.3f}; a round "
        + " ".join(f"{name} {1000 * value:.1f} ms" for name, value in run.seconds.items()),
        file=sys.stderr,
        flush=True,
    )


def open_jobs(
    chosen: Sequence[Experiment],
    seeds: int,
    have: Sequence[Path],
    rounds: int,
    *,
    is_smoke: bool = False,
) -> list[Job]:
    """Those that no file has with as many rounds; short pools end earlier.

    Runs of the datasets are none of the digits, and the other way round.
    """
    read = read_runs(path for path in have if path.exists())
    known = {key: run for key, run in read.items() if run.is_smoke == is_smoke}
    return [
        (one, seed)
        for one, seed in jobs_in_order(chosen, seeds)
        if (one.name, seed) not in known
        or (len(known[one.name, seed].accuracy) < rounds and one.pool != "targets")
    ]


def named(names: Sequence[str]) -> list[Experiment]:
    unEXPERIMENTS = [name for name in names if name not in EXPERIMENTS]
    if unEXPERIMENTS:
        raise ValueError(
            f"--only must name experiments, {', '.join(EXPERIMENTS)}; got {unEXPERIMENTS[0]!r}."
        )
    return [EXPERIMENTS[name] for name in names] if names else list(EXPERIMENTS.values())


def check(workers: int, device: str) -> None:
    if workers < 1:
        raise ValueError(f"--workers must be 1 or more, processes that run jobs; got {workers}.")
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"--device {device} needs a GPU that torch can use, and it sees none; pass --device "
            f"cpu, or install torch with CUDA."
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--have", type=Path, nargs="*", default=[])
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--dataset", choices=("cifar100", "mnist"))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args(arguments)
    check(given.workers, given.device)
    deadline = time.time() + 60.0 * given.minutes
    conditions = Conditions(given.data, given.device, given.rounds, given.smoke)
    files = [given.out, *given.have]
    chosen = named(given.only)
    jobs = open_jobs(chosen, given.seeds, files, given.rounds, is_smoke=given.smoke)
    jobs = [job for job in jobs if given.dataset in (None, job[0].dataset)]
    if not jobs:
        print(f"nothing left to run: {', '.join(map(str, files))} have all of it", file=sys.stderr)
        return 0
    if given.smoke:
        print("smoke size: 8 x 8 digits stand in for both datasets", file=sys.stderr)
    for dataset in {job[0].dataset for job in jobs}:  # features are made once, by this process
        set_up(conditions)
        read_problem(dataset, given.data, torch.device(given.device), is_smoke=given.smoke)
    failures = run_jobs(jobs, conditions, workers=given.workers, deadline=deadline, out=given.out)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
