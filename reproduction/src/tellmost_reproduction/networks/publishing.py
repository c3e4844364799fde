"""Keep runs as the results that are committed: for those who change Tellmost.

    python -m tellmost_reproduction.networks.publishing --repository . --runs runs.jsonl

Merges the runs into ``results/nn/runs.jsonl.gz``, where none is lost that was there, and writes
from all of them a folder per experiment, the expected numbers, and the tables of
``docs/network-experiments.md``. Nothing is run.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tellmost_reproduction.keeping import keep_text
from tellmost_reproduction.networks.curves import Curves
from tellmost_reproduction.networks.equalities import tabulate_equalities
from tellmost_reproduction.networks.experiments import experiments, jobs_in_order
from tellmost_reproduction.networks.pages import lengths
from tellmost_reproduction.networks.reproducing import Done, describe, write_experiment
from tellmost_reproduction.networks.running import Run
from tellmost_reproduction.networks.settings import SEEDS
from tellmost_reproduction.networks.storing import (
    RunId,
    check_real,
    check_runs,
    read_runs,
    write_runs,
)
from tellmost_reproduction.networks.tables import table_of_noise
from tellmost_reproduction.networks.tying import TRIAL, tabulate_ties
from tellmost_reproduction.publishing import fill, keep_expected
from tellmost_reproduction.tables import Cells, in_markdown

PACKAGE = Path("reproduction", "src", "tellmost_reproduction", "networks")
DOCUMENT = Path("docs", "network-experiments.md")

TIMINGS = {"times": "timing.json", "times on a CPU": "timing-cpu.json"}
"""Files with the times of choosing and training, by their marks in the document."""


def publish(repository: Path, files: Sequence[Path], timing: Path | None) -> None:
    results = repository / "results"
    kept = results / "nn" / "runs.jsonl.gz"
    runs = read_checked([*files, *([kept] if kept.exists() else [])])
    check_repository(repository)
    kept.parent.mkdir(parents=True, exist_ok=True)
    write_runs(runs.values(), kept)
    if timing is not None:
        keep_text(timing.read_text(), results / "nn" / "timing.json")
    done = []
    for experiment in experiments().values():
        curves = Curves.of(experiment, runs)
        if not curves.runs:
            continue
        one = write_experiment(curves, results)
        expected = repository / PACKAGE / "expected" / f"{experiment.name}.json"
        keep_expected(one.numbers, expected, results / experiment.name)
        print(describe(one), end="\n\n")
        done.append(one)
    fill_document(repository, done, runs)


def check_repository(repository: Path) -> None:
    for place in (PACKAGE, DOCUMENT):
        if not (repository / place).exists():
            raise FileNotFoundError(
                f"--repository must be a checkout of Tellmost; {repository} has no {place}."
            )


def read_checked(files: Sequence[Path]) -> dict[RunId, Run]:
    """All runs, after what cannot be kept has been refused: no file is written before."""
    for path in files:
        for run in read_runs([path]).values():
            check_real(run)
    runs = read_runs(files)
    check_runs(runs.values())
    return runs


def fill_document(repository: Path, done: Sequence[Done], runs: Mapping[RunId, Run]) -> None:
    page = repository / DOCUMENT
    text = fill(page.read_text(encoding="utf-8"), "verdicts", tabulate_all(done))
    text = fill(text, "runs", count_runs(runs))
    text = fill(text, "equalities", in_markdown(tabulate_equalities()))
    noise = Curves.of(experiments()["nn-rho"], runs)
    if noise.runs:
        text = fill(text, "rho", in_markdown(table_of_noise(noise)))
    for mark, name in TIMINGS.items():
        timing = repository / "results" / "nn" / name
        if timing.exists():
            text = fill(text, mark, tabulate_times(json.loads(timing.read_text())))
    sticking = repository / "results" / "nn" / "sticking.json"
    trial = json.loads(sticking.read_text()).get(TRIAL) if sticking.exists() else None
    if trial is not None:
        text = fill(text, "ties", in_markdown(tabulate_ties(trial)))
    keep_text(text, page)


def count_runs(runs: Mapping[RunId, Run]) -> str:
    """How many there are, how long they are, and how many of what is to be run that is."""
    jobs = {(one.name, seed) for one, seed in jobs_in_order([*experiments().values()], SEEDS)}
    by_length = ", ".join(
        f"{count} of {rounds} rounds" for rounds, count in lengths(runs.values()).items()
    )
    past = sum(key not in jobs for key in runs)
    return (
        f"There are {len(runs):,} runs ({by_length}). {len(jobs & set(runs)):,} are of the "
        f"{len(jobs):,} that the experiments name, and {past} are of TypiClust as it was."
    )


def tabulate_all(done: Sequence[Done]) -> str:
    rows = [
        [
            f"[{one.experiment.name}](../results/{one.experiment.name}/README.md)",
            v.claim,
            f"**{v.holds}**",
            v.finding,
        ]
        for one in done
        for v in one.verdicts
    ]
    return in_markdown([["experiment", "claim of the paper", "verdict", "numbers"], *rows])


def tabulate_times(timed: Mapping[str, Any]) -> str:
    """Choosing, and its share of each way to train, on the machine of the file."""
    trained = timed["training"]
    heading = ["choosing", "ms", *(f"of {way}, {n} images" for way, n in _trainings(trained))]
    rows: Cells = [heading, ["(training, ms)", "", *_milliseconds(trained)]]
    for name, seconds in timed["selecting"].items():
        shares = (f"{100 * seconds / trained[way][n]:.1f}%" for way, n in _trainings(trained))
        rows.append([name, f"{1000 * seconds:.1f}", *shares])
    embedded = ", ".join(f"{n} in {1000 * s:.1f} ms" for n, s in timed["embedding"].items())
    return f"{timed['machine']}. Embedding images: {embedded}.\n\n{in_markdown(rows)}"


def _trainings(trained: Mapping[str, Mapping[str, float]]) -> list[tuple[str, str]]:
    return [(way, n) for way, by_count in trained.items() for n in by_count]


def _milliseconds(trained: Mapping[str, Mapping[str, float]]) -> list[str]:
    return [f"{1000 * trained[way][n]:.0f}" for way, n in _trainings(trained)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", type=Path, required=True)
    parser.add_argument("--runs", type=Path, nargs="*", default=[])
    parser.add_argument("--timing", type=Path)
    given = parser.parse_args(arguments)
    publish(given.repository, given.runs, given.timing)


if __name__ == "__main__":
    main()
