"""Several experiments on one page: every verdict, and what it rests on."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tellmost_reproduction.numbers import Numbers
from tellmost_reproduction.tables import Cells
from tellmost_reproduction.verdicts import FAILS, HOLDS, IN_PART, OPEN, Verdict


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
