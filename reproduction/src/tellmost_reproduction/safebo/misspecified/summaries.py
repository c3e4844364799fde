"""What all seeds of a method came to, task by task and factor by factor."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tellmost.evaluation.statistics import Mean
from tellmost.numerics import AGREEING_ERRORS, REPRODUCED
from tellmost_reproduction.numbers import Numbers, Series, shorten
from tellmost_reproduction.safebo.methods import BY_KEY
from tellmost_reproduction.safebo.misspecified.studying import FACTORS, SETTINGS, Ending
from tellmost_reproduction.tables import Cells

MEASURES: dict[str, Callable[[Ending], float]] = {
    "violations": lambda one: one.violations,
    "regret": lambda one: one.regret,
    "unsafe_recommendation": lambda one: one.is_best_unsafe,
    "wrong_points": lambda one: one.wrong,
    "refused": lambda one: one.refused_after is not None,
    "warned": lambda one: one.warned_after is not None,
}
"""Of one run; shares are means of what is true or not."""

HEADING = (
    "method",
    "violations per run",
    "runs with any",
    "regret at the end",
    "unsafe recommendation",
    "refused to go on",
    "warned",
    "rounds until the warning",
    "warned before a violation",
)


@dataclass(frozen=True)
class Group:
    """The runs of a method on a task, with one factor."""

    setting: str
    factor: float
    method: str
    endings: tuple[Ending, ...]

    @property
    def label(self) -> str:
        return BY_KEY[self.method].label

    def mean(self, measure: str) -> Mean:
        return Mean.of(self.values(measure))

    def values(self, measure: str) -> np.ndarray:
        return np.array([MEASURES[measure](one) for one in self.endings], dtype=np.float64)

    def cells(self) -> list[str]:
        violating = [one for one in self.endings if one.violations]
        in_time = sum(one.is_warned_in_time for one in violating)
        return [
            self.label,
            self.mean("violations").text(digits=2),
            self.share("violations"),
            self.mean("regret").text(digits=2),
            *(self.share(name) for name in ("unsafe_recommendation", "refused", "warned")),
            self.waiting,
            f"{in_time} of {len(violating)}" if violating else "-",
        ]

    def share(self, measure: str) -> str:
        return f"{int((self.values(measure) > 0).sum())} of {len(self.endings)}"

    @property
    def waiting(self) -> str:
        """The median over the seeds that were warned."""
        rounds = [one.warned_after for one in self.endings if one.warned_after is not None]
        return f"{np.median(rounds):g}" if rounds else "-"


def group(endings: Sequence[Ending]) -> list[Group]:
    """In the order in which they were run."""
    found: dict[tuple[str, float, str], list[Ending]] = {}
    for one in endings:
        found.setdefault((one.setting, one.factor, one.method), []).append(one)
    return [Group(*key, tuple(some)) for key, some in found.items()]


def table_of(groups: Sequence[Group], setting: str, factor: float) -> Cells:
    rows = [one.cells() for one in groups if (one.setting, one.factor) == (setting, factor)]
    return [list(HEADING), *rows]


def numbers_of(groups: Sequence[Group]) -> Numbers:
    """By task, factor and method; all at the end of the runs."""
    methods = {
        f"{one.setting} x{one.factor:g} {one.method}": {
            measure: _series(one.mean(measure)) for measure in MEASURES
        }
        for one in groups
    }
    return Numbers([max(setting.rounds for setting in SETTINGS)], methods)


def agrees(got: float, expected: float, error: float | None) -> bool:
    """Runs that differ by a rounding differ in a pick, and in all that follow."""
    return abs(got - expected) <= AGREEING_ERRORS * (error or 0.0) + REPRODUCED * abs(expected)


def factors_of(groups: Sequence[Group]) -> list[float]:
    return [factor for factor in FACTORS if any(one.factor == factor for one in groups)]


def _series(mean: Mean) -> Series:
    return Series([shorten(mean.value)], None if mean.error is None else [shorten(mean.error)])
