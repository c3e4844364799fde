"""Does the call without options teach a learner more than what people do otherwise?

For every dataset, setting and seed: a pool, targets, and the picks of every method, which several
learners are taught with. README.md has the protocol, which was written before anything was run.
"""

import argparse
import json
import time
from pathlib import Path

import judges
import numpy as np
import tasks
import torch

import tellmost as tm
from tellmost.evaluation.runs import facility_location, nearest_in_turn, similarities

BUDGETS = (10, 25, 50, 100, 200, 500, 1000)
MOST_OF_A_POOL = 0.5  # a larger budget than this share of the pool says little
RATIOS = (0.03, 0.1, 0.3, 1.0, 3.0)
PAPER = {"kernel": "linear", "normalize": None, "targets_are": "all", "noise_ratio": 1.0}
BASELINES = {
    "nearest": {"rule": "top-k"},
    **{f"MMR {weight}": {"rule": tm.rules.MMR(weight)} for weight in (0.3, 0.5, 0.7)},
    "k-centre": {"rule": "k-center"},
}


def methods(dataset: str, is_confirming: bool) -> dict[str, dict]:
    """The options of ``select``, by name. Baselines see rows as they are."""
    plain = {"kernel": "linear", "normalize": None}
    found = {"default": {}, "paper": PAPER}
    found |= {name: plain | options for name, options in BASELINES.items()}
    if dataset in tasks.TABLES:
        found["gaussian"] = {"kernel": "gaussian"}
    if not is_confirming:
        for ratio in RATIOS:
            for are in ("all", "examples"):
                found[f"{are} {ratio}"] = {"targets_are": are, "noise_ratio": ratio}
            if dataset in tasks.TABLES:
                found[f"gaussian {ratio}"] = {"kernel": "gaussian", "noise_ratio": ratio}
    return found


def picks_of(problem: tasks.Problem, k: int, device: str, is_confirming: bool) -> dict:
    """The picks of each method, and what the default did with the targets."""
    pool, targets = (torch.from_numpy(rows).to(device) for rows in (problem.pool, problem.targets))
    seed = problem.seed
    found = {"random": np.random.default_rng([seed, 3]).permutation(len(pool))[:k]}
    similar = similarities(pool, targets)
    found["in turn"] = nearest_in_turn(similar, k).cpu().numpy()
    found["FLQMI"] = facility_location(similar, k).cpu().numpy()
    for name, options in methods(problem.dataset, is_confirming).items():
        found[name] = tm.select(pool, targets, k, **options).indices
    return found


def measure(problem: tasks.Problem, device: str, is_confirming: bool) -> dict:
    n = len(problem.pool)
    budgets = [k for k in BUDGETS if k <= MOST_OF_A_POOL * n]
    start = time.perf_counter()
    picks = picks_of(problem, budgets[-1], device, is_confirming)
    judge = judges.Judge(problem, device)
    is_table = problem.dataset in tasks.TABLES
    score = judge.errors if is_table else judge.accuracies
    scores = {str(k): score([rows[:k] for rows in picks.values()]) for k in budgets}
    return {
        "dataset": problem.dataset,
        "setting": problem.setting,
        "seed": problem.seed,
        "n": n,
        "methods": list(picks),
        "scores": scores,
        "seconds": round(time.perf_counter() - start, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, help="folder of data.py")
    parser.add_argument("--out", type=Path, required=True, help="a line of JSON for each problem")
    parser.add_argument("--confirm", action="store_true", help="the sets not looked at before")
    parser.add_argument("--only", nargs="*", help="only these datasets")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 6), help="first, and one beyond")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), help="this one of so many")
    given = parser.parse_args()
    datasets = tasks.CONFIRMING if given.confirm else tasks.CHOOSING
    todo = [
        (dataset, setting, seed)
        for seed in range(*given.seeds)
        for dataset in given.only or datasets
        for setting in tasks.settings_of(dataset)
    ]
    torch.set_num_threads(1)
    first, step = given.part
    for case in todo[first::step]:
        found = measure(tasks.draw(*case, given.cache), given.device, given.confirm)
        with given.out.open("a") as file:
            file.write(json.dumps(found) + "\n")
        print(*case, found["seconds"], flush=True)


if __name__ == "__main__":
    main()
