"""Why some rules get stuck on MNIST: what they picked, and how sure a network is after one image.

    python results/nn/sticking.py --data folder --seeds 2

This runs on a CPU. What the stored runs and one training on one image tell takes seconds. A trial
takes about a quarter of an hour for two seeds, and ``--seeds 0`` leaves it out: of the epochs that
are equally good on validation images the published runs keep the last, and the trial keeps the
first. A network that has seen one class ties with itself in every epoch, and it is surest of
itself in the last.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tellmost.finetune import Inputs, embed
from tellmost.selecting.select import select
from tellmost.shapes import Float, Int
from tellmost_reproduction.frame.folders import keep_text
from tellmost_reproduction.frame.pages import Cells, fill, in_markdown
from tellmost_reproduction.networks.configurations import (
    EMBEDDINGS,
    NOISE_STD,
    RULES,
    Configuration,
)
from tellmost_reproduction.networks.curves import Curves
from tellmost_reproduction.networks.experiments import EXPERIMENTS
from tellmost_reproduction.networks.problems import MNIST, Problem, read_mnist, read_problem
from tellmost_reproduction.networks.runs import Bench, Run, RunId, read_runs
from tellmost_reproduction.networks.training import Training

FOLDER = Path(__file__).parent
DOCUMENT = FOLDER.parents[1] / "docs" / "network-experiments.md"
CANDIDATES, TARGETS, PICKS = 1_000, 3, 5
ROUNDS = 25  # of the trial
TRIAL = "ties_to_the_first"  # its name in the file
ALSO = ("mnist/itl", "mnist/random")
"""Two rules that are not stuck. They are run beside those that are."""


def count_picks(
    runs: Mapping[RunId, Run], digits: Int[np.ndarray, " n"]
) -> dict[str, dict[str, Any]]:
    """Of those that are stuck: labels of the task by seed, and the digit picked most."""
    found: dict[str, dict[str, Any]] = {}
    for experiment in EXPERIMENTS.values():
        curves = Curves.trained_as(experiment, runs, {d: d for d in experiment.datasets})
        for name in curves.stuck():
            picked = np.concatenate([digits[run.picks] for run in curves.of_name(name)])
            counts = np.bincount(picked, minlength=10)
            found[name] = {
                "task_labels": [run.in_task[-1] for run in curves.of_name(name)],
                "accuracy": [run.accuracy[-1] for run in curves.of_name(name)],
                "digit": int(counts.argmax()),
                "share": float(counts.max() / counts.sum()),
            }
    return found


def look_after_one_image(
    problem: Problem, digits: Int[np.ndarray, " n"], *, candidates: int = CANDIDATES
) -> dict[str, Any]:
    """Train on one image of the first class; gaps of the logits by digit, and the gains."""
    model = problem.draw(0).eval()
    training = Training(model, problem, 10)
    training.start(0)
    inside = np.flatnonzero(problem.is_in_task)
    first = inside[problem.labels[inside] == 0][0]
    training(model, problem.inputs[[first]], torch.tensor([0]), 1)
    rows = np.random.default_rng(0).choice(len(digits), candidates, replace=False)
    gaps = gaps_of(model, problem, rows)
    return {
        "digit": int(digits[first]),
        "gap_medians": {
            str(digit): float(np.median(gaps[digits[rows] == digit]))
            for digit in np.unique(digits)
        },
        "gap_range": [float(gaps.min()), float(gaps.max())],
        "smallest_gaps": digits[rows][np.argsort(gaps)[:20]].tolist(),
        "picks": pick(model, problem, np.concatenate([inside[-TARGETS:], rows]), digits),
    }


@torch.no_grad()
def gaps_of(
    model: nn.Module, problem: Problem, rows: Int[np.ndarray, " k"]
) -> Float[np.ndarray, " k"]:
    """By how many nats the logit of the first class is above the largest other."""
    outputs = model(problem.inputs[torch.from_numpy(rows)]).double()
    return (outputs[:, 0] - outputs[:, 1:].amax(dim=1)).numpy()


def pick(
    model: nn.Module, problem: Problem, rows: Int[np.ndarray, " k"], digits: Int[np.ndarray, " n"]
) -> dict[str, dict[str, Any]]:
    """The first picks by loss gradients: their gains, places among the candidates, digits."""
    embedded = embed(model, Inputs(problem.inputs, rows, "pool"), EMBEDDINGS["loss"][1])
    points, made = embedded.points, {}
    for label, rule in RULES.values():
        chosen = select(
            points[TARGETS:],
            points[:TARGETS],
            PICKS,
            rule=rule,
            kernel="linear" if embedded.kernel is None else embedded.kernel,
            noise_std=NOISE_STD[MNIST],
            progress=False,
        )
        made[f"G-{label}"] = {
            "gains": chosen.gains.tolist(),
            "rows": chosen.indices.tolist(),
            "digits": digits[rows[TARGETS:]][chosen.indices].tolist(),
        }
    return made


def try_first_ties(
    problem: Problem,
    names: Sequence[str],
    runs: Mapping[RunId, Run],
    *,
    seeds: int,
    rounds: int = ROUNDS,
    change: Callable[[Configuration], Configuration] = lambda one: one,
) -> dict[str, Any]:
    """Each configuration with the first epoch of those that tie, and beside it the stored run.

    ``change``: of every configuration before it is run, for smaller problems.
    """
    by_name = {one.name: one for e in EXPERIMENTS.values() for one in e.configurations}
    bench = Bench(
        problem, capacity=rounds * max(by_name[name].batch for name in names), ties="first"
    )
    made = {
        name: {
            "first": after(
                [bench.run(change(by_name[name]), seed, rounds) for seed in range(seeds)], rounds
            ),
            "last": after(
                [runs[name, seed] for seed in range(seeds) if (name, seed) in runs], rounds
            ),
        }
        for name in names
    }
    return {"rounds": rounds, "seeds": seeds, "configurations": made}


def after(runs: Sequence[Run], rounds: int) -> dict[str, list[float]]:
    """What each run had after so many rounds."""
    return {
        "task_labels": [run.in_task[rounds - 1] for run in runs],
        "accuracy": [run.accuracy[rounds - 1] for run in runs],
    }


def tabulate_ties(trial: Mapping[str, Any]) -> Cells:
    """What ``try_first_ties`` found, a row per configuration, seeds side by side."""
    labels = {one.name: one.label for e in EXPERIMENTS.values() for one in e.configurations}
    heading = [
        f"after {trial['rounds']} labels, {trial['seeds']} seeds",
        "labels of the task, first epoch",
        "last epoch",
        "accuracy in %, first epoch",
        "last epoch",
    ]
    rows = [
        [
            labels[name],
            *(", ".join(map(str, found[ties]["task_labels"])) for ties in ("first", "last")),
            *(in_percents(found[ties]["accuracy"]) for ties in ("first", "last")),
        ]
        for name, found in trial["configurations"].items()
    ]
    return [heading, *rows]


def in_percents(shares: Sequence[float]) -> str:
    return ", ".join(f"{100 * share:.1f}" for share in shares)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=2, help="of the trial of ties; 0: none")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)  # so that sums are made in one order
    digits = read_mnist(given.data).train_labels.astype(np.int64)
    problem = read_problem(MNIST, given.data, torch.device("cpu"))
    runs = read_runs([FOLDER / "runs.jsonl.gz"])
    found: dict[str, Any] = {
        "picks": count_picks(runs, digits),
        "after_one_image": look_after_one_image(problem, digits),
    }
    if given.seeds:
        names = [*found["picks"], *ALSO]
        found[TRIAL] = try_first_ties(problem, names, runs, seeds=given.seeds)
        text = DOCUMENT.read_text(encoding="utf-8")
        keep_text(fill(text, {"ties": in_markdown(tabulate_ties(found[TRIAL]))}), DOCUMENT)
    keep_text(json.dumps(found, indent=1) + "\n", FOLDER / "sticking.json")


if __name__ == "__main__":
    main()
