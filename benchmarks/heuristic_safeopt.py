"""Does HeuristicSafeOpt() choose what the heuristic mode of the safeopt package chooses?

The package chooses a run of points on its own; ours is told the same run and asked at each step.
Safe points, maximizers, all expanders and the choice are compared, and every difference is put
down to a cause that is checked, or called unexplained. ``--peers DIR`` names the folder that holds
the package's environment.
"""

import argparse
import json
from collections import Counter
from pathlib import Path
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

import tellmost as tm
from drawn_task import BETA, NOISE_STD, STARTS, STEPS, DrawnTask, Grid, Priors
from setting import save
from tellmost.safebo.baselines import (
    HeuristicSafeOpt,
    find_expanders,
    find_maximizers,
    imagine_margins,
)
from tellmost.safebo.strategies import Choice, RoundView
from tellmost.safebo.trials import MiscalibratedModel

GPY_JITTER = 1e-8  # GPy adds it to the noise variance; ours is told of it
ROUNDING = 1e-9  # in prior standard deviations
GRIDS = {"1d": Grid(60, 1, 10.0), "2d": Grid(15, 2, 6.0)}
PRIORS = {"equal": Priors((1.0, 1.0), (1.0, 1.0)), "unequal": Priors((1.0, 3.0), (0.7, 1.5))}
SEEDS = 10


class Watched:
    """HeuristicSafeOpt, with the view of its last choice."""

    keeps_safe = True
    view: RoundView

    def choose(self, view: RoundView) -> Choice:
        self.view = view
        return HeuristicSafeOpt().choose(view)


class Ours:
    """An optimiser that is told what the package measured."""

    def __init__(self, task: DrawnTask, *, is_intersected: bool) -> None:
        self.task, self.watched, self.told = task, Watched(), 0
        noise_std = (NOISE_STD**2 + GPY_JITTER) ** 0.5
        objective, limited = (
            tm.GP(tm.kernels.Scaled(tm.kernels.Gaussian(lengthscale), std**2), noise_std=noise_std)
            for std, lengthscale in zip(task.priors.stds, task.priors.lengthscales, strict=True)
        )
        self.optimizer = tm.SafeOptimizer(
            task.points,
            objective=objective,
            constraints={"g": tm.Constraint(limited, at_least=0.0)},
            beta=BETA if is_intersected else None,
            # with one limit, this probability makes present bounds of the same width
            confidence=None if is_intersected else NormalDist().cdf(BETA),
            strategy=self.watched,
            on_violation="continue",
            on_miscalibration="log",
            suspect_z=np.inf,
        )
        for row in task.start.tolist():
            self.tell(row)

    def tell(self, row: int) -> None:
        f, g = (self.task.values[row] + self.task.noise[self.told]).tolist()
        self.optimizer.tell(row=row, objective=f, constraints={"g": g})
        self.told += 1

    def choose(self) -> int | None:
        """None: bounds that are intersected over time exclude each other, and we refuse."""
        try:
            return self.optimizer.ask().index
        except MiscalibratedModel:
            return None

    def bounds(self) -> np.ndarray:
        """Lower and upper of objective and constraint, in prior standard deviations."""
        names = zip(("objective", "g"), self.task.priors.stds, strict=True)
        return np.concatenate([np.stack(self.optimizer.bounds(name)) / std for name, std in names])


class Comparison:
    """One step of both, with the causes of what differs."""

    def __init__(self, ours: Ours, step: dict) -> None:
        self.step, self.row, self.view = step, ours.choose(), ours.watched.view
        self.is_safe = self.view.is_safe
        self.is_maximizer = find_maximizers(self.view)
        self.is_expander = torch.zeros_like(self.is_safe)
        rows = self.is_safe.nonzero()[:, 0]
        self.is_expander[rows] = find_expanders(self.view.state, rows)
        theirs = np.array(step["bounds"]) / np.repeat(ours.task.priors.stds, 2)[:, None]
        self.difference_of_bounds = float(np.abs(ours.bounds() - theirs).max())

    def causes(self) -> dict[str, str]:
        """For each thing that is compared: "same", or why it is not."""
        return {
            "safe": self._of_safe(),
            "maximizers": self._of_maximizers(),
            "expanders": self._of_expanders(),
            "choice": self._of_choice(),
        }

    @property
    def passes_over(self) -> bool:
        """They try expanders by unscaled widths up to the first: a wider one may be left."""
        widths = self.view.widths
        wanted = self._theirs("maximizers") | self._theirs("expanders")
        return float(widths[wanted].max() - widths[self.step["row"]]) > ROUNDING

    def _theirs(self, name: str) -> Tensor:
        found = torch.zeros_like(self.is_safe)
        found[self.step[name]] = True
        return found

    def _of_safe(self) -> str:
        differ = self._theirs("safe") ^ self.is_safe
        margins = self.view.state.sets.worst[0, differ]
        return name_cause(differ, {"rounding": margins.abs() < ROUNDING})

    def _of_maximizers(self) -> str:
        differ = self._theirs("maximizers") ^ self.is_maximizer
        lower, upper = self.view.state.rising()
        gap = upper - lower[self.is_safe].max()
        return name_cause(differ, {"rounding": gap[differ].abs() < ROUNDING})

    def _of_expanders(self) -> str:
        """They ask whether a point is won; the definition, whether more are won than lost."""
        theirs, state = self._theirs("expanders"), self.view.state
        differ = theirs ^ self.is_expander
        margins = imagine_margins(state, differ.nonzero()[:, 0], state.model.sides[0])
        won = (margins[:, ~self.is_safe] >= 0).sum(dim=1)
        lost = (margins[:, self.is_safe] < 0).sum(dim=1)
        is_count = theirs[differ] & (won > 0) & (won <= lost) & ~self.is_expander[differ]
        is_near = (margins.abs() < ROUNDING).any(dim=1)
        return name_cause(differ, {"points lost are not counted": is_count, "rounding": is_near})

    def _of_choice(self) -> str:
        theirs, ours = self.step["row"], self.row
        widths = self.view.widths
        wanted_there = self._theirs("maximizers") | self._theirs("expanders")
        wanted_here = self.is_maximizer | self.is_expander
        if theirs == ours:
            return "same"
        if self.passes_over:
            return "not the widest of all its own candidates"
        if not bool(wanted_here[theirs] & wanted_there[ours]):
            return "expanders differ"
        is_tie = float((widths[theirs] - widths[ours]).abs()) < ROUNDING
        return "tie" if is_tie else "unexplained"


