"""What is to be expected of wrong lengthscales, and whether it is so."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tellmost.evaluation.statistics import Mean
from tellmost.numerics import CALIBRATION_ERROR
from tellmost_reproduction.frame.numbers import Numbers, Series
from tellmost_reproduction.frame.pages import Cells
from tellmost_reproduction.frame.verdicts import Verdict, conclude
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
NOTHING = "not counted: it warns with lengthscales as given too"
REFUSED = "not counted: all refuse before the first round"

RULE = (
    "*holds*: it is so on every task; *holds in part*: on some; *does not hold*: on none. Methods "
    "that keep safe are all but EIC. A difference of regrets counts at 95%, paired by seed, for "
    "VTL. A warning counts on tasks where there is none with lengthscales as given, beyond the "
    "error rate of `calibration()`."
)


def judge(endings: Sequence[Ending]) -> list[Verdict]:
    """Every expectation, by the runs that there are."""
    return [
        never_violates(endings, GIVEN, "with lengthscales as given no method that keeps safe"),
        never_violates(endings, ROUGHER, "with half the lengthscales no method that keeps safe"),
        costs_progress(endings),
        breaks_safety(endings),
        is_refused(endings),
        is_warned(endings),
        is_warned_in_time(endings),
        is_no_false_alarm(endings),
    ]


def never_violates(endings: Sequence[Ending], factor: float, who: str) -> Verdict:
    facts, words = [], []
    for setting, some in _by_setting(endings, factor):
        violating = [one for one in some if one.violations]
        facts.append(not violating)
        words.append(f"{setting.label}: {len(violating)} of {len(some)} runs violate")
    return Verdict(f"{who} violates a constraint", conclude(facts), "; ".join(words))


def costs_progress(endings: Sequence[Ending]) -> Verdict:
    """By VTL, which is run everywhere."""
    facts, words = [], []
    for setting in SETTINGS:
        rough, given = (_regrets(endings, setting, factor) for factor in (ROUGHER, GIVEN))
        facts.append(Mean.of(rough - given).sign > 0)
        words.append(f"{setting.label}: regret {rough.mean():.2f} against {given.mean():.2f}")
    claim = "half the lengthscales leave a larger regret at the end"
    return Verdict(claim, conclude(facts), "; ".join(words))


def breaks_safety(endings: Sequence[Ending]) -> Verdict:
    facts, words = [], []
    for setting, some in _by_setting(endings, SMOOTHER):
        violating = [one for one in some if one.violations]
        wrong = Mean.of(np.array([one.wrong for one in some])).value
        facts.append(bool(violating))
        words.append(
            f"{setting.label}: {len(violating)} of {len(some)} runs violate, and {wrong:.0f} "
            f"points are wrongly taken for safe at the end"
        )
    claim = "with twice the lengthscales methods that keep safe do violate constraints"
    return Verdict(claim, conclude(facts), "; ".join(words))


def is_refused(endings: Sequence[Ending]) -> Verdict:
    """Where bounds are intersected over time: elsewhere nothing can come out empty."""
    facts, words = [], []
    for setting, some in _by_setting(endings, SMOOTHER):
        if setting.key == PRESENT:
            continue
        refused = [one.refused_after for one in some if one.refused_after is not None]
        after = f", after {np.median(refused):g} rounds (median)" if refused else ""
        facts.append(len(refused) == len(some))
        words.append(f"{setting.label}: {len(refused)} of {len(some)} runs{after}")
    claim = "with twice the lengthscales intersected bounds exclude each other, and end every run"
    return Verdict(claim, conclude(facts), "; ".join(words))


def is_warned(endings: Sequence[Ending]) -> Verdict:
    """Of the runs that made a round; a warning that is there without cause says nothing."""
    facts, words = [], []
    for setting, some in _by_setting(endings, SMOOTHER):
        made = [one for one in some if one.refused_after != 0]
        warned = [one.warned_after for one in made if one.warned_after is not None]
        after = f", after {np.median(warned):g} rounds (median)" if warned else ""
        is_telling = bool(made) and not warns_always(endings, setting)
        if is_telling:
            facts.append(len(warned) == len(made))
        why = "" if is_telling else f" ({NOTHING if made else REFUSED})"
        words.append(f"{setting.label}: {len(warned)} of {len(made)} runs{after}{why}")
    claim = "with twice the lengthscales calibration() calls a prior overconfident in every run"
    return Verdict(claim, conclude(facts) if facts else "not tested", "; ".join(words))


def warns_always(endings: Sequence[Ending], setting: Setting) -> bool:
    """Whether it warns of priors as they are given, more often than its error rate allows."""
    some = next(some for one, some in _by_setting(endings, GIVEN) if one == setting)
    return sum(one.warned_after is not None for one in some) > CALIBRATION_ERROR * len(some)


def is_warned_in_time(endings: Sequence[Ending]) -> Verdict:
    facts, words = [], []
    for setting, some in _by_setting(endings, SMOOTHER):
        violating = [one for one in some if one.violations]
        warned = sum(one.is_warned_in_time for one in violating)
        is_telling = not warns_always(endings, setting)
        if violating and is_telling:
            facts.append(warned == len(violating))
        why = "" if is_telling else f" ({NOTHING})"
        words.append(f"{setting.label}: {warned} of {len(violating)} violating runs{why}")
    claim = "with twice the lengthscales it does so before the first violation"
    return Verdict(claim, conclude(facts) if facts else "not tested", "; ".join(words))


def is_no_false_alarm(endings: Sequence[Ending]) -> Verdict:
    """A right prior is called wrong at the stated rate at most; these need not be right."""
    facts, words = [], []
    for setting, some in _by_setting(endings, GIVEN):
        warned = sum(one.warned_after is not None for one in some)
        facts.append(warned <= CALIBRATION_ERROR * len(some))
        words.append(f"{setting.label}: {warned} of {len(some)} runs")
    rate = f"{100 * CALIBRATION_ERROR:g}%"
    claim = f"with lengthscales as given it calls a prior overconfident in at most {rate} of runs"
    return Verdict(claim, conclude(facts), "; ".join(words))


def _by_setting(endings: Sequence[Ending], factor: float) -> list[tuple[Setting, list[Ending]]]:
    """Runs of methods that keep safe."""
    safe = [one for one in endings if one.factor == factor and keeps_safe(one.method)]
    return [(s, [one for one in safe if one.setting == s.key]) for s in SETTINGS]


def keeps_safe(key: str) -> bool:
    strategy = BY_KEY[key].strategy
    return strategy is None or strategy.keeps_safe


def _regrets(endings: Sequence[Ending], setting: Setting, factor: float) -> np.ndarray:
    found: list[Group] = group(endings)
    wanted = (setting.key, factor, "vtl")
    one = next(g for g in found if (g.setting, g.factor, g.method) == wanted)
    return one.values("regret")
