"""Which tasks are run with which lengthscales by which methods, and what each run came to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from tellmost.kernels import Gaussian, Kernel, Laplace, Matern, Scaled
from tellmost.posterior.gp import GP
from tellmost.safebo import SafeOptimizer
from tellmost_reproduction.safebo.methods import BY_KEY, Method
from tellmost_reproduction.safebo.process import Process, process, small_process
from tellmost_reproduction.safebo.runs import WORKERS, Job, Run, Tell, run_all
from tellmost_reproduction.safebo.tasks import Task, bumps, island


def stretch(challenge: Task | Process, factor: float) -> Task | Process:
    """With all lengthscales of all priors times a factor; beta, noise and variances stay."""
    name = f"{challenge.name}-x{factor:g}"
    if isinstance(challenge, Task):
        return replace(challenge, name=name, prior=stretch_prior(challenge.prior, factor))
    priors = {output: stretch_prior(gp, factor) for output, gp in challenge.priors.items()}
    return replace(challenge, name=name, priors=priors)


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


FACTORS = (0.5, 1.0, 2.0)
"""Of all lengthscales: rougher than given, as given, smoother than given."""

KEYS = (
    *("itl", "vtl", "safeopt", "heuristic-safeopt", "goose", "ise", "ise-bo"),
    *("eic", "ucb", "uncertainty", "random"),
)
"""One of each kind: other Lipschitz constants and Thompson targets are left to the experiments."""

SLOW = ("itl",)
"""Beyond one dimension VTL stands for it: short lengthscales leave more targets than can be
conditioned on in good time. On the island 60 rounds with half of them took 79 s, with VTL 1.2."""

LAST_LOOK = 200
"""Rounds after which calibration() is not asked any more, as it takes longer with each of them."""

PRESENT = "process-present"


@dataclass(frozen=True)
class Setting:
    """A task, and for how many rounds."""

    key: str
    label: str
    make: Callable[[], Task | Process]
    rounds: int
    keys: tuple[str, ...] = KEYS
    make_small: Callable[[], Task | Process] | None = None  # for the smoke size


@dataclass(frozen=True)
class Size:
    """How much of it is run."""

    seeds: int
    most_rounds: int
    keys: tuple[str, ...]
    is_small: bool = False


FULL = Size(10, 1_000, KEYS)
SMOKE = Size(2, 3, ("vtl", "eic"), is_small=True)


def present_process() -> Process:
    """As ``process``, with bounds of the same width that no later round keeps."""
    return replace(process(), name=PRESENT, is_intersected=False)


def small_present_process() -> Process:
    return replace(small_process(), name=PRESENT, is_intersected=False)


QUICK = tuple(key for key in KEYS if key not in SLOW)
SETTINGS = (
    Setting("1d", "1d", bumps, 600),  # so many that some methods cross the valley
    Setting("2d", "2d island", island, 60, QUICK),
    Setting("process", "6d process", process, 60, QUICK, small_process),
    Setting(
        PRESENT,
        "6d process, present bounds",
        present_process,
        60,
        QUICK,
        small_present_process,
    ),
)


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
        """Before the first violation was asked for."""
        if self.first_violation is None or self.warned_after is None:
            return False
        return self.warned_after < self.first_violation


def looks(rounds: int) -> tuple[int, ...]:
    """After how many rounds calibration() is asked: often at first, where most is decided."""
    last = min(rounds, LAST_LOOK)
    return tuple(sorted({*range(min(20, last) + 1), *range(20, last + 1, 5)}))


def judge_priors(optimizer: SafeOptimizer) -> str:
    """The first word of each verdict of ``calibration()``."""
    found = optimizer.calibration().outputs
    return " ".join(one.verdict.split(":")[0].split()[0] for one in found.values())


def make_jobs(settings: Sequence[Setting], size: Size) -> list[tuple[Setting, float, Job]]:
    jobs = []
    for setting in settings:
        rounds = min(setting.rounds, size.most_rounds)
        methods = [BY_KEY[key] for key in setting.keys if key in size.keys]
        small = setting.make_small if size.is_small else None
        task = setting.make() if small is None else small()
        for factor in FACTORS:
            job = partial(_job, stretch(task, factor), rounds=rounds)
            jobs += [
                (setting, factor, job(method, seed))
                for method in methods
                for seed in range(size.seeds)
            ]
    return jobs


def _job(challenge: Task | Process, method: Method, seed: int, *, rounds: int) -> Job:
    return Job(challenge, method, seed, rounds, watch=judge_priors, watched_at=looks(rounds))


def study(
    size: Size,
    *,
    workers: int = WORKERS,
    kept: Path | None = None,
    tell: Tell = lambda done, most: None,
) -> list[Ending]:
    """All runs, in the order of settings, factors, methods and seeds."""
    jobs = make_jobs(SETTINGS, size)
    runs = run_all([job for *_, job in jobs], workers=workers, kept=kept, tell=tell)
    return [
        ending_of(setting.key, factor, job, run)
        for (setting, factor, job), run in zip(jobs, runs, strict=True)
    ]


def ending_of(setting: str, factor: float, job: Job, run: Run) -> Ending:
    violations = np.flatnonzero(run.violates)
    warned = [at for at, words in zip(job.watched_at, run.watched, strict=False) if _warns(words)]
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


def _warns(words: str) -> bool:
    return "overconfident" in words
