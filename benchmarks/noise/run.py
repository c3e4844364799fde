"""Which noise ratio should be the default? Probe accuracy after selecting at many of them.

For every dataset and seed: a few target classes, 30 unlabelled inputs of them as targets, the
remaining training rows of all classes as the pool. Every method picks up to 3 d rows; a linear
probe learns from the picks' labels and is tested on unseen inputs of the target classes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

import tellmost as tm

TARGETS = 30
RULES = ("vtl", "itl")
ROWS = {"raw": None, "unit": "unit"}  # our name -> the library's `normalize`
MMR_WEIGHTS = (0.3, 0.5, 0.7)
COARSE = (0.01, 0.1, 1.0, 10.0, 100.0)
FINE = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
PROBE_L2 = 0.01  # on features of mean squared norm one; see README
PROBE_STEPS = 200


@dataclass(frozen=True)
class Plan:
    """How one dataset is used: sizes, and which classes may be targets."""

    dataset: str
    ks: tuple[int, ...]
    ratios: tuple[float, ...]
    seeds: tuple[int, ...]
    classes: tuple[int, ...]  # candidates for target classes
    target_classes: int  # how many of them a seed draws
    pool_size: int | None = None  # None: all rows


# k is d/16, d/4, d and 3 d
PLANS = (
    Plan("digits", (4, 16, 64, 192), FINE, (0, 1, 2, 3, 4), (3, 6, 9), 3),
    Plan("banking77", (24, 96, 384, 1152), COARSE, (0, 1, 2, 3, 4), tuple(range(77)), 5),
    Plan(
        "cifar100", (80, 320, 1280, 3840), COARSE, (0, 1, 2), tuple(range(10)), 3, pool_size=15_000
    ),
)


def smoke(plan: Plan) -> Plan:
    """The same path through the code in seconds; its figures mean nothing."""
    ks = tuple(max(1, k // 16) for k in plan.ks)
    return replace(plan, ks=ks, ratios=(0.1, 10.0), seeds=(0,), pool_size=1_000)


@dataclass(frozen=True)
class Problem:
    """One draw of a dataset: what is selected from, for what, and how it is judged."""

    pool: torch.Tensor
    pool_labels: np.ndarray
    targets: torch.Tensor
    test: torch.Tensor
    test_labels: np.ndarray
    target_classes: np.ndarray


def draw(plan: Plan, seed: int, cache: Path, device: str) -> Problem:
    rng = np.random.default_rng(seed)
    X, y, test, test_labels = load(plan.dataset, cache, rng)
    classes = np.sort(rng.choice(plan.classes, plan.target_classes, replace=False))
    targets = draw_targets(y, classes, rng)
    pool = rng.permutation(np.setdiff1d(np.arange(len(y)), targets))[: plan.pool_size]
    asked = np.isin(test_labels, classes)
    rows = (torch.from_numpy(r).float().to(device) for r in (X[pool], X[targets], test[asked]))
    points, wanted, asked_points = rows
    return Problem(points, y[pool], wanted, asked_points, test_labels[asked], classes)


def load(dataset: str, cache: Path, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Training rows and labels, test rows and labels; digits has no split of its own."""
    if dataset != "digits":
        names = [f"{dataset}_{split}_{part}" for split in ("train", "test") for part in "xy"]
        return tuple(np.load(cache / f"{name}.npy") for name in names)
    X, y = (np.load(cache / f"digits_all_{part}.npy") for part in "xy")
    test, train = np.split(rng.permutation(len(y)), [len(y) // 3])
    return X[train], y[train], X[test], y[test]


def draw_targets(y: np.ndarray, classes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows of TARGETS inputs, the same number from each target class."""
    each = TARGETS // len(classes)
    return np.concatenate([rng.choice(np.flatnonzero(y == c), each, False) for c in classes])


@dataclass(frozen=True)
class Cell:
    """One selection to make: a point of the grid. `rows` and `ratio` are None for baselines."""

    dataset: str
    seed: int
    method: str
    rows: str | None = None
    noise_ratio: float | None = None


def grid(plan: Plan, seed: int) -> Iterator[Cell]:
    for method in ("random", "top-k", *(f"mmr-{weight}" for weight in MMR_WEIGHTS)):
        yield Cell(plan.dataset, seed, method)
    for ratio in plan.ratios:
        for rule in RULES:
            for rows in ROWS:
                yield Cell(plan.dataset, seed, rule, rows, ratio)


def pick(cell: Cell, problem: Problem, k: int) -> np.ndarray:
    """(k,) pool rows in the order picked: a prefix is the selection for a smaller k."""
    if cell.method.startswith("mmr-"):
        return mmr(problem.pool, problem.targets, k, weight=float(cell.method[4:]))
    if cell.method == "random":
        rule = tm.rules.Random(seed=cell.seed)
        return tm.select(problem.pool, problem.targets, k, rule=rule, kernel="linear").indices
    if cell.method == "top-k":
        return tm.select(problem.pool, problem.targets, k, rule="top-k", kernel="linear").indices
    chosen = tm.select(
        problem.pool,
        problem.targets,
        k,
        rule=cell.method,
        noise_ratio=cell.noise_ratio,
        normalize=ROWS[cell.rows],
        kernel="linear",
    )
    return chosen.indices


def mmr(pool: torch.Tensor, targets: torch.Tensor, k: int, *, weight: float) -> np.ndarray:
    """Maximal marginal relevance: weight * closeness to targets - (1 - weight) * to the picks."""
    X, A = (torch.nn.functional.normalize(rows, dim=1) for rows in (pool, targets))
    relevance = (X @ A.T).amax(dim=1)
    similarity = X @ X.T  # (n, n): one large product is cheaper than k passes over the pool
    redundancy = torch.zeros(len(X), device=X.device)
    picks = torch.empty(k, dtype=torch.int64, device=X.device)
    for t in range(k):
        score = weight * relevance - (1 - weight) * redundancy
        score[picks[:t]] = -torch.inf
        picks[t] = score.argmax()
        to_pick = similarity[picks[t]]
        redundancy = to_pick if t == 0 else torch.maximum(redundancy, to_pick)
    return picks.cpu().numpy()


class Probe:
    """Multinomial logistic regression on picked rows; the same features for every method."""

    def __init__(self, problem: Problem) -> None:
        pool = problem.pool
        self.mean = pool.mean(dim=0)
        # constant pixels stay constant; the rest gets variance 1/d, so rows have norm about one
        spread = pool.std(dim=0)
        self.scale = torch.where(spread > 0, spread, 1.0) * pool.shape[1] ** 0.5
        self.pool, self.test = self.features(pool), self.features(problem.test)
        self.problem = problem

    def features(self, X: torch.Tensor) -> torch.Tensor:
        X = (X - self.mean) / self.scale
        return torch.cat([X, X.new_ones(len(X), 1)], dim=1)  # the last weight is the intercept

    def judge(self, picks: np.ndarray) -> dict[str, float]:
        labels = self.problem.pool_labels[picks]
        seen, y = np.unique(labels, return_inverse=True)
        X = self.pool[picks]
        W = fit(X, torch.from_numpy(y).to(X.device), len(seen))
        scores = self.test @ W
        wanted = np.isin(seen, self.problem.target_classes)
        among = scores[:, torch.from_numpy(wanted).to(X.device)]
        return {
            "accuracy": self.share_right(scores, seen),
            # picks of foreign classes add wrong answers to choose from; here they do not
            "accuracy_among_targets": self.share_right(among, seen[wanted]),
            "target_share": float(np.isin(labels, self.problem.target_classes).mean()),
        }

    def share_right(self, scores: torch.Tensor, classes: np.ndarray) -> float:
        if len(classes) == 0:  # no target class was picked: nothing can be answered rightly
            return 0.0
        guesses = classes[scores.argmax(dim=1).cpu().numpy()]
        return float((guesses == self.problem.test_labels).mean())


def fit(X: torch.Tensor, y: torch.Tensor, classes: int) -> torch.Tensor:
    r"""Weights (d + 1, classes): minimise :math:`\sum_i CE_i + \lambda/2 |W|^2` by L-BFGS."""
    W = torch.zeros(X.shape[1], classes, device=X.device, requires_grad=True)
    optimiser = torch.optim.LBFGS([W], max_iter=PROBE_STEPS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        penalty = PROBE_L2 / 2 * W[:-1].square().sum()  # the intercept goes free
        fault = torch.nn.functional.cross_entropy(X @ W, y, reduction="sum")
        value = (fault + penalty) / len(X)
        value.backward()
        return value

    optimiser.step(loss)
    return W.detach()


def measure(cell: Cell, problem: Problem, probe: Probe, ks: tuple[int, ...]) -> dict:
    start = time.perf_counter()
    picks = pick(cell, problem, ks[-1])
    seconds = time.perf_counter() - start
    by_k = {str(k): probe.judge(picks[:k]) for k in ks}
    return {**vars(cell), "seconds": round(seconds, 3), "by_k": by_k}


def machine() -> dict[str, str | int | None]:
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"cpu": cpu_model(), "cores": os.cpu_count(), "gpu": gpu, "torch": torch.__version__}


def cpu_model() -> str:
    """The model's name, which `platform` does not know on Linux."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def run_plan(
    plan: Plan, cache: Path, device: str, done: list[dict], save: Callable[[], None]
) -> None:
    """Measure what is not done yet, and save after every cell so that a run can be resumed."""
    finished = {key(cell) for cell in done}
    for seed in plan.seeds:
        todo = [cell for cell in grid(plan, seed) if key(vars(cell)) not in finished]
        if not todo:
            continue
        problem = draw(plan, seed, cache, device)
        probe = Probe(problem)
        for cell in todo:
            done.append(measure(cell, problem, probe, plan.ks))
            save()
            print(*key(vars(cell)), done[-1]["seconds"], flush=True)


def key(cell: dict) -> tuple:
    return tuple(cell[name] for name in ("dataset", "seed", "method", "rows", "noise_ratio"))


def resumed(out: Path, is_smoke: bool) -> list[dict]:
    earlier = json.loads(out.read_text())
    if earlier["smoke"] != is_smoke:
        raise SystemExit(f"{out} holds results of another size; give a new --out.")
    return earlier["cells"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, help="folder written by features.py")
    parser.add_argument("--out", type=Path, required=True, help="results.json; resumed if there")
    parser.add_argument("--only", choices=[plan.dataset for plan in PLANS])
    parser.add_argument("--seeds", type=int, nargs="*", help="only these; merge the files later")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, to see that it runs")
    options = parser.parse_args()
    results = {"machine": machine(), "smoke": options.smoke, "cells": []}
    if options.out.exists():
        results["cells"] = resumed(options.out, options.smoke)

    def save() -> None:
        part = options.out.with_suffix(".part")  # a stop while writing must not lose the file
        part.write_text(json.dumps(results, indent=1))
        part.replace(options.out)

    for plan in PLANS:
        if options.only in (None, plan.dataset):
            plan = smoke(plan) if options.smoke else plan
            plan = replace(plan, seeds=tuple(options.seeds)) if options.seeds else plan
            run_plan(plan, options.cache, options.device, results["cells"], save)


if __name__ == "__main__":
    main()
