"""Banking77: customer queries of 77 intents, families of intents, and scores by method.

The data is Banking77 (Casanueva et al. 2020, CC BY 4.0): two files, train.csv and test.csv, with
the columns text and category. A family is every intent whose name has a word in it, so that nobody
chose its members.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tellmost.rows.record_files import Wanted, read_records
from tellmost.shapes import Bool, Float, Int
from tellmost_reproduction.scores import Scores, summarize_scores, tabulate

FAMILIES = {
    "top up": ("top_up", "topping_up"),
    "transfer": ("transfer",),
    "cash": ("cash",),
    "exchange": ("exchange",),
    "verify": ("verify",),
}
TARGETS = 10


@dataclass(frozen=True)
class Queries:
    """Embedded queries and the numbers of their intents."""

    rows: Float[np.ndarray, "n d"]
    intents: Int[np.ndarray, " n"]


@dataclass(frozen=True)
class Result:
    """A score per method, seed and budget."""

    share: Scores  # of the family among the picks
    accuracy: Scores  # on the family
    accuracy_shown: Scores  # on those of its intents that the targets show


def read_queries(folder: Path, model: str) -> tuple[list[str], Queries, Queries]:
    """The names of the intents, and both parts of the data."""
    parts = [
        read_records(folder / f"{part}.csv", part, wanted=Wanted(text_field="text", embed=model))
        for part in ("train", "test")
    ]
    labels = [part.column("category") for part in parts]
    names = sorted(set(labels[0].tolist()))
    train, test = (
        Queries(part.vectors, np.searchsorted(names, of_part))
        for part, of_part in zip(parts, labels, strict=True)
    )
    return names, train, test


def find_members(names: list[str], words: Sequence[str]) -> Bool[np.ndarray, " c"]:
    """Which intents have one of the words in their names."""
    return np.array([any(word in name for word in words) for name in names])


def describe(
    family: str, result: Result, methods: Sequence[str], budgets: Sequence[int]
) -> list[str]:
    seeds = result.share.shape[1]
    return [
        f"\nqueries about {family!r}: mean ± standard error over {seeds} draws of the targets",
        *tabulate("accuracy on held-out queries", methods, result.accuracy, budgets),
        *tabulate("of them, of intents shown", methods, result.accuracy_shown, budgets),
        *tabulate("share of the family", methods, result.share, budgets),
    ]


def summarize(result: Result, methods: Sequence[str]) -> dict[str, Any]:
    return {
        method: {name: summarize_scores(scores[i]) for name, scores in vars(result).items()}
        for i, method in enumerate(methods)
    }
