"""Many jobs side by side, in processes of their own."""

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures import TimeoutError as TimeIsOver
from multiprocessing import get_context
from typing import TypeVar

import torch

Key = TypeVar("Key")
Job = TypeVar("Job")
Result = TypeVar("Result")


def run_beside(
    work: Callable[[Job], Result],
    jobs: Mapping[Key, Job],
    *,
    workers: int,
    threads: int,
    until: float | None = None,
) -> Iterator[tuple[Key, "Future[Result]"]]:
    """Yield the future of each job when it is done.

    After an error, Ctrl-C or the time ``until`` no further job is begun, and those that were begun
    are ended.
    """
    context = get_context("spawn")  # a fork of a process with threads may hang
    executor = ProcessPoolExecutor(workers, context, _be_quiet, (threads,))
    try:
        keys = {executor.submit(work, job): key for key, job in jobs.items()}
        for future in as_completed(keys, None if until is None else until - time.time()):
            yield keys[future], future
    except BaseException as error:
        for process in list(executor._processes.values()):
            process.terminate()
        if not isinstance(error, TimeIsOver):
            raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _be_quiet(threads: int) -> None:
    """Leave Ctrl-C to the process that started this one, and cores to the other jobs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
