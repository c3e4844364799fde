"""Threads of our own share a pass: the same bits from any number, and no setting changed."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import tellmost as tm
from problems import clustered, targets_for
from tellmost import numerics
from tellmost.posterior import function_space, problem
from tellmost.running import workers

needs_threads = pytest.mark.skipif(workers.thread_settings() is None, reason="one thread alone")


@pytest.fixture
def threads():
    """Sets the number of threads, which is what it was after the test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def mkl_threads() -> int:
    library = workers.thread_settings()
    return library.MKL_Get_Max_Threads() if hasattr(library, "MKL_Get_Max_Threads") else 0


@needs_threads
@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_item_is_done_once_and_results_come_in_turn(count, threads):
    threads(count)
    seen, came = [], []

    def work(item: int) -> int:
        seen.append(item)
        return item * item

    workers.each(range(50), work, came.append, count=50)
    assert sorted(seen) == list(range(50)) and came == [i * i for i in range(50)]


@needs_threads
def test_the_threads_of_a_pass_work_at_the_same_time_and_are_single_threaded(threads):
    threads(3)
    together = threading.Barrier(3, timeout=60)  # it breaks if they come one after the other
    inside = []

    def work(item: int) -> None:
        together.wait()
        inside.append((threading.get_ident(), torch.get_num_threads(), mkl_threads()))

    workers.each(range(3), work, count=3)
    assert len({name for name, _, _ in inside}) == 3
    assert {(of_torch, of_mkl > 1) for _, of_torch, of_mkl in inside} == {(1, False)}


@needs_threads
def test_no_more_threads_work_than_are_allowed(threads):
    threads(8)
    names = set()
    workers.each(range(40), lambda _: names.add(threading.get_ident()), count=40, threads=2)
    assert len(names) <= 2
    names.clear()
    workers.each([1], lambda _: names.add(threading.get_ident()), count=1)
    assert names == {threading.get_ident()}


@needs_threads
@pytest.mark.parametrize("count", [1, 4])
def test_the_first_item_that_fails_is_the_one_that_is_named(count, threads):
    threads(count)
    begun = []

    def work(item: int) -> None:
        begun.append(item)
        if item >= 7:
            raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match=r"item 7$"):
        workers.each(range(1_000), work, print, count=1_000)
    assert len(begun) < 1_000

    def stream():
        yield from range(5)
        raise OSError("the file ended")

    with pytest.raises(OSError, match="ended"):
        workers.each(stream(), lambda item: None, count=9)


@needs_threads
def test_settings_of_this_thread_and_of_others_are_untouched(threads):
    threads(3)
    before, entered, leave = mkl_threads(), threading.Event(), threading.Event()

    def elsewhere() -> tuple[int, int]:
        entered.set()
        leave.wait(60)
        return torch.get_num_threads(), mkl_threads()

    with ThreadPoolExecutor(2) as pool:
        other = pool.submit(elsewhere)
        entered.wait(60)
        with workers.team():
            workers.each(range(20), lambda _: None, count=20)
            later = pool.submit(lambda: (torch.get_num_threads(), mkl_threads()))
            assert later.result(60) == (3, before)  # a thread that is new, during the call
            leave.set()
            assert other.result(60) == (3, before)
            assert torch.get_num_threads() == 1
    assert (torch.get_num_threads(), mkl_threads()) == (3, before)
    with pytest.raises(ValueError, match="wrong"), workers.team():
        raise ValueError("wrong")
    assert (torch.get_num_threads(), mkl_threads()) == (3, before)


@needs_threads
def test_calls_at_the_same_time_share_the_threads(threads):
    """Four calls of four threads each: never more than four are at work."""
    threads(4)
    most, at_work, lock = [0], [0], threading.Lock()
    all_in = threading.Barrier(4, timeout=60)

    def work(item: int) -> None:
        with lock:
            at_work[0] += 1
            most[0] = max(most[0], at_work[0])
        torch.ones(100, 100) @ torch.ones(100, 100)
        with lock:
            at_work[0] -= 1

    def call(_: int) -> None:
        with workers.team():
            all_in.wait()
            workers.each(range(30), work, count=30)
            all_in.wait()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(call, range(4)))
    assert 1 <= most[0] <= 4
    nested = []
    workers.each(range(4), lambda i: workers.each(range(3), nested.append, count=3), count=4)
    assert sorted(nested) == [0] * 4 + [1] * 4 + [2] * 4


@needs_threads
def test_a_pass_goes_on_alone_where_no_thread_can_be_started(threads, monkeypatch):
    """So it is while the interpreter shuts down and a thread of the program still selects."""
    threads(4)

    def refuse(*arguments):
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)
    came: list[int] = []
    workers.each(range(9), lambda item: item, came.append, count=9)
    assert came == list(range(9))


def test_threads_end_with_the_call(threads):
    threads(4)
    pool, targets = clustered(3_000, 24, 5)
    tm.select(pool, targets, 3, kernel=tm.kernels.Gaussian(4.0))
    assert not [t for t in threading.enumerate() if t.name.startswith("tellmost-worker")]


