"""How often is a pool read that does not fit into memory, and how long does a selection take?

A pool of four times the memory budget, from one file, from a .parquet file and from an iterable of
blocks; ``reads`` counts every row that was read, over the rows there are. Beside it the time that
reading the file once takes, and the same selection from memory.
"""

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import tellmost as tm
from setting import NOISE_STD, clustered, save


class Blocks:
    """Rows in blocks, as often as they are asked for."""

    def __init__(self, rows: np.ndarray) -> None:
        self._rows = rows

    def __iter__(self):
        for start in range(0, len(self._rows), 4_096):
            yield self._rows[start : start + 4_096]


def write_parquet(rows: np.ndarray, path: Path) -> Path:
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    flat = arrow.array(rows.reshape(-1))
    column = arrow.FixedSizeListArray.from_arrays(flat, rows.shape[1])
    parquet.write_table(arrow.table({"vector": column}), path, row_group_size=8_192)
    return path


def measure(n: int, d: int, m: int, k: int) -> dict:
    rows, targets = (part.numpy() for part in clustered(n, d, m))
    budget = rows.nbytes // 4
    result = {"size": {"n": n, "d": d, "m": m, "k": k}, "budget": budget, "selections": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pool.npy"
        np.save(path, rows)
        pools = {
            "npy": path,
            "parquet": write_parquet(rows, Path(folder) / "pool.parquet"),
            "iterable": Blocks(rows),
        }
        start = time.perf_counter()
        with path.open("rb", buffering=0) as file:
            while file.read(2**20):
                pass
        result["reading_once"] = time.perf_counter() - start
        for rule in ("itl", "vtl"):
            held = timed(rows, targets, k, rule, None)
            for name, pool in pools.items():
                took = timed(pool, targets, k, rule, budget)
                same = took.pop("indices") == held["indices"]
                row = {"rule": rule, "pool": name, "held": held["seconds"], **took, "same": same}
                result["selections"].append(row)
                print(
                    f"{rule} {name:>9}: {row['passes']:>3} passes, {row['reads']:6.1f} reads, "
                    f"{row['seconds']:.1f} s ({row['held']:.1f} s from memory), "
                    f"{'same picks' if same else 'OTHER PICKS'}",
                    flush=True,
                )
    return result


def timed(pool: object, targets: np.ndarray, k: int, rule: str, budget: int | None) -> dict:
    start = time.perf_counter()
    chosen = tm.select(
        pool, targets, k, rule=rule, noise_std=NOISE_STD, memory=budget, kernel="linear"
    )
    return {
        "seconds": time.perf_counter() - start,
        "passes": chosen.settings["passes"],
        "reads": chosen.settings["reads"],
        "columns_ahead": chosen.settings["columns_ahead"],
        "indices": chosen.indices.tolist(),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny, to see that it runs")
    warnings.simplefilter("ignore", UserWarning)
    if parser.parse_args().smoke:
        print(measure(30_000, 256, 10, 3))
    else:
        save("streaming", measure(200_000, 768, 100, 200))
