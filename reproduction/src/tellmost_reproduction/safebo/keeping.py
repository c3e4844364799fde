"""Results as files: the picks of every run, and what every seed came to."""

from pathlib import Path

import numpy as np

from tellmost_reproduction.keeping import write_table
from tellmost_reproduction.safebo.records import MEASURES, Record, curve_of

BOX_SEEDS = 5
"""Of points in a box, which are long to write, those of the first seeds alone."""


def keep_picks(record: Record, path: Path) -> None:
    """A row per run: rows of the domain, or points, in the order measured."""
    rows = (
        [run.method, run.seed, " ".join(_words(run.picks))]
        for run in record.runs
        if run.picks.ndim == 1 or run.seed < BOX_SEEDS
    )
    write_table(path, ["method", "seed", "picks"], rows)


def _words(picks: np.ndarray) -> list[str]:
    if picks.ndim == 1:
        return [str(row) for row in picks.tolist()]
    return [",".join(f"{x:.5g}" for x in point) for point in picks.tolist()]


def keep_seeds(record: Record, path: Path) -> None:
    """What each method comes to with each seed, after some observations."""
    rows = (
        [run.method, run.seed, count, *(f"{curve[count]:.6g}" for curve in curves), seconds]
        for run in record.runs
        for curves in [[curve_of(run, measure) for measure in MEASURES]]
        for seconds in [f"{np.nanmean(run.seconds):.3g}"]
        for count in record.counts
    )
    heading = ["method", "seed", "observations", *MEASURES, "seconds_per_ask"]
    write_table(path, heading, rows)
