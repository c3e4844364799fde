"""The page of the results folder. Every number is from the runs."""

from collections.abc import Sequence

from tellmost.numerics import AGREEING_ERRORS
from tellmost_reproduction.machine import describe_machine
from tellmost_reproduction.safebo.misspecified.findings import RULE
from tellmost_reproduction.safebo.misspecified.studying import (
    FULL,
    LAST_LOOK,
    SETTINGS,
    SMOKE,
    Setting,
    Size,
)
from tellmost_reproduction.safebo.misspecified.summaries import Group, factors_of, table_of
from tellmost_reproduction.safebo.pooling import THREADS
from tellmost_reproduction.tables import in_markdown
from tellmost_reproduction.verdicts import Verdict

NAME = "safebo-misspecified"
TITLE = "lengthscales wrong by a factor of two"
ABOUT = (
    "Beyond the paper. Its guarantees hold if the priors are right; here all lengthscales of all "
    "priors are multiplied by 0.5 (rougher than given), 1 and 2 (smoother than given), while "
    "beta, noise and variances stay. What does that cost, and does anything warn of it?"
)
ABOUT_BOUNDS = (
    "Under a beta, bounds are intersected over time; where they exclude each other, the model is "
    "wrong and `ask` refuses (`MiscalibratedModel`). *Present bounds* are those of now alone, "
    "with a confidence per query that has the same beta: there nothing refuses, and "
    "`calibration()` is the only warning."
)
ABOUT_TABLES = (
    "Means over the seeds, ± one standard error. *Regret*: of the recommendation against the safe "
    "optimum, negative where an unsafe point is recommended that is better. A run that refuses "
    "keeps its last recommendation. *Warned*: `calibration()` called a prior of any output "
    "overconfident; it is asked after each of the first 20 rounds, then after every fifth until "
    f"round {LAST_LOOK}. "
    "*Warned before a violation*: of the runs that violated."
)


def write_page(groups: Sequence[Group], verdicts: Sequence[Verdict], *, size: Size) -> str:
    small = ["**Smoke size: this says that the code runs, and nothing else.**"]
    smoke = " --smoke" if size == SMOKE else ""
    parts = [
        f"# {NAME}: {TITLE}",
        *(small if size == SMOKE else []),
        f"**Question.** {ABOUT}",
        f"**Command.** `tellmost reproduce {NAME}{smoke}`. Needs "
        f'`pip install "tellmost[cli,plot]"`.',
        f"**Time.** {_seconds(groups):.0f} s of processor time for all that was asked and told, "
        f"calibration() aside: {describe_machine(THREADS)}.",
        f"**Set-up.** {_describe(size)} {ABOUT_BOUNDS}",
        "**Result.**",
        tabulate(verdicts),
        f"**Verdicts.** {RULE}",
        "![Violations, regret and warnings against the factor of the lengthscales](figure.svg)",
        "## Numbers",
        ABOUT_TABLES,
        *(part for setting in SETTINGS for part in _tables(groups, setting)),
        _files(size),
    ]
    return "\n\n".join(parts) + "\n"


def _seconds(groups: Sequence[Group]) -> float:
    return sum(one.seconds for some in groups for one in some.endings)


def tabulate(verdicts: Sequence[Verdict]) -> str:
    rows = [[v.claim, f"**{v.holds}**", v.finding] for v in verdicts]
    return in_markdown([["expectation", "verdict", "numbers"], *rows])


def _describe(size: Size) -> str:
    rounds = ", ".join(f"{s.label} {min(s.rounds, size.most_rounds)}" for s in SETTINGS)
    return (
        f"Rounds: {rounds}; {size.seeds} seeds. ITL is run in one dimension alone; elsewhere VTL "
        f"stands for it, as short lengthscales leave ITL over a second of work for each round. "
        f"SafeOpt and GoOSE have true Lipschitz constants; their safe sets rest on them and on "
        f"the bounds, and on the 6d process no constant leads anywhere. On the 2d island the "
        f"prior variance is 1 and the objective goes up to 18, so a prior is called "
        f"overconfident whatever the lengthscales."
    )


def _tables(groups: Sequence[Group], setting: Setting) -> list[str]:
    parts = []
    for factor in factors_of(groups):
        parts.append(f"### {setting.label}, lengthscales x {factor:g}")
        parts.append(in_markdown(table_of(groups, setting.key, factor)))
    return parts


def _files(size: Size) -> str:
    kept = "`runs.csv`: a row per run."
    if size != FULL:
        return f"{kept} Nothing is compared with the expected numbers at this size."
    return (
        f"{kept} The expected means come with the package; a run agrees if every mean is within "
        f"{AGREEING_ERRORS:g} standard errors of them: a rounding that differs changes a pick, "
        f"and all that follow."
    )
