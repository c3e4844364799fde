"""The folder of the study: page, figure and files. Every number is from the runs."""

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tellmost_reproduction.frame.drawing import make_figure, tidy
from tellmost_reproduction.frame.experiments import Done
from tellmost_reproduction.frame.folders import keep_figure, keep_text, write_table
from tellmost_reproduction.frame.numbers import AGREEING_ERRORS
from tellmost_reproduction.frame.pages import (
    NEEDS,
    UNCOMPARED,
    command_for,
    describe_machine,
    head,
    in_markdown,
    in_paragraphs,
)
from tellmost_reproduction.frame.verdicts import Verdict, tabulate_verdicts
from tellmost_reproduction.safebo.misspecified import (
    FACTORS,
    FULL,
    LAST_LOOK,
    RULE,
    SETTINGS,
    SMOKE,
    Ending,
    Group,
    Setting,
    Size,
    factors_of,
    group,
    judge,
    numbers_of,
    study,
    table_of,
)
from tellmost_reproduction.safebo.runs import THREADS, WORKERS, Tell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


def write_study(folder: Path, *, is_smoke: bool, runs: Path, tell: Tell) -> Done:
    """Run what is not among the runs, judge, and write it all down."""
    size, workers = (SMOKE, 1) if is_smoke else (FULL, WORKERS)
    endings = study(size, workers=workers, kept=runs, tell=tell)
    groups, seeds = group(endings), len({one.seed for one in endings})
    verdicts = [replace(one, configuration=TITLE, seeds=seeds) for one in judge(endings)]
    keep_figure(draw_figure(groups), folder)
    keep_endings(endings, folder / "runs.csv")
    seconds = sum(one.seconds for one in endings)
    page = write_page(groups, verdicts, size=size, seconds=seconds)
    keep_text(page, folder / "README.md")
    return Done(NAME, TITLE, "", verdicts, numbers_of(groups), seconds)


def write_page(
    groups: Sequence[Group], verdicts: Sequence[Verdict], *, size: Size, seconds: float
) -> str:
    is_smoke = size == SMOKE
    tables = [
        part
        for setting in SETTINGS
        for factor in factors_of(groups)
        for part in (
            f"### {setting.label}, lengthscales x {factor:g}",
            in_markdown(table_of(groups, setting.key, factor)),
        )
    ]
    expected = (
        f"The expected means come with the package; a run agrees if every mean is within "
        f"{AGREEING_ERRORS:g} standard errors of them: a rounding that differs changes a pick, "
        f"and all that follow."
    )
    return in_paragraphs(
        [
            *head(NAME, TITLE, is_smoke=is_smoke),
            f"**Question.** {ABOUT}",
            f"**Command.** {command_for(NAME, is_smoke=is_smoke)}. {NEEDS}",
            f"**Time.** {seconds:.0f} s of processor time for all that was asked and told, "
            f"calibration() aside: {describe_machine(THREADS)}.",
            f"**Set-up.** {_describe(size)} {ABOUT_BOUNDS}",
            "**Result.**",
            tabulate_verdicts(verdicts, "expectation"),
            f"**Verdicts.** {RULE}",
            "![Violations, regret and warnings against the factor of the lengthscales]"
            "(figure.svg)",
            "## Numbers",
            ABOUT_TABLES,
            *tables,
            f"`runs.csv`: a row per run. {UNCOMPARED if is_smoke else expected}",
        ]
    )


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


def keep_endings(endings: Sequence[Ending], path: Path) -> None:
    """Write a row per run. What did not happen is left empty."""
    heading = [field.name for field in fields(Ending)]
    rows = ([_cell(value) for value in asdict(one).values()] for one in endings)
    write_table(path, heading, rows)


def _cell(value: object) -> object:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value


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
        tidy(axes)
        for edge in (0.5, 1.5):
            axes.axvline(edge, color="#cccccc", linewidth=0.6)
    panels[0].set_yscale("symlog", linthresh=1.0)
    panels[0].set_ylim(-0.1, 1.3 * setting.rounds)
    panels[0].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    for axes in panels[2:]:
        axes.set_ylim(-0.05, 1.05)
