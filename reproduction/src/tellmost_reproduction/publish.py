"""Renew the committed results of a subject: for those who change Tellmost.

    python -m tellmost_reproduction.publish gp --repository .
    python -m tellmost_reproduction.publish safebo --repository . --runs FOLDER
    python -m tellmost_reproduction.publish networks --repository . --runs runs.jsonl
    python -m tellmost_reproduction.publish page --repository .

This writes a folder per experiment into ``results``, expected numbers and verdicts into the
package, a link to them into each folder, and ``docs/does-the-paper-hold.md``. The subject "page"
writes that page alone. ``--runs`` is where runs are kept: those of ``safebo`` are made if they are
not there, and those of ``networks`` are never made here but merged into
``results/nn/runs.jsonl.gz``, where none is lost that was there.
"""

import argparse
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from tellmost_reproduction.frame.answering import keep_answer


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subject", choices=("gp", "networks", "safebo", "page"))
    parser.add_argument("--repository", type=Path, required=True)
    parser.add_argument("--runs", type=Path, nargs="*", default=[])
    given = parser.parse_args(arguments)
    if given.subject == "page":
        keep_answer(given.repository)
        return
    subject = import_module(f"tellmost_reproduction.{given.subject}.reproducing")
    subject.publish(given.repository, given.runs)


if __name__ == "__main__":
    main()
