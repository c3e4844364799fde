"""Wrong lengthscales: which tasks are run by which methods, and what each run came to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tellmost.kernels import Gaussian, Kernel, Laplace, Matern, Scaled
from tellmost.posterior.gp import GP
from tellmost.safebo import SafeOptimizer
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
        """Whether it was warned before the first violation was asked for."""
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
