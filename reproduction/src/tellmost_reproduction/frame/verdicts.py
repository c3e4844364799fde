"""A claim of the paper, whether it holds here, and the numbers that say so."""

from collections.abc import Sequence
from dataclasses import dataclass

HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold"
OPEN = "cannot be judged"


@dataclass(frozen=True)
class Verdict:
    """What was claimed, whether it holds, and by how much; all numbers come from the run."""

    claim: str
    holds: str
    finding: str


def conclude(facts: Sequence[bool | None]) -> str:
    """All of them, some of them, none of them; None is a fact that the runs do not tell."""
    if all(fact is None for fact in facts):
        return OPEN
    if all(facts):
        return HOLDS
    return IN_PART if any(facts) else FAILS


def percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def tabulate_verdicts(verdicts: Sequence[Verdict]) -> str:
    """As a table in Markdown."""
    lines = ["| claim of the paper | verdict | numbers |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {v.claim} | **{v.holds}** | {v.finding} |" for v in verdicts)])
