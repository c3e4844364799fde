"""Time activeft's Retriever on stored rows and queries, and print one JSON line.

The processor seconds of one thread for a search of some queries, each by itself or all as a batch.
Runs in activeft's own environment, with faiss-cpu and numpy; see README.md beside this file.
"""

import argparse
import json
from time import process_time

import activeft
import faiss
import numpy as np
import torch
from activeft.sift import Retriever


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", required=True, help=".npz with pool and queries, unit rows")
    parser.add_argument("--k", type=int, required=True)
    parser.add_argument("--candidates", type=int, required=True)
    parser.add_argument("--noise-variance", type=float, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    problem = np.load(given.problem)
    index = faiss.IndexFlatIP(problem["pool"].shape[1])
    index.add(problem["pool"])
    queries = problem["queries"][:, None]
    report = {"peer": "activeft", "version": activeft.__version__}
    for name, fast in (("sift", False), ("sift-fast", True)):
        retriever = Retriever(
            index, llambda=given.noise_variance, fast=fast, also_query_opposite=False
        )
        retriever.batch_search(queries[:2], N=given.k, K=given.candidates)
        times = []
        for _ in range(2):
            start = process_time()
            _, rows, _, _ = retriever.batch_search(queries, N=given.k, K=given.candidates)
            times.append((process_time() - start) / len(queries))
        distinct = [len(set(some.tolist())) for some in rows]
        report[name] = {"seconds_per_query": min(times), "distinct": float(np.mean(distinct))}
    start = process_time()
    index.search(problem["queries"], given.candidates)
    report["faiss alone"] = (process_time() - start) / len(queries)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
