"""Run what has not been run yet, several at a time on one device, until the time is over.

    python -m tellmost_reproduction.networks.scheduling --data data --device cuda \
        --out runs.jsonl --minutes 9 --workers 8

Every finished run is a line of ``--out`` at once. Called again, it goes on. Runs of other files
(``--have``) count as done. Nothing is started after ``--minutes``.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import torch

from tellmost_reproduction.frame.pool import run_beside
from tellmost_reproduction.networks.configurations import ROUNDS, SEEDS, STANDARD, smaller
from tellmost_reproduction.networks.experiments import EXPERIMENTS, Experiment, Job, jobs_in_order
from tellmost_reproduction.networks.problems import read_problem
from tellmost_reproduction.networks.runs import Bench, Run, append_run, read_runs

GRACE = 45.0
"""Seconds that runs may still take when the time is over, before their processes are ended."""


@dataclass(frozen=True)
class Conditions:
    """The device and data of the runs, and how long they are."""

    data: Path | None
    device: str
    rounds: int = ROUNDS
    is_smoke: bool = False


@cache
def bench_of(conditions: Conditions, dataset: str) -> Bench:
    """What a dataset needs is set up once in a process, when it is first met."""
    allow_tf32()
    device = torch.device(conditions.device)
    problem = read_problem(dataset, conditions.data, device, is_smoke=conditions.is_smoke)
    return Bench(problem, capacity=conditions.rounds * STANDARD[dataset].batch)


def run_job(conditions: Conditions, job: Job) -> Run:
    configuration, seed = job
    if conditions.is_smoke:
        configuration = smaller(configuration)
    bench = bench_of(conditions, configuration.dataset)
    return bench.run(configuration, seed, conditions.rounds)


def allow_tf32() -> None:
    """Allow products in TF32, which is how networks are trained."""
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True


def run_before(deadline: float, conditions: Conditions, job: Job) -> Run | None:
    """Run a job unless the time is over."""
    return run_job(conditions, job) if time.time() < deadline else None


def run_jobs(
    jobs: Sequence[Job], conditions: Conditions, *, workers: int, deadline: float, out: Path
) -> int:
    """Append every finished run to ``out``, and return how many failed."""
    started, finished, failed = time.time(), 0, 0
    work: Callable[[Job], Run | None] = partial(run_before, deadline, conditions)
    by_name = {f"{one.name}, seed {seed}": (one, seed) for one, seed in jobs}
    until = deadline + GRACE
    for name, future in run_beside(work, by_name, workers=workers, threads=1, until=until):
        try:
            run: Run | None = future.result()
        except Exception:
            failed += 1
            print(f"failed: {name}\n{traceback.format_exc()}", file=sys.stderr, flush=True)
            continue
        if run is not None:
            finished += 1
            append_run(run, out)
            report(run, finished, len(jobs), time.time() - started)
    return failed


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
    """The jobs that no file has with as many rounds, except that short pools end earlier.

    Runs of the digits do not count for the datasets, and the other way round.
    """
    read = read_runs(path for path in have if path.exists())
    known = {key: run for key, run in read.items() if run.is_smoke == is_smoke}
    return [
        (one, seed)
        for one, seed in jobs_in_order(chosen, seeds)
        if (one.name, seed) not in known
        or (len(known[one.name, seed].accuracy) < rounds and one.pool != "targets")
    ]


def check(only: Sequence[str], workers: int, device: str) -> None:
    unknown = [name for name in only if name not in EXPERIMENTS]
    if unknown:
        names = ", ".join(EXPERIMENTS)
        raise ValueError(f"--only must name experiments, {names}; got {unknown[0]!r}.")
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
    parser.add_argument("--dataset", choices=tuple(STANDARD))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args(arguments)
    check(given.only, given.workers, given.device)
    deadline = time.time() + 60.0 * given.minutes
    conditions = Conditions(given.data, given.device, given.rounds, given.smoke)
    files = [given.out, *given.have]
    chosen = [EXPERIMENTS[name] for name in given.only or EXPERIMENTS]
    jobs = open_jobs(chosen, given.seeds, files, given.rounds, is_smoke=given.smoke)
    jobs = [job for job in jobs if given.dataset in (None, job[0].dataset)]
    if not jobs:
        print(f"nothing left to run: {', '.join(map(str, files))} have all of it", file=sys.stderr)
        return 0
    if given.smoke:
        print("smoke size: 8 x 8 digits stand in for both datasets", file=sys.stderr)
    for dataset in {job[0].dataset for job in jobs}:  # features are made once, by this process
        allow_tf32()
        read_problem(dataset, given.data, torch.device(given.device), is_smoke=given.smoke)
    failed = run_jobs(jobs, conditions, workers=given.workers, deadline=deadline, out=given.out)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
