"""Time SafeOpt's heuristic mode on stored observations and print one JSON line.

An ask is ``optimize()`` and, with the next stored observation, ``add_new_data_point()``.

Runs in safeopt's own environment; see README.md beside this file.
"""

import argparse
import collections
import collections.abc
import json
import os
import statistics
from importlib.metadata import version
from time import process_time

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy reads it once

import numpy as np

collections.Sequence = collections.abc.Sequence  # gone from Python 3.10
np.float, np.bool = float, bool  # gone from numpy 1.24

import GPy  # noqa: E402
import safeopt  # noqa: E402


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", required=True, help=".npz: grid, rows, y, lengthscales...")
    parser.add_argument("--observed", type=int, required=True, help="observations to begin with")
    parser.add_argument("--asks", type=int, required=True)
    return parser.parse_args()


def make_optimizer(problem, observed: int) -> safeopt.SafeOpt:
    """Zero-mean Gaussian kernels of variance 1; a limit of 0 for the second function alone."""
    X, y = problem["grid"][problem["rows"][:observed]], problem["y"][:observed]
    gps = [
        GPy.models.GPRegression(
            X,
            y[:, [i]],
            GPy.kern.RBF(X.shape[1], variance=1.0, lengthscale=lengthscale),
            noise_var=float(problem["noise_std"]) ** 2,
        )
        for i, lengthscale in enumerate(problem["lengthscales"])
    ]
    return safeopt.SafeOpt(
        gps,
        problem["grid"],
        fmin=[-np.inf, 0.0],
        lipschitz=None,
        beta=float(problem["beta"]),
        threshold=0,
    )


def measure(optimizer: safeopt.SafeOpt, problem, asks: int) -> list[float]:
    """Processor seconds of each ask; one more is made before, which warms up."""
    seconds = []
    first = optimizer.t
    for i in range(first, first + asks + 1):
        start = process_time()
        optimizer.optimize()
        optimizer.add_new_data_point(problem["grid"][problem["rows"][i]], problem["y"][i])
        seconds.append(process_time() - start)
    return seconds[1:]


def main() -> None:
    arguments = read_arguments()
    problem = np.load(arguments.problem)
    optimizer = make_optimizer(problem, arguments.observed)
    seconds = measure(optimizer, problem, arguments.asks)
    answer = {
        "version": version("safeopt"),
        "numpy": np.__version__,
        "observed": arguments.observed,
        "asks": arguments.asks,
        "seconds_per_ask": statistics.median(seconds),
        "least": min(seconds),
        "most": max(seconds),
        "safe": int(optimizer.S.sum()),
        "load_before": os.getloadavg()[0],
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
