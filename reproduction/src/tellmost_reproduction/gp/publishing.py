"""Keep the numbers of a full run as the expected ones: for those who change Tellmost.

    python -m tellmost_reproduction.gp.publishing --repository .

Writes a folder per experiment into ``results``, the numbers into ``expected`` beside this file,
which is shipped, a link to them into each folder, and the tables of ``docs/gp-experiments.md``.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from tellmost_reproduction.catalogue import Request
from tellmost_reproduction.gp.overview import tabulate_dense, tabulate_times, write_overview
from tellmost_reproduction.gp.reproducing import PART_1, describe, run_all
from tellmost_reproduction.gp.ruling import RULE
from tellmost_reproduction.gp.settings import FULL
from tellmost_reproduction.keeping import keep_text
from tellmost_reproduction.overviews import Done, tabulate_all
from tellmost_reproduction.publishing import fill, keep_expected

EXPECTED = Path(__file__).parent / "expected"


def publish(repository: Path) -> None:
    results = repository / "results"
    done = run_all(PART_1, Request(results), ())
    for one in done:
        keep_expected(one.numbers, EXPECTED / f"{one.name}.json", results / one.name)
        print(describe(one, is_smoke=False), end="\n\n")
    (results / "gp").mkdir(exist_ok=True)
    timed = json.loads((repository / "benchmarks/results/dense_rounds.json").read_text())
    dense = tabulate_dense(timed)
    keep_text(write_overview(done, FULL, dense=dense), results / "gp" / "README.md")
    fill_document(repository / "docs" / "gp-experiments.md", done, dense)


def fill_document(path: Path, done: Sequence[Done], dense: str) -> None:
    text = path.read_text(encoding="utf-8")
    for name, table in (
        ("verdicts", tabulate_all(done, RULE, "../results")),
        ("times", tabulate_times(done)),
        ("dense", dense),
    ):
        text = fill(text, name, table)
    keep_text(text, path)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", type=Path, required=True)
    publish(parser.parse_args(arguments).repository)


if __name__ == "__main__":
    main()
