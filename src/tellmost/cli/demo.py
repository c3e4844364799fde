"""The demo: learning to tell handwritten 3, 6 and 9 apart from a pool of all ten digits.

Thirty unlabelled images of 3, 6 and 9 are the targets. The pool holds all ten digits, so five in
six of its images are of no use. Each method buys labels one by one. A logistic regression learns
from the bought labels alone and is tested on other images of 3, 6 and 9.

All methods see the same vectors: each image is centred and scaled to unit length. Pixels are never
negative, so without centring every two images are similar; and an image with more ink does not
teach more. The classifier sees plain pixels from 0 to 1.
"""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tellmost.evaluation.statistics import Mean
from tellmost.rules import Random
from tellmost.running.extras import import_extra
from tellmost.selecting.select import select
from tellmost.selecting.selection import Selection
from tellmost.shapes import Bool, Float, Int

CLASSES = (3, 6, 9)
TARGETS_PER_CLASS = 10
NORMALIZE = "center+unit"
METHODS = {"vtl": "VTL", "top-k": "nearest neighbours", "random": "random"}
BUDGETS, SEEDS = (10, 20, 40, 60), 5

Scores = Float[np.ndarray, "methods seeds budgets"]


@dataclass(frozen=True)
class Digits:
    """Images to choose from with their labels, images to learn about, and images to test on."""

    pool: Float[np.ndarray, "n d"]
    labels: Int[np.ndarray, " n"]
    targets: Float[np.ndarray, "m d"]
    test: Float[np.ndarray, "t d"]
    test_labels: Int[np.ndarray, " t"]

    def is_wanted(self, indices: Int[np.ndarray, " k"]) -> Bool[np.ndarray, " k"]:
        return np.isin(self.labels[indices], CLASSES)


