"""A claim of the paper, whether it holds here, and the numbers that say so."""

from collections.abc import Sequence
from dataclasses import dataclass

from sightline.numerics import ALIKE

HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold"

RULE = (
    f"*{HOLDS}*: all that the claim says is so, and what it says about entropy is so for the "
    f"entropy of f on A, which the paper shows and which depends on the rank tolerance, and for "
    f"that of y on A, which does not. *{IN_PART}*: some of it is so, or all of it with one of the "
    f"two entropies. *{FAILS}*: none of it is so. Methods *perform alike* if their mean curves "
    f"differ by at most {100 * ALIKE:.0f}% in either entropy and in mean standard deviation; that "
    f"{IN_PART} where they do with the squared CTL of the authors' code in CTL's place, and else "
    f"it {FAILS}."
)
"""When a claim gets which verdict."""


@dataclass(frozen=True)
class Verdict:
    """What was claimed, whether it holds, and by how much; all numbers come from the run."""

    claim: str
    holds: str
    finding: str


def conclude(facts: Sequence[bool]) -> str:
    """All of them, some of them, none of them."""
    if all(facts):
        return HOLDS
    return IN_PART if any(facts) else FAILS


def percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def tabulate_verdicts(verdicts: Sequence[Verdict]) -> str:
    """As a table in Markdown."""
    lines = ["| claim of the paper | verdict | numbers |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {v.claim} | **{v.holds}** | {v.finding} |" for v in verdicts)])
