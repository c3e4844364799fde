"""Learning to tell apart the customer queries of one family of intents.

Ten unlabelled queries of a family, such as those about topping up, are the targets. The pool holds
10,003 queries of 77 intents. Labels are bought one by one: by VTL, by MMR, by nearest neighbours
of the targets, or at random. A logistic regression learns from the bought labels alone, whatever
intents they are, and is tested on the family's other test queries. A seed draws the ten targets.

Rows are MiniLM embeddings of unit length, as the model gives them; the noise is Sightline's
default. A family is every intent whose name has a word in it, so that nobody chose its members.

The data is Banking77 (Casanueva et al. 2020, CC BY 4.0): two files, train.csv and test.csv, with
the columns text and category.

    python -m sightline.experiments.banking77 --data banking77 --out results/banking77
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sightline.experiments.scores import Scores, draw_curves, summarize_scores, tabulate
from sightline.numerics import PROBE_C
from sightline.probes import fit_logistic
from sightline.records import read_records
from sightline.rules import Random
from sightline.selecting import select
from sightline.shapes import Bool, Float, Int

FAMILIES = {
    "top up": ("top_up", "topping_up"),
    "transfer": ("transfer",),
    "cash": ("cash",),
    "exchange": ("exchange",),
    "verify": ("verify",),
}
TARGETS = 10
METHODS = ("vtl", "mmr", "top-k", "random")
BUDGETS, SEEDS = (25, 50, 100, 200), 10
SMOKE_BUDGETS, SMOKE_SEEDS = (10, 20), 2


@dataclass(frozen=True)
class Queries:
    """Embedded queries and the numbers of their intents."""

    rows: Float[np.ndarray, "n d"]
    intents: Int[np.ndarray, " n"]


@dataclass(frozen=True)
class Result:
    """A score per method, seed and budget."""

    share: Scores
    accuracy: Scores


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Learn to tell the queries of a family apart.")
    parser.add_argument("--data", type=Path, required=True, help="folder of train.csv, test.csv")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--embed", default="all-minilm", help="model that embeds the queries")
    parser.add_argument("--smoke", action="store_true", help="a smaller run, for the tests")
    options = parser.parse_args(arguments)
    budgets = SMOKE_BUDGETS if options.smoke else BUDGETS
    seeds = SMOKE_SEEDS if options.smoke else SEEDS
    names, train, test = read_queries(options.data, options.embed)
    results = {
        family: run_family(find_members(names, words), train, test, seeds, budgets)
        for family, words in FAMILIES.items()
        if find_members(names, words).any()
    }
    options.out.mkdir(parents=True, exist_ok=True)
    write_results(options.out, results, budgets)
    for family, result in results.items():
        print("\n".join(describe(family, result, budgets)))
    print(f"\nwritten to {options.out}: summary.json, figure.png")


def read_queries(folder: Path, model: str) -> tuple[list[str], Queries, Queries]:
    """The names of the intents, and both parts of the data."""
    parts = [
        read_records(folder / f"{part}.csv", part, text_field="text", embed=model)
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


def run_family(
    members: Bool[np.ndarray, " c"],
    train: Queries,
    test: Queries,
    seeds: int,
    budgets: Sequence[int],
) -> Result:
    shape = (len(METHODS), seeds, len(budgets))
    result = Result(np.empty(shape), np.empty(shape))
    of_family = np.flatnonzero(members[test.intents])
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(of_family)
        targets, held_out = test.rows[order[:TARGETS]], order[TARGETS:]
        for i, method in enumerate(METHODS):
            rule = Random(seed) if method == "random" else method
            chosen = select(train.rows, targets, budgets[-1], rule=rule, progress=False)
            for b, budget in enumerate(budgets):
                picks = chosen.indices[:budget]  # a prefix is the selection for a smaller budget
                result.share[i, seed, b] = members[train.intents[picks]].mean()
                result.accuracy[i, seed, b] = measure_accuracy(train, picks, test, held_out)
    return result


def measure_accuracy(
    train: Queries, picks: Int[np.ndarray, " k"], test: Queries, rows: Int[np.ndarray, " t"]
) -> float:
    """On held-out queries of the family, of a probe that learned from the picks alone."""
    probe = fit_logistic(
        torch.from_numpy(train.rows[picks]).double(),
        torch.from_numpy(train.intents[picks]),
        int(train.intents.max()) + 1,
        C=PROBE_C,
    )
    predicted = probe.predict(torch.from_numpy(test.rows[rows]).double()).numpy()
    return float((predicted == test.intents[rows]).mean())


def describe(family: str, result: Result, budgets: Sequence[int]) -> list[str]:
    seeds = result.share.shape[1]
    return [
        f"\nqueries about {family!r}: mean ± standard error over {seeds} draws of the targets",
        *tabulate("accuracy on held-out queries", METHODS, result.accuracy, budgets),
        *tabulate("share of the family among the picks", METHODS, result.share, budgets),
    ]


def write_results(folder: Path, results: dict[str, Result], budgets: Sequence[int]) -> None:
    summary = {
        "budgets": list(budgets),
        "targets": TARGETS,
        "probe_C": PROBE_C,
        "families": {family: summarize(result) for family, result in results.items()},
    }
    (folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    draw_figure(results, budgets, folder / "figure.png")


def summarize(result: Result) -> dict[str, Any]:
    return {
        method: {
            "accuracy": summarize_scores(result.accuracy[i]),
            "share": summarize_scores(result.share[i]),
        }
        for i, method in enumerate(METHODS)
    }


def draw_figure(results: dict[str, Result], budgets: Sequence[int], path: Path) -> None:
    """A column per family: accuracy above, share below."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.6 * len(results) + 0.6, 5.2), layout="constrained")
    grid = figure.subplots(2, len(results), sharex=True, sharey=True, squeeze=False)
    for column, (family, result) in enumerate(results.items()):
        above, below = grid[:, column]
        draw_curves(above, METHODS, result.accuracy, budgets)
        draw_curves(below, METHODS, result.share, budgets)
        above.set_xlabel("")
        above.set_title(family, loc="left", fontsize="medium")
    grid[0, 0].set_ylabel("accuracy on the family")
    grid[1, 0].set_ylabel("share of the family\namong the picks")
    grid[0, 0].legend(frameon=False, fontsize="small", loc="lower right")
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
