"""Which noise should a Retriever assume by default?

For held-out rows of labelled embeddings, `CACHE/<dataset>_x.npy` and `_y.npy` (benchmarks/defaults
makes them), the picks of each noise are judged by labels that no method sees:

- vote: how often the label with the largest sum of cosines with the query is its own;
- same: the share of picks that have the query's label;
- alike: the share of picks with a cosine above 0.95 to an earlier pick;
- labels: how many different labels there are among the picks.

`copies` repeats every row of the pool with a little noise, as boilerplate does. Top-k and MMR are
measured beside. The default is the ratio with the best mean vote over datasets, pools and k.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import tellmost as tm

RATIOS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
KS = (5, 10, 20)
DATASETS = ("banking77", "fashion")
QUERIES = 500
COPIES = 3
COPY_NOISE = 0.05  # in units of a row's length


def read(cache: Path, name: str, copies: int):
    """Pool, its labels, queries and their labels."""
    X, y = (np.load(cache / f"{name}_{part}.npy") for part in "xy")
    order = np.random.default_rng(0).permutation(len(X))
    held, kept = order[:QUERIES], order[QUERIES:]
    pool, labels = X[kept].astype(np.float32), y[kept]
    if copies > 1:
        pool, labels = pool[: len(pool) // copies], labels[: len(pool) // copies]
        scale = COPY_NOISE * np.linalg.norm(pool, axis=1, keepdims=True) / pool.shape[1] ** 0.5
        rng = np.random.default_rng(1)
        noise = [scale * rng.standard_normal(pool.shape) for _ in range(copies)]
        pool = np.concatenate([pool + each for each in noise]).astype(np.float32)
        labels = np.tile(labels, copies)
    return pool, labels, X[held].astype(np.float32), y[held]


def judge(X, labels, queries, truth, indices) -> dict[str, float]:
    """The measures of the module for picks in X, whose rows and queries have unit length."""
    votes, same, alike, kinds = [], [], [], []
    for query, label, picks in zip(queries, truth, indices, strict=True):
        picks = picks[picks >= 0]
        of_picks, rows = labels[picks], X[picks]
        names, places = np.unique(of_picks, return_inverse=True)
        weight = np.bincount(places, weights=np.maximum(rows @ query, 0.0))
        votes.append(names[weight.argmax()] == label)
        same.append((of_picks == label).mean())
        cosine = np.tril(rows @ rows.T, -1)
        alike.append((cosine.max(axis=1) > 0.95).mean())
        kinds.append(len(names))
    values = {"vote": votes, "same": same, "alike": alike, "labels": kinds}
    return {name: float(np.mean(value)) for name, value in values.items()}


def unit(rows, mean):
    rows = rows - mean
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def methods():
    yield "top-k", {"rule": "top-k"}
    for relevance in (0.5, 0.7):
        yield f"mmr {relevance}", {"rule": tm.rules.MMR(relevance=relevance)}
    for ratio in RATIOS:
        yield f"vtl {ratio:g}", {"noise_ratio": ratio}
    yield "vtl 0.1, all rows", {"noise_ratio": 0.1, "refresh": True}
    yield "vtl 1, all rows", {"noise_ratio": 1.0, "refresh": True}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    rows = []
    for dataset in DATASETS:
        for copies in (1, COPIES):
            pool, labels, queries, truth = read(given.cache, dataset, copies)
            mean = pool.mean(axis=0, dtype=np.float64)
            X, Q = unit(pool, mean), unit(queries, mean)
            for name, options in methods():
                _, indices = tm.Retriever(pool, **options).search(queries, max(KS))
                for k in KS:
                    measured = judge(X, labels, Q, truth, indices[:, :k])
                    row = {"dataset": dataset, "copies": copies, "method": name, "k": k}
                    rows.append(row | measured)
                    print(rows[-1], flush=True)
    given.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
