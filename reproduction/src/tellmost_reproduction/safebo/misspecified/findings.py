"""What is to be expected of wrong lengthscales, and whether it is so."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tellmost.evaluation.statistics import Mean
from tellmost.numerics import CALIBRATION_ERROR
from tellmost_reproduction.frame.numbers import Numbers, Series
from tellmost_reproduction.frame.pages import Cells
from tellmost_reproduction.frame.verdicts import Fact, Verdict, conclude
from tellmost_reproduction.safebo.methods import BY_KEY
from tellmost_reproduction.safebo.misspecified.study import (
    FACTORS,
    PRESENT,
    SETTINGS,
    Ending,
    Setting,
)

MEASURES: dict[str, Callable[[Ending], float]] = {
    "violations": lambda one: one.violations,
    "regret": lambda one: one.regret,
    "unsafe_recommendation": lambda one: one.is_best_unsafe,
    "wrong_points": lambda one: one.wrong,
    "refused": lambda one: one.refused_after is not None,
    "warned": lambda one: one.warned_after is not None,
}
"""The measures of one run. Shares are means of what is true or not."""

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
    """Group the runs, in the order in which they were made."""
    found: dict[tuple[str, float, str], list[Ending]] = {}
    for one in endings:
        found.setdefault((one.setting, one.factor, one.method), []).append(one)
    return [Group(*key, tuple(some)) for key, some in found.items()]


def table_of(groups: Sequence[Group], setting: str, factor: float) -> Cells:
    rows = [one.cells() for one in groups if (one.setting, one.factor) == (setting, factor)]
    return [list(HEADING), *rows]


def numbers_of(groups: Sequence[Group]) -> Numbers:
    """The numbers at the end of the runs, by task, factor and method."""
    methods = {
        f"{one.setting} x{one.factor:g} {one.method}": {
            measure: series_of(one.mean(measure)) for measure in MEASURES
        }
        for one in groups
    }
    return Numbers([max(setting.rounds for setting in SETTINGS)], methods)


def series_of(mean: Mean) -> Series:
    return Series.of([mean.value], None if mean.error is None else [mean.error])


def factors_of(groups: Sequence[Group]) -> list[float]:
    return [factor for factor in FACTORS if any(one.factor == factor for one in groups)]


ROUGHER, GIVEN, SMOOTHER = 0.5, 1.0, 2.0
NOTHING = " (not counted: it warns with lengthscales as given too)"
REFUSED = " (not counted: all refuse before the first round)"
UNTESTED = "not tested"

RULE = (
    "*holds*: it is so on every task; *holds in part*: on some; *does not hold*: on none. Methods "
    "that keep safe are all but EIC. A difference of regrets counts at 95%, paired by seed, for "
    "VTL. A warning counts on tasks where there is none with lengthscales as given, beyond the "
    "error rate of `calibration()`."
)


Found = tuple[Fact, str]
"""Whether it is so on a task, or None if that does not count; and the numbers."""

Look = Callable[[Sequence[Ending], Setting, list[Ending]], Found | None]
"""From all runs, a task, and its runs with the factor that are of methods that keep safe."""


def violates_nothing(endings: Sequence[Ending], setting: Setting, some: list[Ending]) -> Found:
    violating = count(some, "violations")
    return violating == 0, f"{violating} of {len(some)} runs violate"


def costs_progress(endings: Sequence[Ending], setting: Setting, some: list[Ending]) -> Found:
    rough, given = (regrets(endings, setting, factor) for factor in (ROUGHER, GIVEN))
    words = f"regret {rough.mean():.2f} against {given.mean():.2f}"
    return Mean.of(rough - given).sign > 0, words


def breaks_safety(endings: Sequence[Ending], setting: Setting, some: list[Ending]) -> Found:
    violating = count(some, "violations")
    wrong = Mean.of(np.array([one.wrong for one in some])).value
    return violating > 0, (
        f"{violating} of {len(some)} runs violate, and {wrong:.0f} points are wrongly taken for "
        f"safe at the end"
    )


def is_refused(endings: Sequence[Ending], setting: Setting, some: list[Ending]) -> Found | None:
    """Only bounds that are intersected over time can come out empty."""
    if setting.key == PRESENT:
        return None
    rounds = [one.refused_after for one in some if one.refused_after is not None]
    return len(rounds) == len(some), f"{len(rounds)} of {len(some)} runs{median_of(rounds)}"


def is_warned(endings: Sequence[Ending], setting: Setting, some: list[Ending]) -> Found:
    """Runs that made no round do not count, nor do warnings that are there without cause."""
    made = [one for one in some if one.refused_after != 0]
    rounds = [one.warned_after for one in made if one.warned_after is not None]
    words = f"{len(rounds)} of {len(made)} runs{median_of(rounds)}"
    if not made or warns_always(endings, setting):
        return None, words + (NOTHING if made else REFUSED)
    return len(rounds) == len(made), words


def is_warned_in_time(endings: Sequence[Ending], setting: Setting, some: list[Ending]) -> Found:
    violating = [one for one in some if one.violations]
    warned = sum(one.is_warned_in_time for one in violating)
    words = f"{warned} of {len(violating)} violating runs"
    if warns_always(endings, setting):
        return None, words + NOTHING
    return warned == len(violating) if violating else None, words


def is_no_false_alarm(endings: Sequence[Ending], setting: Setting, some: list[Ending]) -> Found:
    """A right prior may be called wrong at the stated rate. These need not be right."""
    warned = count(some, "warned")
    return warned <= CALIBRATION_ERROR * len(some), f"{warned} of {len(some)} runs"


KEEPS_SAFE = "no method that keeps safe violates a constraint"
TWICE = "with twice the lengthscales"
RATE = f"{100 * CALIBRATION_ERROR:g}%"
EXPECTED: tuple[tuple[str, float, Look], ...] = (
    (f"with lengthscales as given {KEEPS_SAFE}", GIVEN, violates_nothing),
    (f"with half the lengthscales {KEEPS_SAFE}", ROUGHER, violates_nothing),
    ("half the lengthscales leave a larger regret at the end", ROUGHER, costs_progress),
    (f"{TWICE} methods that keep safe do violate constraints", SMOOTHER, breaks_safety),
    (f"{TWICE} intersected bounds exclude each other, and end every run", SMOOTHER, is_refused),
    (f"{TWICE} calibration() calls a prior overconfident in every run", SMOOTHER, is_warned),
    (f"{TWICE} it does so before the first violation", SMOOTHER, is_warned_in_time),
    (
        f"with lengthscales as given it calls a prior overconfident in at most {RATE} of runs",
        GIVEN,
        is_no_false_alarm,
    ),
)
"""What is expected, with the factor of the lengthscales whose runs are looked at."""


def judge(endings: Sequence[Ending]) -> list[Verdict]:
    """Judge every expectation by the runs that there are. Each task is a fact."""
    verdicts = []
    for claim, factor, look in EXPECTED:
        facts, words = [], []
        for setting in SETTINGS:
            found = look(endings, setting, runs_of(endings, setting, factor))
            if found is not None:
                facts += [] if found[0] is None else [found[0]]
                words.append(f"{setting.label}: {found[1]}")
        verdicts.append(Verdict(claim, conclude(facts) if facts else UNTESTED, "; ".join(words)))
    return verdicts


def runs_of(endings: Sequence[Ending], setting: Setting, factor: float) -> list[Ending]:
    place = (setting.key, factor)
    safe = [one for one in endings if (one.setting, one.factor) == place]
    return [one for one in safe if keeps_safe(one.method)]


def keeps_safe(key: str) -> bool:
    strategy = BY_KEY[key].strategy
    return strategy is None or strategy.keeps_safe


def warns_always(endings: Sequence[Ending], setting: Setting) -> bool:
    """Whether it warns of priors as they are given, more often than its error rate allows."""
    some = runs_of(endings, setting, GIVEN)
    return count(some, "warned") > CALIBRATION_ERROR * len(some)


def regrets(endings: Sequence[Ending], setting: Setting, factor: float) -> np.ndarray:
    """The regrets of VTL, which is run everywhere, by seed."""
    some = runs_of(endings, setting, factor)
    return np.array([one.regret for one in some if one.method == "vtl"])


def count(some: Sequence[Ending], measure: str) -> int:
    """How many runs have any of it."""
    return sum(MEASURES[measure](one) > 0 for one in some)


def median_of(rounds: Sequence[int]) -> str:
    return f", after {np.median(rounds):g} rounds (median)" if rounds else ""
