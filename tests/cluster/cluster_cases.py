"""Selections on a Ray cluster of two nodes on this machine, and what happens to it meanwhile.

``python cluster_cases.py FOLDER`` runs them all, in a network of its own: Ray listens on whatever
address the machine has. What came out is left in the folder, for the tests to compare.
"""

import json
import os
import secrets
import signal
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import tellmost as tm

N, PARTS = 1_200, 6
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((N, 8)).astype(np.float32)
TARGETS = ROWS[:5] + np.float32(0.1)
IDS = [f"doc-{number}" for number in range(N)]
LIMITS = {
    "cost": RNG.uniform(0.5, 2.0, N),
    "groups": np.arange(N) % 40,
    "max_per_group": 2,
    "candidates": np.arange(1, N, 2),
    "observed": [3, 700],
}
K = 48


@dataclass(frozen=True)
class SlowVTL(tm.rules.VTL):
    """VTL that takes its time, so that something can happen before it is done."""

    def gain(self, state: Any) -> Any:
        time.sleep(0.03)
        return super().gain(state)


def write_shards(folder: Path) -> str:
    import pyarrow
    import pyarrow.parquet

    sizes = np.array([100, 300, 200, 150, 250, 200])
    edges = np.cumsum([0, *sizes])
    for part in range(PARTS):
        own = slice(edges[part], edges[part + 1])
        vectors = pyarrow.array(list(ROWS[own]), pyarrow.list_(pyarrow.float32()))
        table = pyarrow.table({"id": IDS[own], "embedding": vectors})
        pyarrow.parquet.write_table(table, folder / f"part-{part}.parquet")
    return f"{folder}/part-*.parquet"


def striking(strikes: list[tuple[int, Callable[[Any], None]]], groups: list[Any]) -> Any:
    """Do something to a group when it has made so many picks, and note which groups there are."""
    from tellmost.cluster.driver import Job

    watch = Job.watch

    def watch_and_strike(job: Any, group: Any) -> Any:
        groups.append(group)
        look = group.look

        def look_and_strike() -> None:
            look()
            if strikes and group.running and job.log.count >= strikes[0][0]:
                strikes.pop(0)[1](group)

        group.look = look_and_strike
        return watch(job, group)

    return patch.object(Job, "watch", watch_and_strike)


def kill(group: Any) -> None:
    os.kill(group.homes[-1].pid, signal.SIGKILL)


def freeze(group: Any) -> None:
    os.kill(group.homes[0].pid, signal.SIGSTOP)


class Cases:
    """Calls, and what came of each: a Selection in the folder, or an error."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.said = folder, {}

    def run(self, name: str, pool: Any, k: int, cluster: Any, **options: Any) -> None:
        started = time.monotonic()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                chosen = tm.select(pool, TARGETS, k, cluster=cluster, **options)
                chosen.save(self.folder / f"{name}.tellmost")
        except Exception as error:
            self.said[name] = [type(error).__name__, str(error)]
        print(f"{name}: {time.monotonic() - started:.1f} s", self.said.get(name, ""), flush=True)


def main(folder: Path) -> None:
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "HOME": str(folder)}
    pool, cases = write_shards(folder), Cases(folder)
    ray_of = tm.cluster.Ray
    names = {"column": "embedding", "id_column": "id"}
    cases.run("local", pool, K, ray_of(workers=2), **names, **LIMITS)

    from ray.cluster_utils import Cluster

    from tellmost.cli import ending
    from tellmost.cli.app import app

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    second = cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    os.environ["RAY_ADDRESS"] = cluster.address
    import ray

    ray.init(address=cluster.address, log_to_driver=False)  # the calls below use this connection
    groups = []
    slow = {
        "rule": SlowVTL(),
        "columns_ahead": 2,
        **names,
        "checkpoint": "memory://runs/run.jsonl",
    }
    patient = {"address": cluster.address, "timeout": 8, "retries": 6}  # the machine may be busy
    strikes = [(8, kill), (20, freeze), (32, lambda _: cluster.remove_node(second))]
    with striking(strikes, groups):
        cases.run("lost", pool, K, ray_of(workers=3, **patient), **slow)
    np.save(folder / "targets.npy", TARGETS)
    command = [
        "select",
        pool,
        "--targets",
        f"{folder}/targets.npy",
        "-k",
        "9",
        "--cluster",
        "auto",
    ]
    options = ["--workers", "1", "--vector-column", "embedding", "--id-column", "id"]
    cases.said["command"] = ending.run(app, [*command, *options, "-o", f"{folder}/picks.csv"])
    cases.run("resumed", ray.data.read_parquet(sorted(folder.glob("*.parquet"))), K + 8,
              ray_of(workers=1, address="auto"), **slow)  # fmt: skip
    with striking([(0, kill)], groups):
        slow.pop("checkpoint")
        cases.run("given up", pool, K, ray_of(workers=1, address="auto", retries=0), **slow)
    cases.run("too many", pool, K, ray_of(workers=5, address="auto", timeout=1), **names)
    np.save(folder / "bad.npy", np.full((5, 8), np.nan, dtype=np.float32))
    cases.run("nan", folder / "bad.npy", 5, ray_of(workers=1, address="auto"))
    pids = [home.pid for group in groups for home in group.homes]
    cases.said["still running"] = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    (folder / "said.json").write_text(json.dumps(cases.said))
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
