"""How fast is a Retriever, beside activeft's and a loop of select, and are its picks select's?

Processor seconds of one thread per query, the best of several runs, all in one run. ``--pool`` is
an .npy file with embeddings of a sentence encoder, some of whose rows become the queries.
``--peers DIR`` names the folder with the environment ``activeft``. Set OMP_NUM_THREADS=1.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import torch

import tellmost as tm

sys.path.insert(0, str(Path(__file__).parents[1]))
from setting import save

K = 50
CANDIDATES = 200
RATIO = 1.0
QUERIES = 256


def split(path: Path, count: int):
    """Rows for a pool, and others for queries, centred and of unit length."""
    X = np.load(path).astype(np.float64)
    X -= X.mean(axis=0)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order[count:]].astype(np.float32), X[order[:count]].astype(np.float32)


def seconds_per_query(call, count: int, tries: int) -> float:
    call()
    times = []
    for _ in range(tries):
        start = process_time()
        call()
        times.append((process_time() - start) / count)
    return min(times)


def nearest(X, query, noise: float):
    score = X @ query / np.sqrt(np.einsum("nd,nd->n", X, X) + noise)
    best = np.lexsort((np.arange(len(X)), -score))[:CANDIDATES]
    return np.sort(best[score[best] >= 0])


def by_select(X, query, noise: float, candidates, k: int):
    return tm.select(
        X,
        query,
        k,
        kernel=tm.kernels.Linear(),
        normalize=None,
        noise_std=noise**0.5,
        candidates=candidates,
    )


def measure(pool, queries, tries: int) -> dict[str, float]:
    options = {"normalize": None, "noise_ratio": RATIO, "candidates": CANDIDATES}
    plain = tm.Retriever(pool, **options)
    again = tm.Retriever(pool, refresh=True, **options)
    X, noise = torch.from_numpy(pool), RATIO  # rows of unit length
    few = queries[:16]
    candidates = [nearest(pool.astype(float), query, noise) for query in few.astype(float)]

    def loop() -> None:
        for query, some in zip(few, candidates, strict=True):
            by_select(X[some], query, noise, None, K)

    return {
        "preselected": seconds_per_query(lambda: plain.search(queries, K), len(queries), tries),
        "one at a time": seconds_per_query(
            lambda: [plain.search(query, K) for query in few], len(few), tries
        ),
        "refresh": seconds_per_query(lambda: again.search(queries, K), len(queries), tries),
        "loop of select, candidates given": seconds_per_query(loop, len(few), 2),
    }


def gain_of_a_second_thread(pool, queries) -> float:
    """Wall time of one thread over that of two, the best of several tries of each in turn."""
    r = tm.Retriever(pool, normalize=None, noise_ratio=RATIO, candidates=CANDIDATES)
    best = {1: float("inf"), 2: float("inf")}
    for _ in range(5):
        for count in best:
            torch.set_num_threads(count)
            start = perf_counter()
            r.search(queries, K)
            best[count] = min(best[count], perf_counter() - start)
    torch.set_num_threads(1)
    return best[1] / best[2]


def share_kept(pool, queries) -> dict[str, float]:
    """The share of the whole pool's variance reduction that is kept with k picks."""
    reductions = {}
    for name, options in {
        "preselected": {},
        "refresh": {"refresh": True},
        "whole": {"candidates": None},
    }.items():
        r = tm.Retriever(pool, normalize=None, noise_ratio=RATIO, **options)
        reductions[name] = r.search(queries, K)[0].sum(axis=1)
    whole = reductions.pop("whole")
    return {name: float((some / whole).mean()) for name, some in reductions.items()}


def unlike(pool, queries, k: int) -> int:
    """The queries for which the picks are not those of select among the nearest rows."""
    r = tm.Retriever(pool, normalize=None, noise_ratio=RATIO, candidates=CANDIDATES)
    _, indices = r.search(queries, k)
    X = pool.astype(np.float64)
    noise = RATIO * float(np.square(X).sum(axis=1).mean())
    count = 0
    for query, rows in zip(queries.astype(np.float64), indices, strict=True):
        candidates = nearest(X, query, noise)
        chosen = by_select(X[candidates], query, noise, None, min(k, len(candidates)))
        count += not np.array_equal(candidates[chosen.indices], rows[rows >= 0])
    return count


def random_rows(n: int, d: int, count: int):
    """Rows of unequal lengths, a fifth of them twice."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n, d)) * np.exp(0.4 * rng.standard_normal((n, 1)))
    X[: n // 5] = X[n // 5 : 2 * (n // 5)]
    return X.astype(np.float32), rng.standard_normal((count, d)).astype(np.float32)


def measure_peer(folder: Path, pool, queries) -> dict:
    script = Path(__file__).parents[1] / "peers" / "activeft_retriever.py"
    with tempfile.TemporaryDirectory() as scratch:
        np.savez(Path(scratch) / "problem.npz", pool=pool, queries=queries[:32])
        command = [str(folder / "activeft" / "bin" / "python"), str(script)]
        command += ["--problem", str(Path(scratch) / "problem.npz"), "--k", str(K)]
        command += ["--candidates", str(CANDIDATES), "--noise-variance", str(RATIO)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", type=Path, required=True)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--equal", type=int, default=1_000, help="queries compared with select")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", UserWarning)
    pool, queries = split(given.pool, QUERIES)
    times = measure(pool, queries, 5)
    result = {"size": {"n": len(pool), "d": pool.shape[1], "k": K, "candidates": CANDIDATES}}
    result |= {"noise_ratio": RATIO, "seconds_per_query": times}
    if given.peers is not None:
        result["activeft"] = peer = measure_peer(given.peers, pool, queries)
        times |= {
            f"activeft {name}": peer[name]["seconds_per_query"] for name in ("sift", "sift-fast")
        }
    result["times_preselected"] = {n: t / times["preselected"] for n, t in times.items()}
    result["share_of_reduction"] = share_kept(pool, queries[:32])
    real, others = split(given.pool, given.equal)
    result["second_thread"] = gain_of_a_second_thread(real, others)
    result["other picks than select"] = {
        "of real queries": unlike(real, others, 20),
        "of random queries": unlike(*random_rows(3_000, 48, given.equal), 20),
        "queries of each": given.equal,
    }
    print(json.dumps(result, indent=1))
    save("retrieval", result)


if __name__ == "__main__":
    main()
