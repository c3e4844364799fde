"""A figure of one selection: the uncertainty after each pick, and the gain of each pick."""

from typing import TYPE_CHECKING

import numpy as np

from tellmost.report.levels import find_levels, name_uncertainty
from tellmost.running.extras import import_extra
from tellmost.selecting.selection import Selection

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, GREEN, GREY = "#1d5fb8", "#2f7d4f", "#6b6b6b"
LEVEL_STYLES = {"whole pool": (GREEN, "--"), "floor": (GREY, ":")}
MARKED = 60  # up to so many picks have a marker each; for more the line alone is clearer


def plot_selection(chosen: Selection) -> "Figure":
    """Draw the uncertainty before and after each pick above, and the gains below."""
    figure = new_figure((7.0, 5.2))
    from matplotlib.ticker import MaxNLocator

    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    _draw_uncertainty(above, chosen)
    marker = "o" if len(chosen) <= MARKED else ""
    below.plot(range(1, len(chosen) + 1), chosen.gains, color=BLUE, marker=marker, markersize=3)
    if np.all(chosen.gains >= 0):
        below.set_ylim(bottom=0.0)
    below.set_title(f"gain of each pick: {chosen.settings['unit']}", loc="left", fontsize="medium")
    below.set_ylabel("gain")
    below.set_xlabel("picks")
    below.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    tidy(above)
    tidy(below)
    return figure


def new_figure(size: tuple[float, float] | None = None) -> "Figure":
    """A figure of its own, which neither needs nor changes pyplot's current figure."""
    drawing = import_extra("matplotlib.figure", "plot", "plot() needs matplotlib")
    return drawing.Figure(figsize=size, layout="constrained")


def tidy(axes: "Axes") -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25, linewidth=0.6)


def _draw_uncertainty(axes: "Axes", chosen: Selection) -> None:
    k = len(chosen)
    marker = "o" if k <= MARKED else ""
    axes.plot(np.arange(k + 1), chosen.uncertainty, color=BLUE, marker=marker, markersize=3)
    for level in find_levels(chosen):
        color, style = LEVEL_STYLES[level.name]
        label = f"{level.name}: {level.text}"
        axes.axhline(level.value, color=color, linestyle=style, linewidth=1.3, label=label)
    before, after = chosen.uncertainty[[0, -1]]
    axes.set_title(
        f"{k:,} picks by {chosen.settings['rule']}: {before:.4g} -> {after:.4g}",
        loc="left",
        fontsize="medium",
    )
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel(name_uncertainty(chosen))
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, loc="best", fontsize="small")
