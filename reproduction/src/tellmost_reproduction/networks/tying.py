"""What the stuck rules do where ties between epochs go to the first of them, not to the last.

Of the epochs that are best on validation images the published runs keep the last. A network that
has seen one class ties with itself in every epoch, and is surest of itself in the last.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tellmost_reproduction.frame.folders import Cells
from tellmost_reproduction.networks.configurations import Configuration
from tellmost_reproduction.networks.experiments import experiments
from tellmost_reproduction.networks.problems import Problem
from tellmost_reproduction.networks.runs import Bench, Run, RunId

ROUNDS = 25
TRIAL = "ties_to_the_first"  # where it is kept
ALSO = ("mnist/itl", "mnist/random")
"""Not stuck, and run beside those that are."""


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
    by_name = {one.name: one for e in experiments().values() for one in e.configurations}
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
    labels = {one.name: one.label for e in experiments().values() for one in e.configurations}
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
