"""Results as files: the picks of every run, and what every seed came to."""

from pathlib import Path

import numpy as np

from tellmost.shapes import Int
from tellmost_reproduction.gp.curves import Curves, Run
from tellmost_reproduction.gp.measures import MEASURES
from tellmost_reproduction.gp.numbers import observations
from tellmost_reproduction.gp.samples import Samples
from tellmost_reproduction.keeping import write_table


def keep_picks(curves: Curves, path: Path) -> None:
    """A row per run: numbers of points in S, in the order picked."""
    rows = ([run.method.key, _seed(run), _joined(run.picks)] for run in curves.runs)
    write_table(path, ["method", "seed", "picks"], rows)


def keep_samples(samples: Samples, path: Path) -> None:
    rows = (
        [setting, key, _joined(picks)]
        for key, by_setting in samples.picks.items()
        for setting, picks in by_setting.items()
    )
    write_table(path, ["setting", "method", "picks"], rows)


def keep_seeds(curves: Curves, path: Path) -> None:
    """What each method comes to with each seed; only errors differ where the picks do not."""
    rows = (
        [key, seed, count, *(f"{curve[count]:.6g}" for curve in measured)]
        for key in (method.key for method in curves.methods)
        for seed in range(curves.size.seeds)
        for measured in [[_of_seed(curves.seeds(name, key), seed) for name in MEASURES]]
        for count in observations(curves.size.rounds)
    )
    write_table(path, ["method", "seed", "observations", *MEASURES], rows)


def _seed(run: Run) -> str:
    return "all" if run.seed is None else str(run.seed)


def _joined(picks: Int[np.ndarray, " t"]) -> str:
    return " ".join(map(str, picks.tolist()))


def _of_seed(curves: np.ndarray, seed: int) -> np.ndarray:
    return curves[seed if len(curves) > 1 else 0]
