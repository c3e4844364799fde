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


def striking(strikes: list[tuple[int, Callable[[Any], None]]]) -> Any:
    """Do something to a group when it has made so many picks."""
    from tellmost.cluster.driver import Job

    watch = Job.watch

    def watch_and_strike(job: Any, group: Any) -> Any:
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


def main(folder: Path) -> None:
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "HOME": str(folder)}
    pool = write_shards(folder)
    said: dict[str, Any] = {}

    def note(name: str, call: Callable[[], Any]) -> None:
        started = time.monotonic()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call().save(folder / f"{name}.tellmost")
        except Exception as error:
            said[name] = [type(error).__name__, str(error)]
        print(f"{name}: {time.monotonic() - started:.1f} s", said.get(name, ""), flush=True)

    def on(address: str | None, workers: int, **more: Any) -> Any:
        return tm.cluster.Ray(workers=workers, address=address, **more)

    names = {"column": "embedding", "id_column": "id"}
    note("local", lambda: tm.select(pool, TARGETS, K, **names, **LIMITS, cluster=on(None, 2)))

    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    second = cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    os.environ["RAY_ADDRESS"] = cluster.address
    strikes = [(8, kill), (20, freeze), (32, lambda _: cluster.remove_node(second))]
    slow = {"rule": SlowVTL(), "columns_ahead": 2, **names}

    def lose(workers: int, k: int, retries: int = 3) -> Any:
        own = on(cluster.address, workers, timeout=3, retries=retries)
        return tm.select(pool, TARGETS, k, **slow, checkpoint="memory://runs/run.jsonl", cluster=own)

    with striking(strikes):
        note("lost", lambda: lose(3, K))
    note("resumed", lambda: lose(1, K + 8))
    with striking([(0, kill)]):
        note("given up", lambda: tm.select(pool, TARGETS, K, **slow, cluster=on("auto", 1, retries=0)))
    note("too many", lambda: tm.select(pool, TARGETS, K, **names, cluster=on("auto", 5, timeout=2)))
    note("no column", lambda: tm.select(pool, TARGETS, 5, column="text", cluster=on("auto", 1)))
    np.save(folder / "bad.npy", np.full((5, 8), np.nan, dtype=np.float32))
    note("nan", lambda: tm.select(folder / "bad.npy", TARGETS, 5, cluster=on("auto", 1)))
    (folder / "said.json").write_text(json.dumps(said))
    cluster.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
