"""Time bmdal_reg on a stored problem and print one JSON line. It knows no targets.

bait    forward greedy BAIT: least summed posterior variance over the pool (undirected VTL).
maxdet  greedy determinant maximisation (undirected ITL, uncertainty sampling).

Runs in bmdal_reg's own environment; see README.md beside this file.
"""

import argparse
import json
import os
import resource
from importlib.metadata import version
from time import perf_counter

import numpy as np
import torch
from bmdal_reg.bmdal.algorithms import select_batch
from bmdal_reg.bmdal.feature_data import TensorFeatureData

THREADS = 2
WARM_UP_SIZE = 100
MODES = ["bait", "maxdet"]


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", required=True, help=".npz with pool and targets")
    parser.add_argument("--k", type=int, required=True)
    parser.add_argument("--noise-std", type=float, required=True)
    parser.add_argument("--mode", choices=MODES, required=True)
    parser.add_argument("--picks", type=int, help="picks made and timed (default k)")
    return parser.parse_args()


def select(pool, picks: int, mode: str, noise_std: float):
    """Linear kernel on the features as they are; a zero row stands for 'no training data'."""
    nothing = torch.zeros(1, pool.shape[1])
    return select_batch(
        batch_size=picks,
        models=[torch.nn.Identity()],
        data={"train": TensorFeatureData(nothing), "pool": TensorFeatureData(pool)},
        y_train=None,
        base_kernel="linear",
        kernel_transforms=[],
        selection_method=mode,
        sel_with_train=False,
        bait_sigma=noise_std,
        maxdet_sigma=noise_std,
        verbosity=0,
    )


def measure(arguments: argparse.Namespace, pool) -> dict:
    picks = arguments.picks or arguments.k
    start = perf_counter()
    select(pool[:WARM_UP_SIZE], 2, arguments.mode, arguments.noise_std)
    warm_up = perf_counter() - start
    start = perf_counter()
    indices, results = select(pool, picks, arguments.mode, arguments.noise_std)
    seconds = perf_counter() - start
    if results["selection_status"] is not None:
        raise RuntimeError(results["selection_status"])
    setup = results["kernel_time"]["total"]
    return {
        "seconds": seconds,
        "setup_seconds": setup,
        "first_call_seconds": warm_up,
        "picks_measured": picks,
        "seconds_per_pick": (seconds - setup) / picks,
        "indices": indices.tolist(),
    }


def peak_rss_mb() -> float:
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes / 1024


def main() -> None:
    arguments = read_arguments()
    torch.set_num_threads(THREADS)
    problem = np.load(arguments.problem)
    pool, targets = torch.from_numpy(problem["pool"]), problem["targets"]
    report = {"peer": "bmdal_reg", "version": version("bmdal_reg"), "mode": arguments.mode}
    report |= {"n": pool.shape[0], "d": pool.shape[1], "m": targets.shape[0], "k": arguments.k}
    report |= {"noise_std": arguments.noise_std, "base_rss_mb": peak_rss_mb()}
    report |= {"load_before": os.getloadavg()[0]}
    with torch.no_grad():
        report |= measure(arguments, pool)
    print(json.dumps(report | {"peak_rss_mb": peak_rss_mb(), "threads": THREADS}))


if __name__ == "__main__":
    main()
