"""Time submodlib's LogDetMI on a stored problem and print one JSON line.

logdetmi       naive greedy: every candidate is scored at every pick (exact greedy).
logdetmi-lazy  lazy greedy: faster, but exact only for submodular objectives, which this is not.

Runs in submodlib's own environment; see README.md beside this file.
"""

import argparse
import json
import os
import resource
from importlib.metadata import version
from time import perf_counter

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "2"  # numpy reads it once

import numpy as np
from submodlib import LogDeterminantMutualInformationFunction

THREADS = 2
OPTIMIZERS = {"logdetmi": "NaiveGreedy", "logdetmi-lazy": "LazyGreedy"}


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", required=True, help=".npz with pool and targets")
    parser.add_argument("--k", type=int, required=True)
    parser.add_argument("--noise-std", type=float, required=True)
    parser.add_argument("--mode", choices=list(OPTIMIZERS), required=True)
    parser.add_argument("--picks", type=int, help="picks made and timed (default k)")
    return parser.parse_args()


def build_function(pool, targets, noise_std: float):
    """LogDetMI with the linear kernel; submodlib adds lambdaVal to both diagonals."""
    return LogDeterminantMutualInformationFunction(
        n=len(pool),
        num_queries=len(targets),
        lambdaVal=noise_std**2,
        data_sijs=pool @ pool.T,
        query_sijs=pool @ targets.T,
        query_query_sijs=targets @ targets.T,
        magnificationEta=1,
    )


def measure(arguments: argparse.Namespace, pool, targets) -> dict:
    picks = arguments.picks or arguments.k
    start = perf_counter()
    function = build_function(pool, targets, arguments.noise_std)
    setup = perf_counter() - start
    optimizer = OPTIMIZERS[arguments.mode]
    chosen = function.maximize(budget=picks, optimizer=optimizer, show_progress=False)
    seconds = perf_counter() - start
    return {
        "seconds": seconds,
        "setup_seconds": setup,
        "first_call_seconds": 0.0,  # compiled ahead of time: nothing to warm up
        "picks_measured": picks,
        "seconds_per_pick": (seconds - setup) / picks,
        "indices": [index for index, _ in chosen],
    }


def peak_rss_mb() -> float:
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes / 1024


def divert_stdout() -> int:
    """Send all printing, the C++ side's too, to stderr; return a handle to the real stdout."""
    real_stdout = os.dup(1)
    os.dup2(2, 1)
    return real_stdout


def main() -> None:
    arguments = read_arguments()
    real_stdout = divert_stdout()
    problem = np.load(arguments.problem)
    pool, targets = problem["pool"], problem["targets"]
    report = {"peer": "submodlib-py", "version": version("submodlib-py"), "mode": arguments.mode}
    report |= {"n": pool.shape[0], "d": pool.shape[1], "m": targets.shape[0], "k": arguments.k}
    report |= {"noise_std": arguments.noise_std, "base_rss_mb": peak_rss_mb()}
    report |= {"load_before": os.getloadavg()[0]}
    report |= measure(arguments, pool, targets)
    report |= {"peak_rss_mb": peak_rss_mb(), "threads": THREADS}
    os.write(real_stdout, (json.dumps(report) + "\n").encode())


if __name__ == "__main__":
    main()
