"""Every pass over rows goes through here: threads of our own share its blocks.

A pass is a list of pieces of work, such as blocks of rows that fit a core's cache. A thread takes
the next piece, does all there is to do with it while it is warm, and takes another; the pass ends
when all are done. Inside, every operation of torch and of its linear algebra is single-threaded.
Their own threads would meet at a barrier after each small operation, and would spin there: beside
another busy process that makes a pass twenty times slower, and after a fork it never ends.

The pieces are the same for any number of threads, and so are the results, to the last bit. There
are as many threads as ``torch.get_num_threads()`` says where the call began, the calling one
among them, and calls that run at the same time share them. The settings of the calling thread are
what they were when the call ends; those of other threads are never touched.
"""

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import torch

Item = TypeVar("Item")
Value = TypeVar("Value")

LIBRARY = {"linux": "libtorch_cpu.so", "darwin": "libtorch_cpu.dylib"}
"""The library from which the settings of a thread can be reached, its dependencies included."""

ALL = slice(None)

MOST_WAITING = 4  # results wait for their turn before threads wait too; the largest are d x d


@contextmanager
def team() -> Iterator["Team"]:
    """Share the passes made in here among threads, which end with it.

    Within another one on the same thread it is that one, so a call has one team however deep it
    goes; a thread of a team that calls in turn works alone.
    """
    mine: Team | None = getattr(_here, "team", None)
    if mine is not None:
        yield mine
        return
    mine = Team(torch.get_num_threads() if thread_settings() else 1)
    with mine.desk.lock:
        mine.desk.at_work += 1
    _here.team = mine
    try:
        with single_threaded():
            yield mine
    finally:
        _here.__dict__.pop("team", None)
        mine.close()
        with mine.desk.lock:
            mine.desk.at_work -= 1


def thread_count() -> int:
    """The number of threads that share a pass which begins here."""
    mine: Team | None = getattr(_here, "team", None)
    return torch.get_num_threads() if mine is None else mine.threads


@contextmanager
def calculating() -> Iterator[None]:
    """Keep no gradients in here, and work as a team: for the calls of an object of the library."""
    with torch.no_grad(), team():
        yield


def items_done() -> int:
    """So many items this process has worked on. It grows as long as something is done."""
    return _desk[0].items


def each(
    items: Iterable[Item],
    work: Callable[[Item], Value],
    in_turn: Callable[[Value], Any] | None = None,
    *,
    count: int,
    threads: int | None = None,
) -> None:
    """Do the work of so many items, on the threads of the team, or on so many of them at most.

    A thread takes the next item when it has done one; only one asks for an item at a time.
    ``in_turn`` gets the results one at a time too, in the order of the items. If some items fail,
    no more are begun, and the error of the first of them is raised.
    """
    mine: Team | None = getattr(_here, "team", None)
    if mine is None:
        with team():
            return each(items, work, in_turn, count=count, threads=threads)
    most = min(count, threads or count)
    if min(most, mine.threads) > 1:
        return mine.share(Pass(items, work, in_turn), most)
    for item in items:  # small work is done without any of that
        value = work(item)
        mine.desk.items += 1
        if in_turn is not None:
            in_turn(value)


def each_slice(
    count: int, step: int, work: Callable[[slice], Any], *, threads: int | None = None
) -> None:
    """Call ``work`` with slices of so many rows, on the threads of the team."""
    if 0 < count <= step and hasattr(_here, "team"):
        work(ALL)
        return
    starts = range(0, count, step)
    slices = (slice(start, min(start + step, count)) for start in starts)
    each(slices, work, count=len(starts), threads=threads)


def cut(values: torch.Tensor, piece: slice | torch.Tensor) -> torch.Tensor:
    """Some of the values. All of them are the tensor itself, since even a view takes time."""
    return values if piece is ALL else values[piece]


