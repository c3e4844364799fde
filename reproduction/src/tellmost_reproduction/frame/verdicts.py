"""A claim of the paper, whether it holds here, and the numbers that say so."""

from collections.abc import Sequence
from dataclasses import dataclass

from tellmost_reproduction.frame.pages import in_markdown

HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold"
OPEN = "cannot be judged"

Fact = bool | None
"""One thing that a claim says. None means that the runs do not tell."""


@dataclass(frozen=True)
class Verdict:
    """What was claimed, whether it holds, and by how much. All numbers come from the run."""

    claim: str
    holds: str
    finding: str
    configuration: str = ""  # what was run
    seeds: int = 0


def conclude(facts: Sequence[Fact]) -> str:
    """A claim holds if all facts are so, in part if some are, and not at all if none is."""
    if all(fact is None for fact in facts):
        return OPEN
    if all(facts):
        return HOLDS
    return IN_PART if any(facts) else FAILS


def percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def tabulate_verdicts(verdicts: Sequence[Verdict], what: str = "claim of the paper") -> str:
    rows = [[v.claim, f"**{v.holds}**", v.finding] for v in verdicts]
    return in_markdown([[what, "verdict", "numbers"], *rows])


def print_verdicts(verdicts: Sequence[Verdict]) -> str:
    """The same for a terminal."""
    return "\n".join(f"{v.holds:>14}: {v.claim}\n{'':16}{v.finding}" for v in verdicts)