def name_cause(differ: Tensor, causes: dict[str, Tensor]) -> str:
    """The first cause that holds for all rows that differ."""
    if not bool(differ.any()):
        return "same"
    return next((name for name, holds in causes.items() if bool(holds.all())), "unexplained")


def compare_kept(kept: Ours, now: Ours, row: int) -> str:
    """The choice by bounds that are intersected over time, which the package does not do."""
    chosen = kept.choose()
    if chosen is None:
        return "refused: bounds exclude each other"
    is_tighter = np.abs(kept.bounds() - now.bounds()).max() > ROUNDING
    if chosen == row:
        return "same"
    return "bounds are tighter" if is_tighter else "unexplained"


def compare(task: DrawnTask, folder: Path) -> dict:
    """One run of the package: how often what was the same, and why not."""
    answer = task.steps_of_safeopt(folder)
    ours, kept = (Ours(task, is_intersected=each) for each in (False, True))
    counts: dict[str, Counter] = {}
    differences, expanding, passed_over = [], 0, 0
    for step in answer["steps"]:
        comparison = Comparison(ours, step)
        causes = comparison.causes()
        causes["choice_by_intersected_bounds"] = compare_kept(kept, ours, step["row"])
        for name, cause in causes.items():
            counts.setdefault(name, Counter())[cause] += 1
        differences.append(comparison.difference_of_bounds)
        passed_over += comparison.passes_over
        expanding += step["row"] in step["first_expander"]
        ours.tell(step["row"])
        kept.tell(step["row"])
    sizes = [len(step["safe"]) for step in answer["steps"]]
    return {
        "safeopt": answer["version"],
        "steps": len(sizes),
        "chosen_to_expand": expanding,
        "wider_one_passed_over": passed_over,
        "safe_first_last": [sizes[0], sizes[-1]],
        "largest_difference_of_bounds": max(differences),
        **{name: dict(count) for name, count in counts.items()},
    }


def summarize(runs: list[dict]) -> dict:
    """Counts over runs."""
    total: dict[str, Counter] = {}
    for run in runs:
        for name, count in run.items():
            if isinstance(count, dict):
                total.setdefault(name, Counter()).update(count)
    return {
        "steps": sum(run["steps"] for run in runs),
        "chosen_to_expand": sum(run["chosen_to_expand"] for run in runs),
        "wider_one_passed_over": sum(run["wider_one_passed_over"] for run in runs),
        "largest_difference_of_bounds": max(run["largest_difference_of_bounds"] for run in runs),
        **{name: dict(count) for name, count in total.items()},
    }


def measure(folder: Path, seeds: int) -> dict:
    parts, runs = {}, []
    for where, grid in GRIDS.items():
        for which, priors in PRIORS.items():
            found = []
            for seed in range(seeds):
                run = compare(DrawnTask.of(grid, priors, seed), folder)
                found.append({"grid": where, "priors": which, "seed": seed, **run})
            parts[f"{where}, {which} priors"] = summarize(found)
            print(where, which, json.dumps(summarize(found)), flush=True)
            runs += found
    settings = {"beta": BETA, "noise_std": NOISE_STD, "start": STARTS, "steps_of_run": STEPS}
    return {"settings": settings, "all": summarize(runs), **parts, "runs": runs}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="one seed, nothing is written")
    parser.add_argument("--peers", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    result = measure(arguments.peers, 1 if arguments.smoke else SEEDS)
    print(json.dumps(result["all"], indent=1))
    if not arguments.smoke:
        save("heuristic_safeopt", result)