def run_demo(folder: Path, *, budgets: Sequence[int] = BUDGETS, seeds: int = SEEDS) -> str:
    """Write picks, a page and all numbers into a folder; return what there is to say."""
    splits = [split_digits(seed) for seed in range(seeds)]
    picks = [
        [pick(method, split, seed, budgets[-1]) for seed, split in enumerate(splits)]
        for method in METHODS
    ]
    accuracy, share = measure(picks, splits, budgets)
    split, chosen = splits[0], picks[0][0]
    folder.mkdir(parents=True, exist_ok=True)
    write_picks(folder / "picks.csv", chosen, split)
    chosen.report(
        folder / "report.html",
        split.pool,
        split.targets,
        [f"digit {label}" for label in split.labels],
        images=as_images(split.pool),
        target_images=as_images(split.targets),
        title="Which images to label, to tell 3, 6 and 9 apart",
    )
    summary = summarize(chosen, split, budgets, accuracy, share)
    (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    return "\n".join(
        [
            f"pool {len(split.pool):,} images of ten digits; targets {len(split.targets)} images "
            f"of 3, 6, 9; test {len(split.test)} others of 3, 6, 9; {NORMALIZE}",
            str(chosen),
            f"\nmean ± standard error over {seeds} seeds",
            *tabulate("accuracy on held-out 3, 6, 9", accuracy, budgets),
            *tabulate("share of 3, 6, 9 among the picks", share, budgets),
            f"\nwritten to {folder}: picks.csv, report.html, summary.json",
        ]
    )


def split_digits(seed: int) -> Digits:
    """Take ten images each of 3, 6 and 9 as targets and half of the rest for the test.

    All other images are the pool.
    """
    datasets = import_extra("sklearn.datasets", "demo", "the demo needs scikit-learn")
    pixels, labels = datasets.load_digits(return_X_y=True)
    images = pixels / 16.0
    generator = np.random.default_rng(seed)
    targets: list[int] = []
    test: list[int] = []
    for digit in CLASSES:
        rows = generator.permutation(np.flatnonzero(labels == digit)).tolist()
        middle = (TARGETS_PER_CLASS + len(rows)) // 2
        targets += rows[:TARGETS_PER_CLASS]
        test += rows[TARGETS_PER_CLASS:middle]
    pool = np.setdiff1d(np.arange(len(labels)), targets + test)
    return Digits(images[pool], labels[pool], images[targets], images[test], labels[test])


def pick(method: str, split: Digits, seed: int, k: int) -> Selection:
    rule = Random(seed) if method == "random" else method
    return select(
        split.pool,
        split.targets,
        k,
        rule=rule,
        kernel="linear",
        normalize=NORMALIZE,
        floor=True,
        progress=False,
    )


def measure(
    picks: list[list[Selection]], splits: list[Digits], budgets: Sequence[int]
) -> tuple[Scores, Scores]:
    """Accuracy, and the share of wanted digits; a prefix is the selection for a smaller budget."""
    accuracy, share = np.empty((2, len(picks), len(splits), len(budgets)))
    for i, of_method in enumerate(picks):
        for j, (chosen, split) in enumerate(zip(of_method, splits, strict=True)):
            for b, budget in enumerate(budgets):
                prefix = chosen.indices[:budget]
                accuracy[i, j, b] = measure_accuracy(split, prefix)
                share[i, j, b] = split.is_wanted(prefix).mean()
    return accuracy, share


def measure_accuracy(split: Digits, indices: Int[np.ndarray, " k"]) -> float:
    """The accuracy on the test images of a logistic regression that saw these labels alone."""
    from sklearn.linear_model import LogisticRegression

    labels = split.labels[indices]
    if len(np.unique(labels)) == 1:  # a classifier of one class has nothing to fit
        return float((split.test_labels == labels[0]).mean())
    classifier = LogisticRegression(max_iter=2_000).fit(split.pool[indices], labels)
    return float(classifier.score(split.test, split.test_labels))


def tabulate(title: str, scores: Scores, budgets: Sequence[int]) -> list[str]:
    """A heading, and a line per method."""
    lines = ["", f"{title:34}" + "".join(f"{f'{budget} picks':>16}" for budget in budgets)]
    for name, of_method in zip(METHODS.values(), scores, strict=True):
        cells = (Mean.of(of_seeds).text(digits=3) for of_seeds in of_method.T)
        lines.append(f"  {name:32}" + "".join(f"{cell:>16}" for cell in cells))
    return lines


def write_picks(path: Path, chosen: Selection, split: Digits) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["rank", "index", "gain", "uncertainty", "label"])
        rows = (chosen.indices, chosen.gains, chosen.uncertainty[1:], split.labels[chosen.indices])
        for rank, row in enumerate(zip(*(values.tolist() for values in rows), strict=True), 1):
            writer.writerow([rank, *row])


def as_images(rows: Float[np.ndarray, "n d"]) -> list[np.ndarray]:
    """Images as bytes, dark on light, large enough to be seen."""
    light = (255 * (1 - rows)).astype(np.uint8).reshape(-1, 8, 8)
    return list(light.repeat(8, axis=1).repeat(8, axis=2))


def summarize(
    chosen: Selection, split: Digits, budgets: Sequence[int], accuracy: Scores, share: Scores
) -> dict[str, Any]:
    """The numbers of all seeds, and the first seed's picks."""
    methods: dict[str, dict[str, Any]] = {method: {} for method in METHODS}
    for name, scores in (("accuracy", accuracy), ("share", share)):
        for about, of_method in zip(methods.values(), scores, strict=True):
            means = [Mean.of(of_seeds) for of_seeds in of_method.T]
            about[name] = {
                "mean": [mean.value for mean in means],
                "standard_error": [mean.error for mean in means],
                "per_seed": of_method.tolist(),
            }
    return {
        "classes": list(CLASSES),
        "sizes": {name: len(getattr(split, name)) for name in ("pool", "targets", "test")},
        "seeds": accuracy.shape[1],
        "budgets": list(budgets),
        "normalize": NORMALIZE,
        "noise_ratio": chosen.settings["noise_ratio"],
        "first_seed": {
            "indices": chosen.indices.tolist(),
            "uncertainty": chosen.uncertainty[[0, -1]].tolist(),
        },
        "methods": methods,
    }
