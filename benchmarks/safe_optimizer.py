"""What does an ask of the safe optimiser cost, with all targets, beside SafeOpt's heuristic?

Processor seconds of one thread for an ask and the tell after it, on the paper's 2d task. Both
libraries are given the same observations and asked after each of the last ones; SafeOpt's settings
are in peers/README.md. ``--peers DIR`` names the folder that holds its environment.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path
from time import process_time

import numpy as np
import torch

import tellmost as tm
from island import BETA, LENGTHSCALES, NOISE_STD, Island, Record, explore
from setting import save

SIZES = ((50, 50), (50, 200), (200, 200))  # points along a side, observations
SIDE, ASKS, ROUNDS = 50, 15, 5
RULES = ("vtl", "itl")
AUTHORS = {"itl": 0.76, "vtl": 1.68}  # seconds per step of their code on the 2d task, run earlier
STEPS = 100  # of that task


def measure_ours(record: Record, observed: int, rule: str, kernels: str, asks: int) -> dict:
    optimizer = record.island.optimizer(rule, kernels)
    for number in range(observed):
        record.tell(optimizer, number)
    seconds = []
    for number in range(observed, observed + asks + 1):
        start = process_time()
        optimizer.ask()
        record.tell(optimizer, number)
        seconds.append(process_time() - start)
    return {"seconds_per_ask": statistics.median(seconds[1:])}  # the first warms up


def measure_peer(folder: Path, record: Record, observed: int, kernels: str, asks: int) -> dict:
    with tempfile.TemporaryDirectory() as scratch:
        problem = Path(scratch) / "problem.npz"
        np.savez(
            problem,
            grid=record.island.grid,
            rows=record.rows,
            y=record.y,
            noise_std=NOISE_STD,
            beta=BETA,
            lengthscales=LENGTHSCALES[kernels],
        )
        command = [
            str(folder / "safeopt" / "bin" / "python"),
            str(Path(__file__).parent / "peers" / "safeopt_peer.py"),
            *("--problem", str(problem), "--observed", str(observed), "--asks", str(asks)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        why = done.stderr.strip().splitlines()
        return {"failed": why[-1] if why else ""}
    return json.loads(done.stdout.strip().splitlines()[-1])


def compare(record: Record, observed: int, kernels: str, folder: Path | None, rounds: int) -> dict:
    """Medians over rounds in which all take turns."""
    asks = min(ASKS, len(record.rows) - observed - 1)
    each: dict[str, list[dict]] = {}
    for _ in range(rounds):
        for rule in RULES:
            each.setdefault(rule, []).append(measure_ours(record, observed, rule, kernels, asks))
        if folder is not None:
            peer = measure_peer(folder, record, observed, kernels, asks)
            each.setdefault("safeopt", []).append(peer)
    rows = {name: typical(found) for name, found in each.items()}
    peer_seconds = rows.get("safeopt", {}).get("seconds_per_ask")
    if peer_seconds is not None:
        for rule in RULES:
            rows[rule]["times_faster"] = peer_seconds / rows[rule]["seconds_per_ask"]
    size = {"points": record.island.side**2, "observed": observed, "asks": asks}
    result = {**size, "kernels": kernels, **rows}
    print(json.dumps(result), flush=True)
    return result


def typical(found: list[dict]) -> dict:
    if any("failed" in one for one in found):
        return next(one for one in found if "failed" in one)
    medians = [one["seconds_per_ask"] for one in found]
    return {**found[-1], "seconds_per_ask": statistics.median(medians), "medians": medians}


def measure_task(rule: str, side: int, steps: int) -> dict:
    """The 2d task itself, from its first observation on: mean seconds per step."""
    island, rng = Island(side), np.random.default_rng(0)
    values, row = island.values, island.centre
    optimizer = island.optimizer(rule)
    start = process_time()
    for _ in range(steps):
        f, g = (values[row] + NOISE_STD * rng.standard_normal(2)).tolist()
        optimizer.tell(row=row, objective=f, constraints={"g": g})
        row = optimizer.ask().index
    took = (process_time() - start) / steps
    faster = AUTHORS[rule] / took
    print(f"{rule}: {1e3 * took:.1f} ms per step, the authors' code takes {faster:.0f} times that")
    return {
        "rule": rule,
        "seconds_per_step": took,
        "authors": AUTHORS[rule],
        "times_faster": faster,
    }


def measure_rough(rule: str, n: int) -> dict:
    """No small rank: Matern-5/2, lengthscale 0.1, on a line; half of it has been measured."""
    X = np.linspace(0.0, 20.0, n)[:, None]
    kernel = tm.kernels.Matern(2.5, 0.1)
    gps = [tm.GP(kernel, noise_std=NOISE_STD) for _ in range(2)]
    limited = {"g": tm.Constraint(gps[1], at_least=0.0)}
    optimizer = tm.SafeOptimizer(X, objective=gps[0], constraints=limited, beta=1.0, rule=rule)
    for row in range(0, n // 2, n // 100):
        optimizer.tell(row=row, objective=float(np.sin(X[row, 0])), constraints={"g": 1.0})
    seconds = []
    for _ in range(ASKS):
        start = process_time()
        query = optimizer.ask()
        optimizer.tell(query, float(np.sin(query.x[0])), {"g": 1.0})
        seconds.append(process_time() - start)
    took = statistics.median(seconds)
    count = int(optimizer.target_mask.sum())
    print(f"{rule}: {1e3 * took:.0f} ms per ask about {count:,} points of a rough function")
    return {"rule": rule, "points": n, "targets": count, "seconds_per_ask": took}


def measure(folder: Path | None, sizes: tuple, side: int, rounds: int) -> dict:
    record = explore(side, max(observed for _, observed in sizes) + ASKS + 1)
    return {
        "asks": [
            compare(record.on(points), observed, kernels, folder, rounds)
            for kernels in LENGTHSCALES
            for points, observed in sizes
        ],
        "task": [measure_task(rule, side, STEPS if rounds > 1 else 2) for rule in RULES],
        "rough": [measure_rough(rule, 40 * side) for rule in RULES],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny, to see that it runs")
    parser.add_argument("--peers", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.smoke:
        measure(None, ((10, 5), (20, 5)), side=10, rounds=1)
    else:
        save("safe_optimizer", measure(arguments.peers, SIZES, SIDE, ROUNDS))
