"""Runs as lines of JSON: each is written when it is done, and none is run twice."""

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from tellmost_reproduction.networks.running import Run

RunId = tuple[str, int]
"""The name of a configuration, and the seed."""


def append_run(run: Run, path: Path) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(run.to_dict()) + "\n")


def read_runs(paths: Iterable[Path]) -> dict[RunId, Run]:
    """Of several files, which may be compressed; the longest of each, the first if equal."""
    found: dict[RunId, Run] = {}
    for path in paths:
        for run in _lines(path):
            known = found.get((run.configuration, run.seed))
            if known is None or len(run.accuracy) > len(known.accuracy):
                found[run.configuration, run.seed] = run
    return found


def check_runs(runs: Iterable[Run]) -> None:
    """Refuses what cannot be put beside the others: smoke runs, other datasets, other lengths."""
    longest: dict[str, Run] = {}
    sized: dict[str, Run] = {}
    for run in sorted(runs, key=lambda run: -len(run.accuracy)):
        check_real(run)
        check_length(run, longest.setdefault(run.configuration, run))
        if run.images is not None:
            check_images(run, sized.setdefault(run.configuration.split("/")[0], run))


def check_real(run: Run) -> None:
    if run.is_smoke:
        raise ValueError(
            f"runs to be kept must be of the datasets themselves; {named(run)} is a smoke run, on "
            f"digits. Leave its file out, or take such lines away."
        )


def check_length(run: Run, other: Run) -> None:
    if len(run.accuracy) != len(other.accuracy):
        raise ValueError(
            f"runs of a configuration must be equally long; {named(run)} has "
            f"{len(run.accuracy)} rounds and {named(other)} {len(other.accuracy)}. Run it again "
            f"with as many, or leave it out."
        )


def check_images(run: Run, other: Run) -> None:
    if run.images != other.images:
        raise ValueError(
            f"runs of a dataset must be of equally many training images; {named(run)} is of "
            f"{run.images:,} and {named(other)} of {other.images:,}. Keep them in files of their "
            f"own."
        )


def named(run: Run) -> str:
    return f"{run.configuration}, seed {run.seed},"


def _lines(path: Path) -> Iterator[Run]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield Run(**json.loads(line))
            except (json.JSONDecodeError, TypeError) as error:
                raise ValueError(
                    f"{path} must have a run on each line; line {number} is none ({error}). A run "
                    f"that was cut off while it was written can be deleted."
                ) from error


def write_runs(runs: Iterable[Run], path: Path) -> None:
    """Compressed, the same bytes for the same runs; in the order of names and seeds."""
    ordered = sorted(runs, key=lambda run: (run.configuration, run.seed))
    lines = "".join(json.dumps(run.to_dict()) + "\n" for run in ordered)
    path.write_bytes(gzip.compress(lines.encode(), mtime=0))
