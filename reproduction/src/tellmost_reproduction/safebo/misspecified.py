"""Beyond the paper: what wrong lengthscales cost, and whether anything warns of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tellmost.evaluation.statistics import Mean
from tellmost.kernels import Gaussian, Kernel, Laplace, Matern, Scaled
from tellmost.numerics import CALIBRATION_ERROR
from tellmost.posterior.gp import GP
from tellmost.safebo import SafeOptimizer
from tellmost_reproduction.frame.numbers import Numbers, Series
from tellmost_reproduction.frame.pages import Cells
from tellmost_reproduction.frame.verdicts import Fact, Verdict, conclude
from tellmost_reproduction.safebo.methods import BY_KEY
from tellmost_reproduction.safebo.process import process, small_process
from tellmost_reproduction.safebo.runs import WORKERS, Job, Run, Tell, run_all
from tellmost_reproduction.safebo.tasks import Task, bumps, island

FACTORS = (0.5, 1.0, 2.0)
"""All lengthscales are multiplied by these: rougher than given, as given, smoother."""

KEYS = (
    *("itl", "vtl", "safeopt", "heuristic-safeopt", "goose", "ise", "ise-bo"),
    *("eic", "ucb", "uncertainty", "random"),
)
"""One method of each kind. The experiments have other Lipschitz constants and targets too."""

SLOW = ("itl",)
"""Methods for which VTL stands beyond one dimension: short lengthscales leave more
targets than can be conditioned on in good time. On the island 60 rounds with half of them took
79 s, with VTL 1.2."""

LAST_LOOK = 200
"""Rounds after which calibration() is not asked any more, as it takes longer with each of them."""

PRESENT = "process-present"


@dataclass(frozen=True)
class Setting:
    """A task, its methods, and for how many rounds."""

    key: str
    label: str
    make: Callable[[], Task]
    rounds: int
    keys: tuple[str, ...] = KEYS
    make_small: Callable[[], Task] | None = None  # for the smoke size


@dataclass(frozen=True)
class Size:
    """How much of it is run."""

    seeds: int
    most_rounds: int
    keys: tuple[str, ...]
    is_small: bool = False


FULL = Size(10, 1_000, KEYS)
SMOKE = Size(2, 3, ("vtl", "eic"), is_small=True)


def with_present_bounds(make: Callable[[], Task]) -> Callable[[], Task]:
    """The same task with bounds of the same width that no later round keeps."""
    return lambda: replace(make(), name=PRESENT, is_intersected=False)


QUICK = tuple(key for key in KEYS if key not in SLOW)
SETTINGS = (
    Setting("1d", "1d", bumps, 600),  # so many that some methods cross the valley
    Setting("2d", "2d island", island, 60, QUICK),
    Setting("process", "6d process", process, 60, QUICK, small_process),
    Setting(
        PRESENT,
        "6d process, present bounds",
        with_present_bounds(process),
        60,
        QUICK,
        with_present_bounds(small_process),
    ),
)


def stretch(task: Task, factor: float) -> Task:
    """Multiply all lengthscales of all priors; beta, noise and variances stay."""
    objective = stretch_prior(task.objective, factor)
    constraints = {
        name: replace(
            one, gp=objective if one.gp is task.objective else stretch_prior(one.gp, factor)
        )
        for name, one in task.constraints.items()
    }
    name = f"{task.name}-x{factor:g}"
    return replace(task, name=name, objective=objective, constraints=constraints)


def stretch_prior(gp: GP, factor: float) -> GP:
    return replace(gp, kernel=stretch_kernel(gp.kernel, factor))


def stretch_kernel(kernel: Kernel, factor: float) -> Kernel:
    if isinstance(kernel, Scaled):
        return replace(kernel, kernel=stretch_kernel(kernel.kernel, factor))
    if not isinstance(kernel, Gaussian | Laplace | Matern):
        raise TypeError(
            f"a kernel to be stretched must have a lengthscale: Gaussian, Laplace, Matern or one "
            f"of them Scaled; got {kernel!r}."
        )
    return replace(kernel, lengthscale=factor * np.asarray(kernel.lengthscale))


@dataclass(frozen=True)
class Ending:
    """What a run under a stretched prior came to."""

    setting: str
    factor: float
    method: str
    seed: int
    violations: int
    first_violation: int | None  # the round, from 1
    regret: float  # of the last recommendation
    is_best_unsafe: bool  # whether it violates a constraint
    safe: int  # points taken for safe at the end
    wrong: int  # those of them that are not
    refused_after: int | None  # rounds, where intervals came out empty or nothing was safe
    warned_after: int | None  # rounds, until calibration() called a prior overconfident
    seconds: float = 0.0  # of the processor, for all asks and tells

    @property
    def is_warned_in_time(self) -> bool:
        """True if it was warned before the first violation was asked for."""
        if self.first_violation is None or self.warned_after is None:
            return False
        return self.warned_after < self.first_violation


def looks(rounds: int) -> tuple[int, ...]:
    """Rounds after which calibration() is asked: often at first, where most is decided."""
    last = min(rounds, LAST_LOOK)
    return tuple(sorted({*range(min(20, last) + 1), *range(20, last + 1, 5)}))


def judge_priors(optimizer: SafeOptimizer) -> str:
    """The first word of each verdict of ``calibration()``."""
    found = optimizer.calibration().outputs
    return " ".join(one.verdict.split(":")[0].split()[0] for one in found.values())


def make_jobs(settings: Sequence[Setting], size: Size) -> list[tuple[Setting, float, Job]]:
    """All runs, in the order of settings, factors, methods and seeds."""
    jobs = []
    for setting in settings:
        rounds = min(setting.rounds, size.most_rounds)
        small = setting.make_small if size.is_small else None
        task = setting.make() if small is None else small()
        for factor in FACTORS:
            stretched = stretch(task, factor)
            jobs += [
                (
                    setting,
                    factor,
                    Job(stretched, BY_KEY[key], seed, rounds, judge_priors, looks(rounds)),
                )
                for key in setting.keys
                if key in size.keys
                for seed in range(size.seeds)
            ]
    return jobs


def study(
    size: Size,
    *,
    workers: int = WORKERS,
    kept: Path | None = None,
    tell: Tell = lambda done, most: None,
) -> list[Ending]:
    jobs = make_jobs(SETTINGS, size)
    runs = run_all([job for *_, job in jobs], workers=workers, kept=kept, tell=tell)
    return [
        ending_of(setting.key, factor, job, run)
        for (setting, factor, job), run in zip(jobs, runs, strict=True)
    ]


def ending_of(setting: str, factor: float, job: Job, run: Run) -> Ending:
    violations = np.flatnonzero(run.violates)
    warned = [
        at
        for at, words in zip(job.watched_at, run.watched, strict=False)
        if "overconfident" in words
    ]
    return Ending(
        setting=setting,
        factor=factor,
        method=run.method,
        seed=run.seed,
        violations=len(violations),
        first_violation=int(violations[0]) + 1 if len(violations) else None,
        regret=float(run.regret[-1]),
        is_best_unsafe=bool(run.is_best_unsafe[-1]),
        safe=int(run.safe[-1]),
        wrong=int(run.wrong[-1]),
        refused_after=len(run.picks) if run.refusal else None,
        warned_after=warned[0] if warned else None,
        seconds=float(np.nansum(run.seconds)),
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
    """True if it warns of priors as they are given, more often than its error rate allows."""
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
