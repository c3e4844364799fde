"""Selections from a pool that processes hold between them, and the process that runs them.

``python shard_cases.py RANK SIZE FOLDER`` runs the cases as one of so many processes, and leaves
what it got in the folder. The tests compare that with one process that holds all rows.
"""

import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import tellmost as tm
from problems import clustered, targets_for
from tellmost.posterior.problem import KEEP_BYTES

PER_ROW = ("noise_std", "cost", "groups")
RULES = tm.rules.names()
FOR_THREE = (
    "vtl linear 16",
    "vtl linear groups",
    "itl gaussian twins",
    "itl gaussian here only",
    "ctl linear observed",
    "undirected-itl linear twins",
    "mm-itl gaussian candidates",
    "vtl linear all equal",
    "one streamed, one held",
)
OF_EVERY_RULE = ("twins", "all equal", "observed", "noise", "candidates")
KERNELS = {"linear": tm.kernels.Linear(), "gaussian": tm.kernels.Gaussian(3.0)}


@dataclass(frozen=True)
class Case:
    """Arguments of select for all rows, and how many of them process 0 has; of three processes
    the last two share the rest."""

    pool: np.ndarray
    targets: np.ndarray | None
    options: dict[str, Any] = field(default_factory=dict)
    border: int = 40
    from_file: bool = False
    keep_bytes: int = KEEP_BYTES

    def whole(self, **more: Any) -> tm.Selection:
        with patch("tellmost.posterior.problem.KEEP_BYTES", self.keep_bytes):
            return tm.select(self.pool, self.targets, **self.options, **more)

    def shard(self, rank: int, **more: Any) -> tm.Selection:
        size = torch.distributed.get_world_size()
        borders = [0, self.border, (self.border + len(self.pool)) // 2, len(self.pool)]
        own = slice(*(borders if size == 3 else [0, self.border, len(self.pool)])[rank : rank + 2])
        options = {
            name: value[own] if name in PER_ROW and np.ndim(value) else value
            for name, value in self.options.items()
        }
        if "candidates" in options:
            mask = np.zeros(len(self.pool), dtype=bool)
            mask[options["candidates"]] = True
            options["candidates"] = mask[own] if rank == 0 else np.flatnonzero(mask[own])
        rows: Any = self.pool[own]
        if self.from_file:
            np.save(f"rows{rank}.npy", rows)
            rows = f"rows{rank}.npy"
        group = torch.distributed.group.WORLD
        with patch("tellmost.posterior.problem.KEEP_BYTES", self.keep_bytes):
            return tm.select(rows, self.targets, **options, **more, group=group)


def cases() -> dict[str, Case]:
    pool, targets = clustered(150, 12, 7)
    some = {"k": 12, "noise_ratio": 0.3}
    found = {
        f"{rule} {kernel} {ahead}": Case(
            pool,
            targets_for(rule, pool, targets, np.arange(36, 44)),  # on both sides of the border
            {**some, "rule": rule, "kernel": KERNELS[kernel], "columns_ahead": ahead},
        )
        for rule in RULES
        for kernel, ahead in (("linear", 1), ("linear", 16), ("gaussian", 16))
    }
    for rule, kernel, looked_at in (
        ("vtl", "linear", ()),  # all of them, in weight space and in function space
        ("itl", "gaussian", ()),
        ("ctl", "linear", OF_EVERY_RULE),
        ("undirected-itl", "linear", OF_EVERY_RULE),
        ("mm-itl", "gaussian", OF_EVERY_RULE),
    ):
        more = option_cases(pool, targets, {**some, "rule": rule, "kernel": KERNELS[kernel]})
        found |= {f"{rule} {kernel} {name}": more[name] for name in looked_at or more}
    return found | plain_cases(pool, targets)


def option_cases(pool: np.ndarray, targets: np.ndarray, given: dict[str, Any]) -> dict[str, Case]:
    """The options of select, for one rule and kernel."""
    rng = np.random.default_rng(1)
    unlimited = {**given, "k": None}
    with_noise = {name: value for name, value in given.items() if name != "noise_ratio"}
    groups = np.array(list("abcdefg"))[rng.integers(7, size=150)]
    thirds = np.arange(1, 150, 3)
    return {
        "tiny": Case(pool, targets, given, border=3),
        "tiny last": Case(pool, targets, given, border=149),
        "one each": Case(pool[:2], targets, {**given, "k": 2}, border=1),
        "twins": Case(np.tile(pool[:15], (4, 1)), targets, {**given, "k": 20}, border=22),
        "all equal": Case(np.tile(pool[:1], (200, 1)), targets, given, border=120),
        "observed": Case(pool, targets, {**given, "observed": [3, 90, 41, 0]}),
        "outside": Case(pool, targets, {**given, "observed": targets[:2] + 1}),
        "noise": Case(pool, targets, {**with_noise, "noise_std": rng.uniform(0.3, 2.0, 150)}),
        "groups": Case(
            pool, targets, {**given, "groups": groups, "max_per_group": 2, "observed": [7, 100]}
        ),
        "full": Case(
            pool, targets, {**given, "k": 100, "groups": np.arange(150) % 5, "max_per_group": 2}
        ),
        "replace": Case(pool, targets, {**given, "replace": True, "observed": [3, 3]}),
        "normalized": Case(pool + 2, targets + 2, {**given, "normalize": "center+unit"}),
        "centred": Case(pool + 2, targets + 2, {**given, "normalize": "center"}),
        "here only": Case(pool, targets, {**given, "candidates": np.arange(5, 35)}),
        "there only": Case(pool, targets, {**given, "candidates": np.arange(60, 90)}),
        "candidates": Case(pool, targets, {**given, "candidates": thirds, "observed": [2, 99]}),
        "top-b": Case(pool, targets, {**given, "conditional": False}),
        "all rows": Case(pool[:20], targets, {**given, "k": 20}, border=8),
        "budget": Case(
            pool, targets, {**unlimited, "cost": rng.uniform(0.5, 3.0, 150), "budget": 14.0}
        ),
        "share": Case(pool, targets, {**unlimited, "min_gain_share": 0.3}),
        "least": Case(pool, targets, {**given, "k": 100, "min_gain": 0.05}),
    }


def plain_cases(pool: np.ndarray, targets: np.ndarray) -> dict[str, Case]:
    """What does not depend on the rule."""
    K = (pool @ pool.T + np.eye(150)).astype(np.float64)
    order = np.random.default_rng(2).permutation(150)
    large, few = clustered(4_000, 128, 9)
    wide = np.random.default_rng(3).standard_normal((30, 60))
    return {
        "no targets": Case(pool, None, {"k": 9, "rule": "undirected-itl"}),
        "no targets, gaussian": Case(
            pool, None, {"k": 9, "rule": "uncertainty", "kernel": KERNELS["gaussian"]}
        ),
        "no targets, top-b": Case(
            pool, None,
            {"k": 9, "rule": "uncertainty", "conditional": False, "kernel": KERNELS["gaussian"]},
        ),
        "mmr, known": Case(
            pool, targets,
            {"k": 20, "rule": "mmr", "observed": [3, 90], "candidates": np.arange(1, 150, 2)},
        ),
        "mmr, outside": Case(
            pool, targets,
            {"k": 9, "rule": tm.rules.MMR(0.8), "observed": targets[:2] + 1,
             "kernel": KERNELS["gaussian"]},
        ),
        "k-center, twins": Case(
            np.tile(pool[:20], (3, 1)), None, {"k": 25, "rule": "k-center"}
        ),
        "k-means++ again": Case(pool, None, {"k": 30, "rule": "k-means++", "replace": True}),
        "undirected-vtl, known": Case(
            pool, None,
            {"k": 9, "rule": "undirected-vtl", "observed": [3, 90],
             "candidates": np.arange(1, 150, 2), "kernel": KERNELS["gaussian"]},
        ),
        "undirected-vtl, top-b": Case(
            pool, targets,
            {"k": 9, "rule": "undirected-vtl", "conditional": False,
             "kernel": KERNELS["gaussian"]},
        ),
        "random again": Case(pool, targets, {"k": 20, "rule": "random", "replace": True}),
        "random by cost": Case(
            pool, targets,
            {"rule": tm.rules.Random(seed=5), "cost": np.linspace(1, 2, 150), "budget": 20.0},
        ),
        "random candidates": Case(
            pool, targets, {"k": 20, "rule": "random", "candidates": np.arange(1, 150, 2)}
        ),
        "floor": Case(pool, targets, {"k": 5, "floor": True, "candidates": np.arange(36, 46)}),
        "floor, gaussian": Case(
            pool, targets, {"k": 5, "floor": True, "kernel": KERNELS["gaussian"]}
        ),
        "one streamed, one held": Case(
            large, few, {"k": 20, "memory": 3_200_000, "candidates": np.arange(0, 1_500, 7)},
            border=100, from_file=True,
        ),
        "streamed, gaussian": Case(
            large, few, {"k": 9, "rule": "itl", "memory": 3_600_000, "normalize": "center",
                         "kernel": tm.kernels.Gaussian(10.0), "observed": [4, 1_400]},
            border=700, from_file=True,
        ),
        "continued": Case(
            pool, targets, {"k": 9, "kernel": "linear",
                "observed": tm.select(pool, targets, 5, observed=targets + 1, kernel="linear")}
        ),
        "ctl with few targets": Case(
            pool, targets[:2], {"k": 9, "rule": "ctl", "columns_ahead": 16}
        ),
        "covariances made anew": Case(
            pool, targets,
            {"k": 9, "kernel": KERNELS["gaussian"], "columns_ahead": 16}, keep_bytes=0,
        ),
        "small noise": Case(pool, targets, {"k": 80, "noise_ratio": 1e-3, "columns_ahead": 16}),
        "wide": Case(wide, wide[:3] + 1, {"k": 9}, border=11),
        "weights": Case(pool, targets, {"k": 9, "target_weights": np.arange(1, 8)}),
        "covariance": Case(
            pool, targets, {"k": 9, "kernel": tm.kernels.Linear(torch.diag(torch.arange(1.0, 13)))}
        ),
        "features": Case(
            pool, targets,
            {"k": 9, "rule": "itl", "kernel": tm.kernels.FeatureMap(lambda x: x[:, :5].tanh()),
             "candidates": np.arange(50, 90)},
        ),
        "matrix": Case(
            order, np.arange(5),
            {"k": 9, "kernel": tm.kernels.Precomputed(torch.from_numpy(K)), "rule": "itl-y"},
        ),
    }  # fmt: skip


def logged_cases() -> dict[str, Case]:
    """Runs that are taken down, by one process or by two, and go on with the other number."""
    pool, targets = clustered(150, 12, 7)
    rng = np.random.default_rng(4)
    return {
        "plain": Case(pool, targets),
        "rows of their own": Case(
            pool, targets,
            {"candidates": np.arange(1, 150, 2), "noise_std": rng.uniform(0.3, 2.0, 150),
             "cost": rng.uniform(0.5, 3.0, 150), "groups": np.arange(150) % 9,
             "max_per_group": 4, "observed": [3, 120]},
        ),
        "gaussian": Case(pool, targets, {"rule": "itl", "kernel": KERNELS["gaussian"]}),
    }  # fmt: skip


def errors(rank: int) -> dict[str, Callable[[], Any]]:
    """Calls that fail, on both processes."""
    pool, targets = clustered(60, 5, 3, seed=rank)
    targets = np.ones((2, 5))
    group = torch.distributed.group.WORLD
    bad = pool.copy()
    bad[7 if rank == 1 else 0 :, 2] = np.nan if rank == 1 else 0.5

    def call(rows: Any = pool, points: Any = targets, k: Any = 3, **options: Any) -> Any:
        return lambda: tm.select(rows, points, k, group=group, **options)

    def nan_rule() -> Any:
        @dataclass(frozen=True)
        class Broken(tm.rules.UncertaintySampling):
            def gain(self, state):
                return torch.full_like(state.variance, torch.nan if rank == 1 else 1.0)

            def __repr__(self):
                return "Broken()"

        return Broken()

    return {
        "nan": call(bad),
        "nan, centred": call(bad, normalize="center"),
        "features": call(pool[:, : 5 - rank], None, rule="uncertainty"),
        "features and targets": call(pool[:, : 5 - rank]),
        "k": call(k=3 + rank),
        "rule": call(rule=["vtl", "itl"][rank]),
        "seed": call(rule=tm.rules.Random(seed=rank)),
        "targets": call(points=targets + rank),
        "unknown rule": call(rule=["vtl", "vlt"][rank]),
        "no file": call(pool if rank == 0 else "nowhere.npy"),
        "k too large": call(k=1000),
        "cost": call(cost=np.full(60, [1.0, -1.0][rank]), budget=5.0),
        "cost on one": call(cost=[np.ones(60), None][rank], rule="vtl"),
        "groups on one": call(groups=[None, np.ones(60)][rank], max_per_group=[None, 2][rank]),
        "observed": call(observed=[120]),
        "candidates": call(candidates=np.zeros(60, dtype=bool)),
        "checkpoint": call(checkpoint="alone.jsonl"),
        "nan rule": call(rule=nan_rule()),
        "floor": call(
            np.random.default_rng(rank).standard_normal((1500, 5)),
            floor=True,
            kernel=KERNELS["gaussian"],
        ),
    }


def run(rank: int, size: int, folder: Path) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=60),
    )
    run_cases(
        rank, {n: c for n, c in cases().items() if size == 2 or n.endswith(FOR_THREE)}, folder
    )
    if size == 2:
        run_logged(rank, folder)
        run_errors(rank, folder)
    torch.distributed.destroy_process_group()


def run_cases(rank: int, some: dict[str, Case], folder: Path) -> None:
    for name, case in some.items():
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            case.shard(rank).save(folder / f"{name}.{rank}")
        assert rank == 0 or not [w for w in warned if "effective rank" in str(w.message)]


@patch("tellmost.running.processes.Shard.whole", None)  # no process builds a vector over all rows
def run_logged(rank: int, folder: Path) -> None:
    for name, case in logged_cases().items():
        for writer in ("alone", "together"):
            log = folder / f"{name}, {writer}.jsonl"
            case.shard(rank, k=5, checkpoint=log)
            case.shard(rank, k=12, checkpoint=log).save(folder / f"{name}, {writer}.{rank}")


def run_errors(rank: int, folder: Path) -> None:
    said = {}
    for name, call in errors(rank).items():
        try:
            said[name] = ["nothing", repr(call())]
        except Exception as error:
            said[name] = [type(error).__name__, str(error)]
    (folder / f"errors.{rank}.json").write_text(json.dumps(said))


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
