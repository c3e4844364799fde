"""What does a selection take on 1, 2 and more threads, and beside other work?

Each row of the result is a number of threads beside a number of neighbours: processes that only
spin, each pinned to a core, which this benchmark starts and ends. ``columns`` are 28 float64
columns of the pool by blocks, and ``select`` is VTL for 100 picks about 100 targets. ``torch_own``
are the same columns by torch's own threads, which wait for each other after every operation, and
``torch_own_most`` is the slowest of these. Times are medians of several, wall-clock.

On a machine with many cores: python benchmarks/busy.py --threads 1 2 4 8 16 --print
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

import tellmost as tm
from setting import around, machine, save
from tellmost.rows.pool import Pool
from tellmost.running import workers

SIZE = {"n": 100_000, "d": 768, "m": 100, "k": 100}
SMOKE = {"n": 3_000, "d": 32, "m": 10, "k": 5}
CENTRES = 200  # of clusters; the targets come from five of them
COLUMNS = 28
SPIN = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
BARS = {"columns_busy": 1.1, "select_busy": 2.5, "select_threads": 1.75}


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """So many processes that spin, on the first cores that this process may use."""
    cores = sorted(os.sched_getaffinity(0))
    command = [sys.executable, "-c", SPIN]
    busy = [subprocess.Popen([*command, str(cores[i % len(cores)])]) for i in range(count)]
    try:
        time.sleep(0.3 * bool(count))  # until they spin
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def columns(pool: Pool, vectors: Tensor, out: Tensor) -> None:
    with workers.team():
        pool.products(vectors, out)


def torch_own(pool: Pool, vectors: Tensor, out: Tensor) -> None:
    for start, stop, rows in pool.blocks():
        torch.mm(vectors, rows.T, out=out[:, start:stop])


def times(call: Callable[[], object], repeats: int) -> list[float]:
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return taken


def measure(size: dict, threads: list[int], beside: list[int], repeats: int) -> list[dict]:
    n, d, m = size["n"], size["d"], size["m"]
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(CENTRES, d, generator=generator)
    rows, targets = around(centres, n, generator), around(centres[:5], m, generator)
    vectors = torch.randn(COLUMNS, d, generator=generator, dtype=torch.float64)
    out, pool = torch.empty(COLUMNS, n, dtype=torch.float64), Pool.of(rows)
    work = {
        "columns": lambda: columns(pool, vectors, out),
        "select": lambda: tm.select(
            rows, targets, size["k"], kernel="linear", rule="vtl", noise_ratio=1.0
        ),
        "torch_own": lambda: torch_own(pool, vectors, out),
    }
    many = {"columns": 5 * repeats, "select": repeats, "torch_own": 2 * repeats}
    work["columns"]()
    table = []
    for count in beside:
        for used in threads:
            torch.set_num_threads(used)
            with neighbours(count):
                took = {name: times(call, many[name]) for name, call in work.items()}
            medians = {name: statistics.median(each) for name, each in took.items()}
            most = {"torch_own_most": max(took["torch_own"])}
            table.append({"threads": used, "neighbours": count, **medians, **most})
            print(json.dumps(table[-1]), file=sys.stderr, flush=True)
    return table


def ratios(table: list[dict]) -> dict[str, float]:
    """What the bars are about: two threads, one neighbour. Empty without rows for them."""
    rows = {(row["threads"], row["neighbours"]): row for row in table}
    if not {(1, 0), (2, 0), (2, 1)} <= rows.keys():
        return {}
    one, two, busy = rows[1, 0], rows[2, 0], rows[2, 1]
    return {
        "columns_busy": busy["columns"] / one["columns"],
        "select_busy": busy["select"] / two["select"],
        "select_threads": one["select"] / two["select"],
        "torch_own_busy": busy["torch_own"] / one["columns"],
        "torch_own_busy_most": busy["torch_own_most"] / one["columns"],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny, to see that it runs")
    parser.add_argument("--print", action="store_true", help="print the JSON, and keep no file")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--neighbours", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    size = SMOKE if options.smoke else SIZE
    table = measure(size, options.threads, options.neighbours, options.repeats)
    result = {"size": size, "columns": COLUMNS, "table": table}
    result |= {"ratios": ratios(table), "bars": BARS}
    if options.smoke or options.print:
        print(json.dumps({"machine": machine(), **result}, indent=1))
    else:
        save("busy", result)
