"""Runs on disk, so that what was interrupted goes on where it was."""

from dataclasses import fields
from pathlib import Path

import numpy as np

from tellmost.running.writing import written_whole
from tellmost_reproduction.safebo.running import Job, Run

RUNS = "runs"
"""The folder where the runs of an experiment wait until all are there."""


def path_of(job: Job, folder: Path) -> Path:
    """A run of other rounds is another run."""
    return folder / f"{job.challenge.name}-{job.method.key}-{job.seed}-{job.rounds}.npz"


def keep_run(run: Run, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)  # not before there is something to keep
    with written_whole(path) as whole, whole.open("wb") as file:
        np.savez_compressed(file, **{one.name: getattr(run, one.name) for one in fields(run)})


def read_run(path: Path) -> Run:
    with np.load(path) as kept:
        return Run(
            method=str(kept["method"]),
            seed=int(kept["seed"]),
            picks=kept["picks"],
            regret=kept["regret"],
            safe=kept["safe"],
            wrong=kept["wrong"],
            is_best_unsafe=kept["is_best_unsafe"],
            violates=kept["violates"],
            seconds=kept["seconds"],
            refusal=str(kept["refusal"]),
            watched=tuple(kept["watched"].tolist()),
        )
