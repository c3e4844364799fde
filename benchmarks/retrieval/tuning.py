"""Does it pay to tune a classifier for each query on its own retrieved rows, and on which?

A linear softmax classifier on sentence embeddings knows a few labels per intent of Banking77. For
each query it is tuned, from where it stands, on the labels of k retrieved rows of the pool, and
then answers for this query alone. Each way of retrieving gets the step size that suits it best.

`CACHE/banking77_x.npy` and `_y.npy` are made by benchmarks/defaults/data.py.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

import tellmost as tm

KS = (5, 20)
STEP_SIZES = (1.0, 3.0, 10.0)
STEPS = 10
KNOWN = 2  # labels per intent that the classifier starts with
QUERIES = 500
METHODS = {
    "top-k": {"rule": "top-k"},
    "MMR 0.7": {"rule": tm.rules.MMR(relevance=0.7)},
    "Retriever": {},
    "Retriever, refresh": {"refresh": True},
}


def trained(X: torch.Tensor, y: torch.Tensor, classes: int) -> torch.Tensor:
    """The weights of a softmax classifier with a little decay."""
    W = torch.zeros(X.shape[1], classes, requires_grad=True)
    optimizer = torch.optim.LBFGS([W], max_iter=200)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = torch.nn.functional.cross_entropy(10.0 * X @ W, y) + 1e-3 * W.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return W.detach()


def tuned_answers(W, queries, rows, labels, step_size: float) -> torch.Tensor:
    """The answer to each query, from weights that took STEPS steps on its own rows."""
    truth = torch.nn.functional.one_hot(labels, W.shape[1]).to(W)
    moved = torch.zeros(len(queries), *W.shape)
    for _ in range(STEPS):
        scores = 10.0 * (rows @ W + torch.bmm(rows, moved))
        error = scores.softmax(dim=2) - truth
        moved -= step_size * torch.bmm(rows.mT, error) / rows.shape[1]
    return (queries @ W + torch.bmm(queries[:, None], moved)[:, 0]).argmax(dim=1)


def accuracies(X, y, split: tuple) -> list[dict]:
    known, pool, held = split
    classes = int(y.max()) + 1
    W = trained(X[known], y[known], classes)
    untuned = float(((X[held] @ W).argmax(dim=1) == y[held]).double().mean())
    table = [{"method": "no tuning", "k": 0, "accuracy": untuned}]
    for name, options in METHODS.items():
        retriever = tm.Retriever(X[pool].numpy(), **options)
        _, indices = retriever.search(X[held].numpy(), max(KS))
        for k in KS:
            rows = pool[torch.from_numpy(indices[:, :k])]
            right = [
                tuned_answers(W, X[held], X[rows], y[rows], size) == y[held] for size in STEP_SIZES
            ]
            best = max(float(each.double().mean()) for each in right)
            table.append({"method": name, "k": k, "accuracy": best})
            print(table[-1], flush=True)
    return table


def read(cache: Path | None) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Embeddings of unit length, labels, and how many queries to hold out."""
    if cache is None:
        rng = np.random.default_rng(0)
        y = rng.integers(6, size=400)
        X, count = rng.standard_normal((6, 16))[y] + rng.standard_normal((400, 16)), 40
    else:
        X, y = (np.load(cache / f"banking77_{part}.npy") for part in "xy")
        count = QUERIES
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    return torch.from_numpy(X.astype(np.float32)), torch.from_numpy(y.astype(np.int64)), count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--smoke", action="store_true", help="a tiny problem without data")
    given = parser.parse_args()
    X, y, count = read(None if given.smoke else given.cache)
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(0))
    held, rest = order[:count], order[count:]
    known = torch.cat([rest[y[rest] == label][:KNOWN] for label in range(int(y.max()) + 1)])
    table = accuracies(X, y, (known, rest, held))
    for row in table:
        print(f"{row['method']:>20} {row['k']:>4} {row['accuracy']:.3f}")
    if given.out is not None:
        given.out.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
