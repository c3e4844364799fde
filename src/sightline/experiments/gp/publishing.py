"""Keep the numbers of a full run as the expected ones: for those who change Sightline.

    python -m sightline.experiments.gp.publishing --repository .

Writes a folder per experiment into ``results``, the numbers into ``expected`` beside this file,
which is shipped, a link to them into each folder, and the tables of ``docs/gp-experiments.md``.
"""

import argparse
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from sightline.experiments.catalogue import Request
from sightline.experiments.gp.keeping import keep_text
from sightline.experiments.gp.overview import (
    Done,
    tabulate_all,
    tabulate_dense,
    tabulate_times,
    write_overview,
)
from sightline.experiments.gp.reproducing import PART_1, describe, run_all
from sightline.experiments.gp.settings import FULL

EXPECTED = Path(__file__).parent / "expected"
ABOUT_LINK = "`expected.json`: the expected numbers, a link to the file in the package.\n"


def publish(repository: Path) -> None:
    results = repository / "results"
    done = run_all(PART_1, Request(results), ())
    for one in done:
        keep_expected(one, results / one.name)
        print(describe(one, is_smoke=False), end="\n\n")
    (results / "gp").mkdir(exist_ok=True)
    timed = json.loads((repository / "benchmarks/results/dense_rounds.json").read_text())
    dense = tabulate_dense(timed)
    keep_text(write_overview(done, FULL, dense=dense), results / "gp" / "README.md")
    fill_document(repository / "docs" / "gp-experiments.md", done, dense)


def keep_expected(done: Done, folder: Path) -> None:
    """One file, in the package; the folder has a link to it, of which its page speaks."""
    path, link = EXPECTED / f"{done.name}.json", folder / "expected.json"
    EXPECTED.mkdir(exist_ok=True)
    keep_text(done.numbers.to_json(), path)
    page = folder / "README.md"
    keep_text(f"{page.read_text(encoding='utf-8')}\n{ABOUT_LINK}", page)
    if not link.is_symlink():
        link.symlink_to(os.path.relpath(path, folder))


def fill_document(path: Path, done: Sequence[Done], dense: str) -> None:
    text = path.read_text(encoding="utf-8")
    for name, table in (
        ("verdicts", tabulate_all(done, "../results")),
        ("times", tabulate_times(done)),
        ("dense", dense),
    ):
        text = fill(text, name, table)
    keep_text(text, path)


def fill(text: str, name: str, table: str) -> str:
    """The text between two marks replaced by a table."""
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    marked = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
    if not marked.search(text):
        raise ValueError(f"the document has no marks {start} and {end} to write between.")
    return marked.sub(lambda found: f"{start}\n{table}\n{end}", text)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", type=Path, required=True)
    publish(parser.parse_args(arguments).repository)


if __name__ == "__main__":
    main()
