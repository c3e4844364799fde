"""The page, the figure and the files of the results folder."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

import numpy as np

from tellmost.numerics import AGREEING_ERRORS
from tellmost.running.progress import ProgressLine
from tellmost_reproduction.catalogue import Outcome, Request
from tellmost_reproduction.frame.drawing import make_figure
from tellmost_reproduction.frame.experiments import Done
from tellmost_reproduction.frame.folders import (
    describe_machine,
    in_markdown,
    keep_figure,
    keep_text,
    made,
    write_table,
)
from tellmost_reproduction.frame.numbers import Numbers, find_differences, read_expected
from tellmost_reproduction.frame.verdicts import Verdict
from tellmost_reproduction.safebo.misspecified.findings import (
    RULE,
    Group,
    agrees,
    factors_of,
    group,
    judge,
    numbers_of,
    table_of,
)
from tellmost_reproduction.safebo.misspecified.study import (
    FACTORS,
    FULL,
    LAST_LOOK,
    SETTINGS,
    SMOKE,
    Ending,
    Setting,
    Size,
    make_jobs,
    study,
)
from tellmost_reproduction.safebo.runs import RUNS, THREADS, Job

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Okabe and Ito's colours, which colour-blind readers can tell apart, and a mark for each
STYLES = {
    "itl": ("#0072B2", "o"),
    "vtl": ("#D55E00", "s"),
    "safeopt": ("#009E73", "^"),
    "goose": ("#9b4f96", "<"),
    "heuristic-safeopt": ("#56B4E9", "v"),
    "ise": ("#CC79A7", "D"),
    "ise-bo": ("#7a1f4d", "d"),
    "eic": ("#000000", "X"),
    "ucb": ("#E69F00", "P"),
    "uncertainty": ("#b08968", ">"),
    "random": ("#8a8a8a", "."),
}
ROWS = (
    ("violations", "violations per run"),
    ("regret", "regret at the end"),
    ("refused", "share refused to go on"),
    ("warned", "share warned by calibration()"),
)
APART = 0.065  # between the marks of two methods, where factors are 1 apart


def draw_figure(groups: Sequence[Group]) -> "Figure":
    figure = make_figure(12.0, 9.5)
    panels = figure.subplots(len(ROWS), len(SETTINGS), squeeze=False)
    for column, setting in enumerate(SETTINGS):
        panels[0, column].set_title(setting.label, fontsize=10)
        for row, (measure, label) in enumerate(ROWS):
            axes = panels[row, column]
            _draw(axes, [one for one in groups if one.setting == setting.key], measure)
            if column == 0:
                axes.set_ylabel(label)
        panels[-1, column].set_xlabel("factor of all lengthscales")
        _scale(panels[:, column].tolist(), setting)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=(len(labels) + 1) // 2, frameon=False
    )
    return figure


def _draw(axes: "Axes", groups: Sequence[Group], measure: str) -> None:
    keys = [key for key in STYLES if any(one.method == key for one in groups)]
    for number, key in enumerate(keys):
        some = [one for one in groups if one.method == key]
        means = [one.mean(measure) for one in some]
        places = np.array([FACTORS.index(one.factor) for one in some])
        color, mark = STYLES[key]
        axes.errorbar(
            places + APART * (number - (len(keys) - 1) / 2),
            [mean.value for mean in means],
            [mean.error or 0.0 for mean in means],
            fmt=mark,
            color=color,
            markersize=6,
            elinewidth=1.0,
            label=some[0].label,
        )


def _scale(panels: "Sequence[Axes]", setting: Setting) -> None:
    for axes in panels:
        axes.set_xticks(range(len(FACTORS)), [f"x {factor:g}" for factor in FACTORS])
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25, linewidth=0.6)
        for edge in (0.5, 1.5):
            axes.axvline(edge, color="#cccccc", linewidth=0.6)
    panels[0].set_yscale("symlog", linthresh=1.0)
    panels[0].set_ylim(-0.1, 1.3 * setting.rounds)
    panels[0].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    for axes in panels[2:]:
        axes.set_ylim(-0.05, 1.05)


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


PACKAGE = "tellmost_reproduction.safebo"


def reproduce(name: str, request: Request) -> Outcome:
    if request.rules:
        raise ValueError("--rule is for the Gaussian-process experiments.")
    make_figure(1.0, 1.0)  # without matplotlib it ends here, not after the work
    done = reproduce_study(request)
    found = [] if request.is_smoke else differences(done.numbers)
    return Outcome(f"{name}: {TITLE}\n\n{done.text}", tuple(found), (request.out / NAME,))


def reproduce_study(request: Request, *, runs: Path | None = None) -> Done:
    """``runs``: a folder of runs that stays; None: one that is removed when all is written."""
    with made(request.out / NAME) as folder:
        kept = folder / RUNS if runs is None else runs
        endings = run(request, kept)
        verdicts = write_results(endings, folder, SMOKE if request.is_smoke else FULL)
        if runs is None:
            rmtree(kept)
    text = "\n".join(f"{v.holds:>14}: {v.claim}\n{'':16}{v.finding}" for v in verdicts)
    seconds = sum(one.seconds for one in endings)
    return Done(NAME, TITLE, text, verdicts, numbers_of(group(endings)), seconds)


def write_results(endings: Sequence[Ending], folder: Path, size: Size) -> list[Verdict]:
    groups, verdicts = group(endings), judge(endings)
    keep_figure(draw_figure(groups), folder)
    keep_endings(endings, folder / "runs.csv")
    page = write_page(groups, verdicts, size=size)
    keep_text(page, folder / "README.md")
    return verdicts


def run(request: Request, kept: Path) -> list[Ending]:
    """``kept``: a folder of runs, which need not be made again."""
    size, workers = (SMOKE, 1) if request.is_smoke else (FULL, 2)
    most, done = len(make_jobs(SETTINGS, size)), []
    with ProgressLine(request.progress, "runs", done_before=0) as line:

        def tell(job: Job) -> None:
            done.append(job)
            line(len(done), most)

        return study(size, workers=workers, kept=kept, tell=tell)


def keep_endings(endings: Sequence[Ending], path: Path) -> None:
    """A row per run; what did not happen is left empty."""
    heading = [field.name for field in fields(Ending)]
    rows = ([_cell(value) for value in asdict(one).values()] for one in endings)
    write_table(path, heading, rows)


def _cell(value: object) -> object:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value


def differences(numbers: Numbers) -> list[str]:
    return find_differences(numbers, read_expected(PACKAGE, NAME), agrees=agrees)
