"""The problems of the benchmark: a pool, targets, and unseen inputs on which the picks are judged.

`CACHE/<dataset>_x.npy` and `_y.npy` hold the rows as they are, and their classes or numbers.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

CHOOSING = ("banking77", "digits", "digits-relu", "concrete")
CONFIRMING = ("banking77-rest", "cifar100", "mnist", "fashion", "airfoil", "diamonds")
TABLES = ("concrete", "airfoil", "diamonds")
TEN_CLASSES = ("digits", "digits-relu", "mnist", "fashion")
SETTINGS = (
    "10 of a family",
    "30 of a family",
    "half the classes shown",
    "30 of random classes",
    "one each, related",
    "one each, unrelated",
    "30 of the whole pool",
)
REGIONS = ("30 of a region", "30 of the whole pool")
HELD_OUT = 0.25  # of the rows, on which picks are judged
LARGEST_POOL = 8_000
REGION = 0.2  # of a table's rows: those nearest to a row


@dataclass(frozen=True)
class Problem:
    dataset: str
    setting: str
    seed: int
    pool: np.ndarray
    pool_y: np.ndarray
    targets: np.ndarray
    test: np.ndarray
    test_y: np.ndarray


def settings_of(dataset: str) -> tuple[str, ...]:
    return REGIONS if dataset in TABLES else SETTINGS


def draw(dataset: str, setting: str, seed: int, cache: Path) -> Problem:
    """The same rows for every setting of a seed, and other targets."""
    rng = np.random.default_rng([seed, 1])
    X, y = load(dataset, seed, cache)
    order = rng.permutation(len(X))
    test, rest = np.split(order, [int(HELD_OUT * len(X))])
    rest = rest[: LARGEST_POOL + 100]
    rng = np.random.default_rng([seed, 2, settings_of(dataset).index(setting)])
    choose = region if dataset in TABLES else family
    is_asked, targets = choose(X, y, rest, setting, rng, dataset)
    pool = np.setdiff1d(rest, targets)
    asked = test[is_asked[test]]
    return Problem(dataset, setting, seed, X[pool], y[pool], X[targets], X[asked], y[asked])


def load(dataset: str, seed: int, cache: Path) -> tuple[np.ndarray, np.ndarray]:
    name = f"digits-relu-{seed}" if dataset == "digits-relu" else dataset.split("-")[0]
    X, y = (np.load(cache / f"{name}_{part}.npy") for part in "xy")
    X = X.astype(np.float32)
    if name == "banking77":  # the first 39 intents are for choosing, the others for confirming
        mine = (y >= 39) if dataset.endswith("rest") else (y < 39)
        return X[mine], y[mine]
    return X, y


def family(X, y, rest, setting, rng, dataset) -> tuple[np.ndarray, np.ndarray]:
    """The rows whose class is asked about, and rows of these classes as targets."""
    classes = np.unique(y)
    size = 3 if dataset in TEN_CLASSES else 6
    if setting == "30 of the whole pool":
        return np.ones(len(y), bool), rng.choice(rest, 30, replace=False)
    if setting == "one each, unrelated":
        asked = rng.choice(classes, min(10, len(classes)), replace=False)
    elif setting == "30 of random classes":
        asked = rng.choice(classes, size, replace=False)
    else:
        asked = related(X, y, classes, 2 * size if setting == "one each, related" else size, rng)
    shown = asked[: (size + 1) // 2] if setting == "half the classes shown" else asked
    if setting.startswith("one each"):
        targets = [rng.choice(rest[y[rest] == c]) for c in shown]
    else:
        count = 10 if setting.startswith("10") else 30
        targets = rng.choice(rest[np.isin(y[rest], shown)], count, replace=False)
    return np.isin(y, asked), np.asarray(targets)


def related(X, y, classes, size, rng) -> np.ndarray:
    """A random class and those with the nearest means, in random order but for the first."""
    means = np.stack([X[y == c].mean(axis=0) for c in classes])
    means = means - X.mean(axis=0)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    first = rng.integers(len(classes))
    nearest = np.argsort(-(means @ means[first]), kind="stable")[: min(size, len(classes) - 1)]
    return classes[np.concatenate([nearest[:1], rng.permutation(nearest[1:])])]


def region(X, y, rest, setting, rng, dataset) -> tuple[np.ndarray, np.ndarray]:
    """All rows, or those nearest to a random row when columns have the same spread."""
    if setting == "30 of the whole pool":
        return np.ones(len(y), bool), rng.choice(rest, 30, replace=False)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    apart = np.linalg.norm(Z - Z[rng.integers(len(Z))], axis=1)
    is_near = apart <= np.quantile(apart, REGION)
    return is_near, rng.choice(rest[is_near[rest]], 30, replace=False)
