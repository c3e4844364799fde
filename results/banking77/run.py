"""Learning to tell apart the customer queries of one family of intents.

Ten unlabelled queries of a family, such as those about topping up, are the targets. The pool holds
10,003 queries of 77 intents. Labels are bought one by one: by VTL, by MMR, by nearest neighbours
of the targets, or at random. A logistic regression learns from the bought labels alone, whatever
intents they are, and is tested on the family's other test queries. A seed draws the ten targets.

Some intents of the family are shown by no target, so accuracy is also measured on queries of the
intents that the ten targets show, which is what they ask for.

VTL is the call without options. The other methods see the rows as they are, MiniLM embeddings of
unit length. A family is every intent whose name has a word in it, so nobody chose its members.

The data is Banking77 (Casanueva et al. 2020, CC BY 4.0): two files, train.csv and test.csv, with
the columns text and category.

    python results/banking77/run.py --data banking77 --out results/banking77
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tellmost.evaluation.probes import PROBE_C, fit_logistic
from tellmost.rules import MMR, Random
from tellmost.selecting.select import select_quietly
from tellmost.shapes import Bool, Float, Int
from tellmost_reproduction.banking77 import (
    FAMILIES,
    TARGETS,
    Queries,
    Result,
    describe,
    find_members,
    read_queries,
    summarize,
)
from tellmost_reproduction.scores import draw_curves

METHODS = ("vtl", "mmr", "top-k", "random")
VARIANTS: dict[str, dict[str, Any]] = {
    "vtl, noise ratio 0.01": {"rule": "vtl", "noise_ratio": 0.01},
    "vtl, noise ratio 0.1": {"rule": "vtl", "noise_ratio": 0.1},
    "vtl, noise ratio 1": {"rule": "vtl", "noise_ratio": 1.0},
    "mmr, relevance 0.3": {"rule": MMR(0.3)},
    "mmr, relevance 0.5": {"rule": MMR(0.5)},
    "mmr, relevance 0.7": {"rule": MMR(0.7)},
}
BUDGETS, SEEDS = (25, 50, 100, 200), 10
SMOKE_BUDGETS, SMOKE_SEEDS = (10, 20), 2


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Learn to tell the queries of a family apart.")
    parser.add_argument("--data", type=Path, required=True, help="folder of train.csv, test.csv")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--embed", default="all-minilm", help="model that embeds the queries")
    parser.add_argument("--knobs", action="store_true", help="VTL and MMR at several settings")
    parser.add_argument("--smoke", action="store_true", help="a smaller run, for the tests")
    options = parser.parse_args(arguments)
    budgets = SMOKE_BUDGETS if options.smoke else BUDGETS
    seeds = SMOKE_SEEDS if options.smoke else SEEDS
    names, train, test = read_queries(options.data, options.embed)
    methods = VARIANTS if options.knobs else {method: {"rule": method} for method in METHODS}
    results = {
        family: run_family(members, train, test, methods, seeds, budgets)
        for family, words in FAMILIES.items()
        if (members := find_members(names, words)).any()
    }
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / ("knobs.json" if options.knobs else "summary.json")
    write_results(file, results, list(methods), budgets)
    if not options.knobs:
        draw_figure(results, budgets, options.out / "figure.png")
    for family, result in results.items():
        print("\n".join(describe(family, result, list(methods), budgets)))
    print(f"\nwritten to {options.out}")


def run_family(
    members: Bool[np.ndarray, " c"],
    train: Queries,
    test: Queries,
    methods: Mapping[str, dict[str, Any]],
    seeds: int,
    budgets: Sequence[int],
) -> Result:
    shape = (len(methods), seeds, len(budgets))
    result = Result(np.empty(shape), np.empty(shape), np.empty(shape))
    of_family = np.flatnonzero(members[test.intents])
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(of_family)
        targets, held_out = order[:TARGETS], order[TARGETS:]
        is_shown = np.isin(test.intents[held_out], test.intents[targets])
        for i, settings in enumerate(methods.values()):
            picks = pick(settings, seed, train.rows, test.rows[targets], budgets[-1])
            for b, budget in enumerate(budgets):
                some = picks[:budget]  # a prefix is the selection for a smaller budget
                is_right = answer(train, some, test, held_out)
                result.share[i, seed, b] = members[train.intents[some]].mean()
                result.accuracy[i, seed, b] = is_right.mean()
                result.accuracy_shown[i, seed, b] = is_right[is_shown].mean()
    return result


def pick(
    settings: dict[str, Any],
    seed: int,
    pool: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, "m d"],
    k: int,
) -> Int[np.ndarray, " k"]:
    rule = Random(seed) if settings["rule"] == "random" else settings["rule"]
    options = {name: value for name, value in settings.items() if name != "rule"}
    if rule != "vtl":  # others see rows as their users have them
        options["kernel"] = "linear"
    return select_quietly(pool, targets, k, rule=rule, progress=False, **options).indices


def answer(
    train: Queries, picks: Int[np.ndarray, " k"], test: Queries, rows: Int[np.ndarray, " t"]
) -> Bool[np.ndarray, " t"]:
    """Which of these queries a probe gets right that learned from the picks alone."""
    probe = fit_logistic(
        torch.from_numpy(train.rows[picks]).double(),
        torch.from_numpy(train.intents[picks]),
        int(train.intents.max()) + 1,
        C=PROBE_C,
    )
    predicted = probe.predict(torch.from_numpy(test.rows[rows]).double()).numpy()
    return predicted == test.intents[rows]


def write_results(
    path: Path, results: dict[str, Result], methods: Sequence[str], budgets: Sequence[int]
) -> None:
    summary = {
        "budgets": list(budgets),
        "targets": TARGETS,
        "probe_C": PROBE_C,
        "families": {family: summarize(result, methods) for family, result in results.items()},
    }
    path.write_text(json.dumps(summary, indent=1) + "\n")


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
    lines, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside upper center", ncols=len(METHODS), frameon=False)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
