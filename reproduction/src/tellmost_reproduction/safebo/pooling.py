"""Many runs, side by side: one process each, one thread each."""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import torch

from tellmost_reproduction.safebo.running import Job, Run, run
from tellmost_reproduction.safebo.storing import keep_run, path_of, read_run

WORKERS = 2
THREADS = 1
"""Of each worker; small matrices are not faster with more."""


def run_all(
    jobs: Sequence[Job],
    *,
    workers: int = WORKERS,
    kept: Path | None = None,
    tell: Callable[[Job], None] = lambda done: None,
) -> list[Run]:
    """In the order of the jobs. With one worker in this process, else in as many others.

    ``kept``: a folder of runs; what is in it is not run again, and what is run is kept in it.
    """
    found: dict[int, Run] = {}
    for number, job in enumerate(jobs):
        if kept is not None and path_of(job, kept).exists():
            found[number] = read_run(path_of(job, kept))
            tell(job)
    left = [number for number in range(len(jobs)) if number not in found]
    runs = _run_here if workers == 1 else _run_beside
    for number, one in runs({number: jobs[number] for number in left}, workers):
        if kept is not None:
            keep_run(one, path_of(jobs[number], kept))
        found[number] = one
        tell(jobs[number])
    return [found[number] for number in range(len(jobs))]


def _run_here(jobs: Mapping[int, Job], workers: int) -> Iterator[tuple[int, Run]]:
    return ((number, run(job)) for number, job in jobs.items())


def _run_beside(jobs: Mapping[int, Job], workers: int) -> Iterator[tuple[int, Run]]:
    """After Ctrl-C no further run is begun, and those that were are ended."""
    context = get_context("spawn")  # a fork of a process with threads may hang
    executor = ProcessPoolExecutor(workers, context, _be_quiet)
    try:
        numbers = {executor.submit(run, job): number for number, job in jobs.items()}
        for future in as_completed(numbers):
            yield numbers[future], future.result()
    except BaseException:
        for process in list(executor._processes.values()):
            process.terminate()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _be_quiet() -> None:
    """Ctrl-C is for the process that started this one; cores are for the runs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(THREADS)
