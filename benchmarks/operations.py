"""How much processor time does a selection take on one thread, beside plain passes over the pool?

Large pools are compared with one plain float32 product of two columns, ``V @ X.T``, for each pick,
in the same run. Small pools are timed alone: there most of the time goes to many small calls. The
call without options is timed with targets as examples and as all there is.
"""

import argparse
import time
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

import tellmost as tm
from setting import around, save

LARGE = (100_000, 768, 100, 100)  # rows, features, targets, picks
LARGE_BARS = {"vtl": 0.45, "itl": 0.35, "ctl": 0.6, "undirected-itl": None}  # of the plain passes
SMALL = [  # size, and the milliseconds that each rule may take
    ((10_000, 256, 100, 100), {"itl": 50.0, "vtl": 50.0, "ctl": 80.0}),
    ((1_000, 1_280, 10, 10), {"vtl": 5.0}),
    ((300, 384, 15, 10), {"vtl": 2.0}),
]
EXAMPLES, EXAMPLES_BAR = (100_000, 768, 30, 100), 0.5  # what estimating adds, of the rest
SMOKE = (2_000, 32, 10, 5)
CLUSTERS = 200


def clustered(n: int, d: int, m: int) -> tuple[Tensor, Tensor]:
    """Float32 unit rows in 200 clusters; the targets come from five of them."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(CLUSTERS, d, generator=generator)
    return around(centres, n, generator), around(centres[:5], m, generator)


def independent(n: int, d: int, m: int) -> tuple[Tensor, Tensor]:
    """Float32 unit rows and targets of independent directions."""
    generator = torch.Generator().manual_seed(0)
    nowhere = torch.zeros(1, d)
    return around(nowhere, n, generator), around(nowhere, m, generator)


def seconds(call: Callable[[], object], repeats: int) -> float:
    """The least processor time of a call, after one that is not counted."""
    call()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def run(pool: Tensor, targets: Tensor, k: int, rule: str) -> tm.Selection:
    """Rows and targets are taken as given."""
    kernel = tm.kernels.Linear()
    return tm.select(pool, targets, k, rule=rule, kernel=kernel, normalize=None, noise_ratio=1.0)


def measure_large(size: tuple[int, int, int, int], repeats: int) -> dict:
    n, d, m, k = size
    problems = {"clustered": clustered(n, d, m), "independent": independent(n, d, m)}
    columns = torch.randn(2, d)
    plain = seconds(lambda: columns @ problems["clustered"][0].T, 10 * repeats)
    rows = []
    for name, (pool, targets) in problems.items():
        for rule, bar in LARGE_BARS.items():
            took = seconds(lambda: run(pool, targets, k, rule), repeats)  # noqa: B023
            row = {"rows": name, "rule": rule, "seconds": took, "of_plain": took / (k * plain)}
            row["passes"] = run(pool, targets, k, rule).settings["passes"]
            rows.append(row | ({"bar": bar} if name == "clustered" and bar else {}))
            print(rows[-1], flush=True)
    return {"n": n, "d": d, "m": m, "k": k, "plain_pass": plain, "rules": rows}


def measure_small(size: tuple[int, int, int, int], bars: dict[str, float], repeats: int) -> dict:
    n, d, m, k = size
    pool, targets = clustered(n, d, m)
    rows = []
    for rule, bar in bars.items():
        took = seconds(lambda: run(pool, targets, k, rule), repeats)  # noqa: B023
        rows.append({"rule": rule, "milliseconds": 1e3 * took, "bar": bar})
        print((n, d), rows[-1], flush=True)
    return {"n": n, "d": d, "m": m, "k": k, "rules": rows}


def measure_examples(size: tuple[int, int, int, int], repeats: int) -> dict:
    n, d, m, k = size
    pool, targets = clustered(n, d, m)
    took = {
        meaning: seconds(lambda: tm.select(pool, targets, k, targets_are=meaning), repeats)  # noqa: B023
        for meaning in ("all", "examples")
    }
    added = took["examples"] / took["all"] - 1
    print("targets as examples", took, f"adds {added:.2f}", flush=True)
    return {"n": n, "d": d, "m": m, "k": k, "seconds": took, "added": added, "bar": EXAMPLES_BAR}


def main(repeats: int) -> dict:
    small = [measure_small(size, bars, 10 * repeats) for size, bars in SMALL]
    examples = measure_examples(EXAMPLES, repeats)
    return {"large": measure_large(LARGE, repeats), "small": small, "examples": examples}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny, to see that it runs")
    parser.add_argument("--small", action="store_true", help="only the small pools; saves nothing")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    torch.set_num_threads(1)
    if options.smoke:
        print(measure_large(SMOKE, 1), measure_small(SMOKE, {"vtl": 1e3}, 1))
        print(measure_examples(SMOKE, 1))
    elif options.small:
        [measure_small(size, bars, 30) for size, bars in SMALL]
    else:
        save("operations", main(3))
