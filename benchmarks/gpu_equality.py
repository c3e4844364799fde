"""Does a GPU pick what the CPU picks?

Random problems of every rule and kind of kernel, with options, dtypes, near duplicates and exact
ones; on the CPU, on the GPU with fused kernels, and on the GPU in plain torch.
"""

import argparse
import warnings

import numpy as np
import torch
from torch import Tensor

import tellmost as tm
from gpu import plainly
from setting import save
from tellmost.rules import targets_in_pool

KERNELS = ("linear", "linear", "linear", "covariance", "gaussian", "laplace")
DTYPES = (torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16)


def problem(rng: np.random.Generator) -> dict:
    """Arguments of a selection, the pool as a CPU tensor."""
    n, d, m = int(rng.integers(300, 6_000)), int(rng.integers(5, 200)), int(rng.integers(1, 80))
    rule = str(rng.choice(tm.rules.names()))
    arguments = {
        "pool": rows(rng, n, d),
        "targets": torch.from_numpy(rng.standard_normal((m, d))).float(),
        "k": int(rng.integers(2, 70)),
        "rule": rule,
        "kernel": kernel(str(rng.choice(KERNELS)), d),
        "noise_ratio": float(rng.choice([0.01, 0.1, 1.0, 10.0])),
        "columns_ahead": rng.choice([None, None, 1, 5, 40]),
        "normalize": rng.choice([None, None, "unit", "center+unit"]),
        "conditional": bool(rng.random() < 0.9),
    }
    if targets_in_pool(tm.rules.get(rule)) is not None:
        arguments["targets"] = arguments["pool"][:m].float()
        return arguments
    if rng.random() < 0.2:
        arguments["candidates"] = np.flatnonzero(rng.random(n) < 0.5)
    if rng.random() < 0.2:
        arguments["observed"] = rng.choice(n, 3, replace=False)
    if rng.random() < 0.1:
        arguments |= {"groups": rng.integers(0, 50, n), "max_per_group": 2}
    return arguments


def rows(rng: np.random.Generator, n: int, d: int) -> Tensor:
    """Clustered rows; some pools have near duplicates or equal rows."""
    centres = rng.standard_normal((12, d))
    values = centres[rng.integers(12, size=n)] + 0.7 * rng.standard_normal((n, d))
    kind = rng.random()
    if kind < 0.15:
        values[n // 2 :] = values[: n - n // 2]
    elif kind < 0.3:
        values[n // 2 :] = values[: n - n // 2] + 1e-3 * rng.standard_normal((n - n // 2, d))
    return torch.from_numpy(values).to(DTYPES[int(rng.integers(len(DTYPES)))])


def kernel(name: str, d: int) -> object:
    return {
        "linear": "linear",
        "covariance": tm.kernels.Linear(torch.diag(torch.linspace(0.2, 3.0, d))),
        "gaussian": tm.kernels.Gaussian(float(d) ** 0.5),
        "laplace": tm.kernels.Laplace(float(d)),
    }[name]


def compare(count: int, device: str) -> dict:
    rng, others, gap, fused = np.random.default_rng(0), [], 0.0, 0
    by_rule: dict[str, int] = {}
    for number in range(count):
        arguments = problem(rng)
        pool, targets = arguments.pop("pool"), arguments.pop("targets").double()
        there = pool.to(device), targets.to(device)
        cpu = tm.select(pool, targets, **arguments)
        gpu = tm.select(*there, **arguments)
        plain = plainly(lambda there=there, arguments=arguments: tm.select(*there, **arguments))
        by_rule[arguments["rule"]] = by_rule.get(arguments["rule"], 0) + 1
        fused += gpu.settings["rounds"] > 0
        for name, other in (("fused", gpu), ("plain", plain)):
            if not np.array_equal(cpu.indices, other.indices):
                first = int(np.flatnonzero(cpu.indices != other.indices)[0])
                described = {key: str(value)[:60] for key, value in arguments.items()}
                others.append({"problem": number, "path": name, "pick": first, **described})
                print("OTHER PICKS", others[-1], flush=True)
            else:
                scale = np.abs(cpu.gains).max() or 1.0
                gap = max(gap, float(np.abs(cpu.gains - other.gains).max() / scale))
    print(f"{count} problems, {len(others)} with other picks, largest gap {gap:.1e} of the gain")
    return {
        "problems": count,
        "by_rule": by_rule,
        "in_fused_rounds": int(fused),
        "other_picks": others,
        "largest_gap_of_gains": gap,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="few problems, on a CPU if need be")
    parser.add_argument("--problems", type=int, default=400)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.smoke:
        compare(12, device)
    else:
        compared = compare(options.problems, device)
        save("gpu_equality", {"gpu": torch.cuda.get_device_name(), **compared})