class Pass:
    """The work that is left of a pass. All threads that run it share it."""

    def __init__(
        self,
        items: Iterable[Any],
        work: Callable[[Any], Any],
        in_turn: Callable[[Any], Any] | None = None,
    ) -> None:
        self._items = enumerate(items)
        self._work, self._in_turn = work, in_turn
        self._change = threading.Condition()
        self._turn = 0  # the number of the item whose result is taken next
        self._waiting: dict[int, Any] = {}  # results that are not taken yet, by their numbers
        self._failed: dict[int, BaseException] = {}
        self._is_stopped = False

    def run(self) -> None:
        """Work until nothing is left to begin."""
        for number, item in iter(self._next, None):
            try:
                value = self._work(item)
                _desk[0].items += 1
                if self._in_turn is not None:
                    self._give(number, value)
            except BaseException as error:
                with self._change:
                    self._failed[number] = error
                    self._change.notify_all()

    def stop(self) -> None:
        """Begin no more."""
        with self._change:
            self._is_stopped = True
            self._change.notify_all()

    def check(self) -> None:
        """Raise the error of the first item that failed."""
        if self._failed:
            raise self._failed[min(self._failed)]

    def _next(self) -> tuple[int, Any] | None:
        with self._change:
            if self._is_stopped or self._failed:
                return None
            try:
                return next(self._items, None)
            except BaseException as error:  # of what streams: later than all that are begun
                self._failed[sys.maxsize] = error
                return None

    def _give(self, number: int, value: Any) -> None:
        """Hand in results in their order. A few wait for it; more would take memory."""
        assert self._in_turn is not None
        with self._change:
            self._waiting[number] = value
            while self._turn in self._waiting:
                self._in_turn(self._waiting.pop(self._turn))
                self._turn += 1
                self._change.notify_all()
            self._change.wait_for(
                lambda: len(self._waiting) <= MOST_WAITING or self._failed or self._is_stopped
            )


class Desk:
    """It counts the threads of this process that are at work, so that calls share the machine."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.at_work = 0
        self.items = 0

    def hire(self, most: int, limit: int) -> int:
        """The number of threads that may help, so that no more than the limit are at work."""
        with self.lock:
            count = max(min(most, limit - self.at_work), 0)
            self.at_work += count
            return count

    def release(self, count: int) -> None:
        with self.lock:
            self.at_work -= count


class Team:
    """The threads that share the passes of one call: the calling one, and others that help."""

    def __init__(self, threads: int) -> None:
        self.threads, self.desk = threads, _desk[0]
        self._helpers: ThreadPoolExecutor | None = None

    def share(self, work: Pass, most: int) -> None:
        """Do a pass on so many threads at most."""
        wanted = min(self.threads, most) - 1
        helpers = self.desk.hire(wanted, self.threads) if wanted > 0 else 0
        try:
            self._run(work, helpers)
        finally:
            if helpers:
                self.desk.release(helpers)
        work.check()

    def _run(self, work: Pass, helpers: int) -> None:
        """Start the helpers, work with them, and wait until those that began have ended."""
        if not helpers:
            return work.run()
        if self._helpers is None:
            self._helpers = ThreadPoolExecutor(
                self.threads - 1, "tellmost-worker", initializer=_set_single
            )
        mode = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
        started = []
        try:
            with suppress(RuntimeError):  # the system has no more threads, or the program ends
                for _ in range(helpers):
                    started.append(self._helpers.submit(_help, work, *mode))
            work.run()
        except BaseException:  # such as Ctrl-C; errors of the work are kept for ``check``
            work.stop()
            raise
        finally:
            for helper in started:
                if not helper.cancel():  # one that has not begun is not waited for
                    helper.exception()

    def close(self) -> None:
        if self._helpers is not None:
            self._helpers.shutdown()
            self._helpers = None


def _help(work: Pass, is_inference: bool, has_gradients: bool) -> None:
    """Work as the calling thread does, whose modes belong to the thread."""
    with torch.inference_mode(is_inference), torch.set_grad_enabled(has_gradients):
        work.run()


# ---- the settings of a thread


@cache
def thread_settings() -> Any:
    """The library that has them, or None: then passes run on the calling thread alone.

    ``torch.set_num_threads`` would not do, since threads that start later inherit from it.
    """
    name = LIBRARY.get(sys.platform)
    path = Path(torch.__file__).parent / "lib" / (name or "")
    if name is None or not path.exists():
        return None
    library = ctypes.CDLL(str(path))
    return library if hasattr(library, "omp_set_num_threads") else None


@contextmanager
def single_threaded() -> Iterator[None]:
    """Operations of this thread use no other threads in here."""
    library = thread_settings()
    if library is None:
        yield
        return
    before = torch.get_num_threads(), _set_single()
    try:
        yield
    finally:
        library.omp_set_num_threads(before[0])
        if before[1] is not None:
            library.MKL_Set_Num_Threads_Local(before[1])


def _set_single() -> int | None:
    """Make this thread's operations single-threaded; MKL's setting until now, if it is there.

    A thread reads the common settings when it first asks for them, so it asks before.
    """
    torch.get_num_threads()
    library = thread_settings()
    library.omp_set_num_threads(1)
    if not hasattr(library, "MKL_Set_Num_Threads_Local"):
        return None
    return int(library.MKL_Set_Num_Threads_Local(1))


_here = threading.local()
_desk = [Desk()]


def _forget() -> None:
    """A copy of a process has none of its other threads, and nobody in it is at work."""
    _here.__dict__.clear()
    _desk[0] = Desk()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
