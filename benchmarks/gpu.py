"""How fast is a selection on a GPU, against the time that reading the pool takes?

Set-up included, the copy to the GPU not. ``reads`` is the time of a pick over the time of one read
of the pool: below 1 where a pass prepares several picks. Each selection is compared with the plain
torch path, which makes a pass for every pick.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

import tellmost as tm
import tellmost.gpu
from setting import NOISE_STD, save

BARS = [  # rows, features, targets, picks, milliseconds to reach with ITL
    (10_000, 256, 100, 100, 10),
    (100_000, 768, 100, 100, 20),
    (1_000_000, 1_024, 100, 100, 60),
    (4_000_000, 1_024, 1_000, 100, 300),
    (1_000_000, 1_024, 100, 1_000, 500),
]
SMOKE = [(2_000, 64, 10, 10, 1_000)]
KERNELS = {"linear": "linear", "gaussian": tm.kernels.Gaussian(1.0)}
GAUSSIAN_KERNEL_ROWS = 100_000  # larger pools are timed with inner products alone


def clustered(n: int, d: int, m: int, device: str) -> tuple[Tensor, Tensor]:
    """Float32 unit rows in 50 clusters; the targets come from five of them."""
    generator = torch.Generator(device).manual_seed(0)
    centres = torch.randn(50, d, device=device, generator=generator)
    return around(centres, n, generator), around(centres[:5], m, generator)


def gaussian(n: int, d: int, m: int, device: str) -> tuple[Tensor, Tensor]:
    """Float32 unit rows of independent directions."""
    generator = torch.Generator(device).manual_seed(0)
    nowhere = torch.zeros(1, d, device=device)
    return around(nowhere, n, generator), around(nowhere, m, generator)


def around(centres: Tensor, count: int, generator: torch.Generator) -> Tensor:
    device = centres.device
    rows = torch.empty(count, centres.shape[1], device=device)
    for part in rows.split(100_000):
        part.normal_(generator=generator).mul_(0.7)
        which = torch.randint(len(centres), (len(part),), device=device, generator=generator)
        part += centres[which]
        part /= part.norm(dim=1, keepdim=True)
    return rows


def milliseconds(call: Callable[[], object], repeats: int) -> dict[str, object]:
    """All times after a first call, which compiles the kernels, and their median."""
    call()
    times = []
    for _ in range(repeats):
        synchronize()
        start = time.perf_counter()
        call()
        synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return {"median": statistics.median(times), "all": [round(t, 3) for t in times]}


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def plainly(call: Callable[[], tm.Selection]) -> tm.Selection:
    """Without the kernels, a pass for every pick."""
    has_triton = tellmost.gpu.has_triton
    tellmost.gpu.has_triton = lambda: False
    try:
        return call()
    finally:
        tellmost.gpu.has_triton = has_triton


def measure(size: tuple[int, int, int, int, int], device: str, repeats: int) -> list[dict]:
    n, d, m, k, bar = size
    rows = []
    for name, make in (("clustered", clustered), ("gaussian", gaussian)):
        pool, targets = make(n, d, m, device)
        reading = milliseconds(lambda pool=pool: pool.sum(), 20)["median"]
        for rule, kernel in [("itl", "linear"), ("vtl", "linear"), ("itl", "gaussian")]:
            if kernel == "gaussian" and n > GAUSSIAN_KERNEL_ROWS:
                continue

            def call(pool=pool, targets=targets, rule=rule, kernel=kernel, ahead=None):
                return tm.select(
                    pool, targets, k, rule=rule, kernel=KERNELS[kernel], noise_std=NOISE_STD,
                    columns_ahead=ahead,
                )  # fmt: skip

            took = milliseconds(call, repeats)
            chosen, plain = call(), plainly(lambda call=call: call(ahead=1))
            row = {
                "n": n, "d": d, "m": m, "k": k, "pool": name, "rule": rule, "kernel": kernel,
                "milliseconds": took, "one_read": reading,
                "reads_per_pick": took["median"] / (k * reading),
                "passes": chosen.settings["passes"],
                "columns_ahead": chosen.settings["columns_ahead"],
                "same_picks": bool((chosen.indices == plain.indices).all()),
                "largest_gain_gap": float(abs(chosen.gains - plain.gains).max()),
                "bar": bar if (rule, kernel) == ("itl", "linear") else None,
            }  # fmt: skip
            rows.append(row)
            print(
                f"{n:>9,} x {d:<5} m {m:<5} k {k:<5} {name:>9} {rule} {kernel:>8}: "
                f"{took['median']:8.1f} ms, {row['passes']:>4} passes, "
                f"{row['reads_per_pick']:.2f} reads per pick, "
                f"{'same picks' if row['same_picks'] else 'OTHER PICKS'}"
                f"{'' if row['bar'] is None else f', bar {bar} ms'}",
                flush=True,
            )
        del pool, targets
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny, and on a CPU if need be")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.smoke:
        print([measure(size, device, 1) for size in SMOKE])
    else:
        measured = [row for size in BARS for row in measure(size, device, 5)]
        save("gpu", {"gpu": torch.cuda.get_device_name(), "selections": measured})
