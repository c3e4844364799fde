"""Keep the numbers of the full runs as the expected ones: for those who change Sightline.

    python -m sightline.experiments.safebo.publishing --repository . --runs FOLDER

Writes a folder per experiment into ``results``, the numbers into ``expected`` beside this file,
which is shipped, a link to them into each folder, and the tables of
``docs/safebo-experiments.md``. Runs stay in the folder: what is there is not run again.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from sightline.experiments.catalogue import Request
from sightline.experiments.keeping import keep_text
from sightline.experiments.overviews import Done, tabulate_all
from sightline.experiments.publishing import fill, keep_expected
from sightline.experiments.safebo.claims import RULE
from sightline.experiments.safebo.misspecified.page import tabulate
from sightline.experiments.safebo.misspecified.reproducing import reproduce_study
from sightline.experiments.safebo.overview import tabulate_times, write_overview
from sightline.experiments.safebo.reproducing import ALL, reproduce_one
from sightline.experiments.safebo.settings import EXPERIMENTS

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
