"""One method against another: mean regret over the rounds, seed by seed."""

from dataclasses import dataclass

import numpy as np

from tellmost.evaluation.statistics import Mean
from tellmost_reproduction.safebo.records import Record


@dataclass(frozen=True)
class Comparison:
    """Regrets of two methods, averaged over all rounds; the difference is paired over seeds."""

    one: str
    other: str
    means: tuple[float, float]
    difference: Mean  # the first less the other: negative is better

    @property
    def is_better(self) -> bool:
        """Clearly, at 95%."""
        return self.difference.sign < 0

    @property
    def is_worse(self) -> bool:
        return self.difference.sign > 0

    def describe(self) -> str:
        clear = "" if self.difference.sign else ", not clear"
        one, other = self.means
        return (
            f"{self.one} {one:.3g} against {self.other} {other:.3g} "
            f"(difference {self.difference.value:+.2g} ± {self.difference.error or 0:.1g}{clear})"
        )


def compare(record: Record, one: str, other: str) -> Comparison:
    first, second = record.areas(one), record.areas(other)
    return Comparison(
        record.label(one),
        record.label(other),
        (float(first.mean()), float(second.mean())),
        Mean.of(first - second),
    )


def rank(record: Record, keys: list[str]) -> list[str]:
    """The lowest mean regret first."""
    return sorted(keys, key=lambda key: float(record.areas(key).mean()))


def rounds_needed(record: Record, key: str, level: float) -> list[int | None]:
    """Of each seed: observations after which the regret is below a level for good."""
    found: list[int | None] = []
    for curve in record.curves("regret", key):
        above = np.flatnonzero(curve > level)
        first = int(above[-1]) + 1 if len(above) else 0
        found.append(first if first < len(curve) else None)
    return found


def describe_rounds(record: Record, key: str, level: float) -> str:
    """The median, and how many seeds got there."""
    found = rounds_needed(record, key, level)
    got = [count for count in found if count is not None]
    if not got:
        return f"{record.label(key)} with none of {len(found)} seeds"
    middle = np.median([len(record.mean("regret", key)) if c is None else c for c in found])
    late = f" (in {len(got)} of {len(found)} seeds)" if len(got) < len(found) else ""
    at = f"after {middle:.0f} rounds" if middle <= record.rounds else "not at all"
    return f"{record.label(key)} {at}{late}"
