"""How does a pool of shards scale over the workers of a Ray cluster on one machine?

``python benchmarks/cluster.py FOLDER`` writes 2,000,000 x 128 float16 rows as 16 .parquet shards
into the folder, unless they are there, and picks 100 of them with one process and with 1, 2 and 4
actors of one processor each. Wall-clock time means little on a machine with fewer processors; the
processor time and the memory of each worker do. Run it in a network of its own, as the tests do.
"""

import json
import platform
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import torch

import tellmost as tm

ROWS, FEATURES, SHARDS, TARGETS, K = 2_000_000, 128, 16, 200, 100
NAMES = {"column": "embedding", "id_column": "id"}


def rows_of(shard: int) -> np.ndarray:
    """Rows of 64 clusters."""
    rng = np.random.default_rng(shard)
    centres = np.random.default_rng(99).standard_normal((64, FEATURES), dtype=np.float32)
    rows = rng.standard_normal((ROWS // SHARDS, FEATURES), dtype=np.float32)
    return (rows + centres[rng.integers(64, size=len(rows))]).astype(np.float16)


def write_shards(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for shard in range(SHARDS):
        path = folder / f"part-{shard:02}.parquet"
        if not path.exists():
            flat = pyarrow.array(rows_of(shard).ravel())
            vectors = pyarrow.FixedSizeListArray.from_arrays(flat, FEATURES)
            first = shard * ROWS // SHARDS
            ids = pyarrow.array(range(first, first + ROWS // SHARDS))
            table = pyarrow.table({"id": ids, "embedding": vectors})
            pyarrow.parquet.write_table(table, path, row_group_size=25_000)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    write_shards(folder)
    pool, targets = f"{folder}/part-*.parquet", rows_of(0)[:TARGETS] + np.float16(0.1)
    about = {"machine": platform.processor() or platform.machine(), "runs": []}
    started, processor = time.perf_counter(), time.process_time()
    alone = tm.select(pool, targets, K, **NAMES)
    about["alone"] = {
        "seconds": time.perf_counter() - started,
        "processor_seconds": time.process_time() - processor,
        "most_memory": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "passes": alone.settings["passes"],
    }
    print(about["alone"], flush=True)
    for workers in (1, 2, 4):
        started = time.perf_counter()
        chosen = tm.select(pool, targets, K, **NAMES, cluster=tm.cluster.Ray(workers=workers))
        run = {
            "seconds": time.perf_counter() - started,
            "passes": chosen.settings["passes"],
            "same_picks": bool((chosen.indices == alone.indices).all()),
            "same_ids": bool((chosen.ids == alone.ids).all()),
            **chosen.settings["cluster"],
        }
        about["runs"].append(run)
        print(run, flush=True)
    print(json.dumps(about, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
