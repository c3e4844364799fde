"""What a subject has to say about its experiments, and how it is published."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tellmost_reproduction.frame.folders import Cells, keep_text
from tellmost_reproduction.frame.numbers import Numbers
from tellmost_reproduction.frame.verdicts import FAILS, HOLDS, IN_PART, OPEN, Verdict


@dataclass(frozen=True)
class Done:
    """One experiment that has been run."""

    name: str
    title: str
    text: str  # its tables
    verdicts: list[Verdict]
    numbers: Numbers
    seconds: float
    summary: Cells = field(
        default_factory=list
    )  # a heading and a row per method, for a table of all experiments


def tabulate_all(done: Sequence[Done], rule: str, folder: str = "..") -> str:
    """How many claims hold, and then each with its numbers; links are relative to a folder."""
    said = [verdict.holds for one in done for verdict in one.verdicts]
    words = (HOLDS, IN_PART, FAILS, *([OPEN] if OPEN in said else []))
    counted = ", ".join(f"{said.count(word)} x {word}" for word in words)
    lines = [
        f"{len(said)} verdicts: {counted}.",
        "",
        rule,
        "",
        "| experiment | claim of the paper | verdict | numbers |",
        "|---|---|---|---|",
    ]
    return "\n".join(
        lines
        + [
            f"| [{one.name}]({folder}/{one.name}/README.md) | {v.claim} | **{v.holds}** | "
            f"{v.finding} |"
            for one in done
            for v in one.verdicts
        ]
    )


ABOUT_LINK = "`expected.json`: the expected numbers, a link to the file in the package.\n"


def keep_expected(numbers: Numbers, path: Path, folder: Path) -> None:
    """One file, in the package; the folder has a link to it, of which its page speaks."""
    link = folder / "expected.json"
    path.parent.mkdir(exist_ok=True)
    keep_text(numbers.to_json(), path)
    page = folder / "README.md"
    keep_text(f"{page.read_text(encoding='utf-8')}\n{ABOUT_LINK}", page)
    if not link.is_symlink():
        link.symlink_to(os.path.relpath(path, folder))


def fill(text: str, name: str, table: str) -> str:
    """The text between two marks replaced by a table."""
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    marked = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
    if not marked.search(text):
        raise ValueError(f"the document has no marks {start} and {end} to write between.")
    return marked.sub(lambda found: f"{start}\n{table}\n{end}", text)
