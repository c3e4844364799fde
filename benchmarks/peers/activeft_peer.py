"""Time activeft on a stored problem and print one JSON line.

exact-*    one greedy chain over the whole pool, through the `initialize` / `compute` / `step`
           calls that `select_from_minibatch` makes; every pick costs the same, so a few suffice.
default-*  `ActiveDataLoader.next` with its defaults: a random tournament of 1,000-point chunks.

Runs in activeft's own environment; see README.md beside this file.
"""

import argparse
import json
import os
import resource
from time import perf_counter

import activeft
import numpy as np
import torch
from activeft.acquisition_functions.ctl import CTL
from activeft.acquisition_functions.itl import ITL
from activeft.acquisition_functions.vtl import VTL

THREADS = 2
SEED = 0  # the default mode shuffles the pool
WARM_UP_SIZE = 100
RULES = {"itl": ITL, "vtl": VTL, "ctl": CTL}
MODES = ["exact-itl", "exact-vtl", "exact-ctl", "default-itl", "default-vtl"]


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", required=True, help=".npz with pool and targets")
    parser.add_argument("--k", type=int, required=True)
    parser.add_argument("--noise-std", type=float, required=True)
    parser.add_argument("--mode", choices=MODES, required=True)
    parser.add_argument("--picks", type=int, help="exact modes: picks timed after the first")
    arguments = parser.parse_args()
    if arguments.k < 2:
        parser.error(f"k must be at least 2, as the first pick is not timed; got {arguments.k}.")
    return arguments


def run_exact(rule, pool, picks: int) -> dict:
    """`picks` timed picks, after a first one that is reported apart."""
    start = perf_counter()
    state = rule.initialize(None, pool, None)
    setup = perf_counter() - start
    indices, laps = [], []
    for _ in range(picks + 1):
        lap = perf_counter()
        index = rule.selector(rule.compute(state))
        state = rule.step(state, index)
        laps.append(perf_counter() - lap)
        indices.append(index)
    return {
        "seconds": perf_counter() - start,
        "setup_seconds": setup,
        "first_call_seconds": laps[0],
        "picks_measured": picks,
        "seconds_per_pick": sum(laps[1:]) / picks,
        "indices": indices,
    }


def run_default(rule, pool, k: int) -> dict:
    """One batch from the data loader, after a small batch that warms torch up."""
    start = perf_counter()
    activeft.ActiveDataLoader(pool[:WARM_UP_SIZE], 2, rule).next()
    warm_up = perf_counter() - start
    torch.manual_seed(SEED)
    start = perf_counter()
    loader = activeft.ActiveDataLoader(pool, k, rule)
    setup = perf_counter() - start
    indices, _ = loader.next()
    seconds = perf_counter() - start
    return {
        "seconds": seconds,
        "setup_seconds": setup,
        "first_call_seconds": warm_up,
        "picks_measured": k,
        "seconds_per_pick": (seconds - setup) / k,
        "indices": indices.tolist(),
    }


def measure(arguments: argparse.Namespace, pool, targets) -> dict:
    kind, name = arguments.mode.split("-")
    rule = RULES[name](target=targets, noise_std=arguments.noise_std)
    if kind == "default":
        return run_default(rule, pool, arguments.k)
    return run_exact(rule, pool, arguments.picks or arguments.k - 1)


def peak_rss_mb() -> float:
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes / 1024


def main() -> None:
    arguments = read_arguments()
    torch.set_num_threads(THREADS)
    problem = np.load(arguments.problem)
    pool, targets = torch.from_numpy(problem["pool"]), torch.from_numpy(problem["targets"])
    report = {"peer": "activeft", "version": activeft.__version__, "mode": arguments.mode}
    report |= {"n": pool.shape[0], "d": pool.shape[1], "m": targets.shape[0], "k": arguments.k}
    report |= {"noise_std": arguments.noise_std, "base_rss_mb": peak_rss_mb()}
    report |= {"load_before": os.getloadavg()[0]}
    with torch.no_grad():
        report |= measure(arguments, pool, targets)
    print(json.dumps(report | {"peak_rss_mb": peak_rss_mb(), "threads": THREADS}))


if __name__ == "__main__":
    main()
