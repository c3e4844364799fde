"""Keep the numbers of the full runs as the expected ones: for those who change Tellmost.

    python -m tellmost_reproduction.safebo.publishing --repository . --runs FOLDER

Writes a folder per experiment into ``results``, the numbers into ``expected`` beside this file,
which is shipped, a link to them into each folder, and the tables of
``docs/safebo-experiments.md``. Runs stay in the folder: what is there is not run again.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from tellmost_reproduction.catalogue import Request
from tellmost_reproduction.keeping import keep_text
from tellmost_reproduction.overviews import Done, tabulate_all
from tellmost_reproduction.publishing import fill, keep_expected
from tellmost_reproduction.safebo.claims import RULE
from tellmost_reproduction.safebo.misspecified.page import tabulate
from tellmost_reproduction.safebo.misspecified.reproducing import reproduce_study
from tellmost_reproduction.safebo.overview import tabulate_times, write_overview
from tellmost_reproduction.safebo.reproducing import ALL, reproduce_one
from tellmost_reproduction.safebo.settings import EXPERIMENTS

EXPECTED = Path(__file__).parent / "expected"
EXPECTED_OF_STUDY = Path(__file__).parent / "misspecified" / "expected"


def publish(repository: Path, runs: Path) -> None:
    results = repository / "results"
    done = []
    for name in EXPERIMENTS:
        one = reproduce_one(name, Request(results, progress=True), runs=runs)
        keep_expected(one.numbers, EXPECTED / f"{name}.json", results / name)
        done.append(one)
    study = reproduce_study(Request(results, progress=True), runs=runs)
    keep_expected(study.numbers, EXPECTED_OF_STUDY / f"{study.name}.json", results / study.name)
    (results / ALL).mkdir(exist_ok=True)
    keep_text(write_overview(done, study), results / ALL / "README.md")
    fill_document(repository / "docs" / "safebo-experiments.md", done, study)


def fill_document(path: Path, done: Sequence[Done], study: Done) -> None:
    text = path.read_text(encoding="utf-8")
    text = fill(text, "verdicts", tabulate_all(done, RULE, "../results"))
    text = fill(text, "priors", tabulate(study.verdicts))
    keep_text(fill(text, "times", tabulate_times([*done, study])), path)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    given = parser.parse_args(arguments)
    publish(given.repository, given.runs)


if __name__ == "__main__":
    main()