def test_a_gpytorch_kernel_is_evaluated_by_one_thread_at_a_time(threads, monkeypatch):
    """It forgets its active dimensions while it evaluates itself."""
    kernels = pytest.importorskip("gpytorch.kernels")
    kernel = kernels.ScaleKernel(kernels.RBFKernel(active_dims=torch.tensor([0, 2])))
    pool, targets = clustered(2_000, 4, 3)
    monkeypatch.setattr(numerics, "BLOCK_BYTES", 2**10)
    results = []
    for count in (1, 8):
        threads(count)
        results.append(tm.select(pool, targets, 4, kernel=kernel, columns_ahead=1))
    np.testing.assert_array_equal(results[0].gains, results[1].gains)


SELECTIONS = {
    "vtl": {"floor": True},
    "itl": {"normalize": "center+unit", "candidates": np.arange(0, 1_000, 2)},
    "ctl": {"normalize": "unit"},
    "mm-itl": {},  # it keeps covariances of rows and targets
    "uncertainty": {},
    "undirected-vtl": {},
    "k-means++": {},
    "cosine": {},
    "vtl, gaussian": {"kernel": tm.kernels.Gaussian(3.0)},
    "itl, gaussian": {"kernel": tm.kernels.Gaussian(3.0)},
}


@pytest.mark.parametrize("where", ["held", "streamed"])
@pytest.mark.parametrize("name", SELECTIONS)
def test_any_number_of_threads_gives_the_same_bits(name, where, threads, monkeypatch, tmp_path):
    rule, options = name.split(",")[0], SELECTIONS[name]
    pool, targets = clustered(1_000, 12, 6)
    targets = targets_for(rule, pool, targets)
    monkeypatch.setattr("tellmost.rows.checks.SMALL_POOL_BYTES", 0)
    monkeypatch.setattr(numerics, "BLOCK_BYTES", 2**12)
    monkeypatch.setattr(problem, "PIECE_ROWS", 64)
    monkeypatch.setattr(function_space, "UPDATED", 256)
    given = pool.astype(np.float32)
    if where == "streamed":
        monkeypatch.setattr("tellmost.running.memory.HELD_SHARE", 0.0)
        np.save(tmp_path / "pool.npy", given)
        given = tmp_path / "pool.npy"
    results = []
    for count in (1, 2, 3, 8):
        threads(count)
        results.append(tm.select(given, targets, 6, rule=rule, **options))
    for other in results[1:]:
        np.testing.assert_array_equal(other.indices, results[0].indices)
        np.testing.assert_array_equal(other.gains, results[0].gains)
        np.testing.assert_array_equal(other.uncertainty, results[0].uncertainty)
        assert other.fingerprint == results[0].fingerprint


AFTER_FORK = """
import multiprocessing, os, signal, sys
import numpy as np, torch
import tellmost as tm

torch.set_num_threads(2)
rng = np.random.default_rng(0)
pool = rng.standard_normal((6_000, 64)).astype(np.float32)
targets = rng.standard_normal((100, 64))

def choose(rule, kernel=None):
    return tm.select(pool, targets, 3, rule=rule, kernel=kernel).indices.tolist()

def child(rule):
    signal.alarm(200)  # ends a child that hangs
    assert choose(rule) == expected[rule]
    assert choose("itl", tm.kernels.Gaussian(8.0)) == expected["smooth"]

expected = {rule: choose(rule) for rule in ("vtl", "itl")}
expected["smooth"] = choose("itl", tm.kernels.Gaussian(8.0))
torch.linalg.eigh(torch.randn(300, 300) @ torch.ones(300, 300))  # threads of OpenMP and of MKL
torch.ones(1_000, 1_000).exp().sum()
number = os.fork()
if number == 0:
    child("vtl")
    os._exit(0)
assert os.waitpid(number, 0)[1] == 0

start = multiprocessing.get_context("fork").Process
children = [start(target=child, args=(rule,)) for rule in ("vtl", "itl")]
[one.start() for one in children]
[one.join() for one in children]
assert [one.exitcode for one in children] == [0, 0]


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, i):
        child("vtl")
        return i


loader = torch.utils.data.DataLoader(Rows(), num_workers=1, multiprocessing_context="fork")
assert [int(i) for i in loader] == [0]
print("done")
"""


@needs_threads
@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_selects_as_its_parent_did():
    done = subprocess.run(
        [sys.executable, "-c", AFTER_FORK], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr


@needs_threads
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_process_may_be_forked_during_a_call(threads):
    threads(2)

    def fork() -> int:
        number = os.fork()
        if number == 0:
            signal.alarm(60)
            os._exit(0 if total() == 45 else 1)
        return os.waitpid(number, 0)[1]

    def total() -> int:
        came: list[int] = []
        workers.each(range(10), lambda item: item, came.append, count=10)
        return sum(came)

    with workers.team():
        assert total() == 45
        assert fork() == 0
        assert total() == 45


@pytest.mark.process
def test_a_command_asks_openmp_to_wait_passively_before_torch_is_loaded():
    code = (
        "import os, sys, tellmost.cli.ending as ending\n"
        "assert 'torch' not in sys.modules\n"
        "try:\n    ending.main(['--version'])\n"
        "finally:\n    print(os.environ['OMP_WAIT_POLICY'])"
    )
    plain = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=plain)
    assert done.stdout.splitlines()[-1] == "passive", done.stderr
