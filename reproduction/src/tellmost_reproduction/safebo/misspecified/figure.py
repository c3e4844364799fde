"""Violations, regret and warnings against the factor of the lengthscales, task by task."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tellmost.report.drawing import make_figure
from tellmost_reproduction.safebo.misspecified.studying import FACTORS, SETTINGS, Setting
from tellmost_reproduction.safebo.misspecified.summaries import Group

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
