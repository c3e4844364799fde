r"""Which targets should the safe optimiser learn about? Potential maximizers, drawn maximizers, or
all points by the probability with which each is the best safe one?

Regret is that of ``best``, in the unit of the objective.

``--out FOLDER`` keeps each run, so that what is done is not done again.
"""

import argparse
import os
from functools import cache
from pathlib import Path

import numpy as np

import tellmost as tm
from setting import save
from tellmost.safebo.baselines import SafeUCB
from tellmost_reproduction.safebo.methods import Method
from tellmost_reproduction.safebo.process import process, small_process
from tellmost_reproduction.safebo.runs import Job, Run, path_of, run_all
from tellmost_reproduction.safebo.tasks import Task, barriers, bumps, island

SEEDS, ROUNDS = 25, 100
LONG = 500  # rounds of the task in one dimension, which is decided late
LOOKED_AT = {ROUNDS: (30, 100), LONG: (200, 500)}


METHODS = (
    Method("vtl", "VTL, potential maximizers"),
    Method("thompson-200", "VTL, 200 drawn", targets=tm.targets.ThompsonMaximizers(200)),
    Method("weighed", "VTL, weighed", targets=tm.targets.ProbableMaximizers()),
    Method("ucb", "Safe UCB", strategy=SafeUCB()),
)


# ---- tasks beside those of the paper


def task_of(name: str, domain: np.ndarray, values: dict, priors: dict, at_least: float) -> Task:
    """A task with one limit. One start is drawn, of the safest fiftieth of the domain."""
    margin = values["g"] - at_least
    return Task(
        name=name,
        domain=domain,
        values=values,
        objective=priors["objective"],
        constraints={"g": tm.Constraint(priors["g"], at_least=at_least)},
        starts=np.argsort(-margin, kind="stable")[: len(margin) // 50],
        slopes={},
        beta=2.33,
        rounds=ROUNDS,
        draws_start=True,
        is_intersected=False,
    )


@cache
def gardner(points: int = 1_296) -> Task:
    """The first simulation of Gardner et al. 2014, negated: f is maximised, g is at least -1/2."""
    axis = np.linspace(0.0, 6.0, round(points**0.5))
    x = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    f = -(np.cos(2 * x[:, 0]) * np.cos(x[:, 1]) + np.sin(x[:, 0]))
    g = -np.cos(x[:, 0] + x[:, 1])
    priors = {"objective": gaussian(0.8, 1.0), "g": gaussian(1.0, 1.0)}
    return task_of("gardner", x, {"objective": f, "g": g}, priors, -0.5)


def gaussian(lengthscale: float, variance: float) -> tm.GP:
    kernel = tm.kernels.Scaled(tm.kernels.Gaussian(lengthscale), variance)
    return tm.GP(kernel, noise_std=0.1)


HARTMANN = np.array([[10, 3, 17, 3.5], [0.05, 10, 17, 0.1], [3, 3.5, 1.7, 10], [17, 8, 0.05, 10]])
CENTRES = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124],
        [2329, 4135, 8307, 3736],
        [2348, 1451, 3522, 2883],
        [4047, 8828, 8732, 5743],
    ]
)
HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])


@cache
def hartmann(points: int = 1_024) -> Task:
    """Hartmann's function in 4d as Picheny et al. 2013 scale it, in a ball without its maximum."""
    x = tm.Box(4 * [0.0], 1.0).sobol(points, seed=0).numpy()
    squared = ((x[:, None] - CENTRES) ** 2 * HARTMANN).sum(axis=-1)
    f = (np.exp(-squared) @ HEIGHTS - 1.1) / 0.839
    g = 0.5 - np.linalg.norm(x - 0.55, axis=1)
    priors = {
        "objective": tm.GP(tm.kernels.Matern(2.5, 0.5), noise_std=0.05),
        "g": tm.GP(tm.kernels.Scaled(tm.kernels.Matern(2.5, 1.5), 0.25), mean=0.0, noise_std=0.02),
    }
    return task_of("hartmann", x, {"objective": f, "g": g}, priors, 0.0)


TASKS = (process, hartmann, gardner, island, bumps, barriers)
SMALL = (small_process, lambda: hartmann(256), lambda: gardner(256), bumps)


def jobs_of(tasks: list[Task], seeds: range, rounds: int) -> list[Job]:
    """All tasks and methods of one seed after the other, in case time runs out."""
    return [
        Job(task, method, seed, rounds) for seed in seeds for task in tasks for method in METHODS
    ]


def finished(jobs: list[Job], kept: Path) -> list[Job]:
    """The jobs of the seeds of which every run of equal length is kept."""
    missing = {(job.seed, job.rounds) for job in jobs if not path_of(job, kept).exists()}
    return [job for job in jobs if (job.seed, job.rounds) not in missing]


def summarize(jobs: list[Job], runs: list[Run], looked_at: tuple[int, ...]) -> list[dict]:
    """Mean regrets with their errors, and paired differences to the potential maximizers."""
    found: dict[tuple[str, str], list[Run]] = {}
    for job, run in zip(jobs, runs, strict=True):
        found.setdefault((job.challenge.name, job.method.key), []).append(run)
    rows = []
    for (task, key), own in found.items():
        row = {"task": task, "method": key, "seeds": len(own)}
        for at in looked_at:
            regret = np.array([run.regret[at] for run in own])
            before = np.array([run.regret[at] for run in found[task, METHODS[0].key]])
            row[f"regret_{at}"] = float(regret.mean())
            row[f"error_{at}"] = standard_error(regret)
            row[f"ahead_{at}"] = float((before - regret).mean())
            row[f"error_ahead_{at}"] = standard_error(before - regret)
            row[f"safe_{at}"] = float(np.mean([run.safe[at] for run in own]))
        row["violations"] = int(sum(run.violates.sum() for run in own))
        row["refusals"] = sum(bool(run.refusal) for run in own)
        row["milliseconds"] = 1e3 * float(np.nanmedian([np.nanmedian(r.seconds) for r in own]))
        rows.append(row)
    return rows


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / len(values) ** 0.5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny, to see that it runs")
    parser.add_argument("--out", type=Path, help="the folder in which runs are kept")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, SEEDS), help="first, end")
    parser.add_argument("--tell", action="store_true", help="only tell what is kept")
    arguments = parser.parse_args()
    if arguments.smoke:
        jobs = jobs_of([make() for make in SMALL], range(2), rounds=3)
        print(summarize(jobs, run_all(jobs, workers=1), (3,)))
    else:
        seeds = range(*arguments.seeds)
        jobs = jobs_of([make() for make in TASKS], seeds, ROUNDS) + jobs_of([bumps()], seeds, LONG)
        if arguments.tell:
            jobs = finished(jobs, arguments.out)
        runs = run_all(jobs, workers=arguments.workers, kept=arguments.out)
        rows = []
        for rounds, looked_at in LOOKED_AT.items():
            own = [(job, one) for job, one in zip(jobs, runs, strict=True) if job.rounds == rounds]
            rows += summarize([job for job, _ in own], [one for _, one in own], looked_at)
        save("which_targets", {"rows": rows})
