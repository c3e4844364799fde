"""Figure 2: where ITL looks first."""

from collections import Counter
from typing import TYPE_CHECKING

from sightline.experiments.gp.figures import GREY, make_figure
from sightline.experiments.gp.methods import Method
from sightline.experiments.gp.samples import SHOWN, Samples
from sightline.experiments.gp.settings import Setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SAMPLE_SPACE, TARGET_SPACE, PICK = "#dcdcdc", "#8fc1e3", "#b03a00"


def draw_samples_figure(samples: Samples) -> "Figure":
    """A row per method, a column per setting."""
    shown = [method for method in samples.methods if method.key == "itl" or method.is_own]
    figure = make_figure(12.0, 0.5 + 3.1 * len(shown))
    grid = figure.subplots(len(shown), len(SHOWN), squeeze=False)
    for row, method in zip(grid, shown, strict=True):
        for axes, name in zip(row, SHOWN, strict=True):
            _draw_setting(axes, samples.settings[name])
            _draw_picks(axes, samples, method, name)
        row[0].set_ylabel(method.label)
    figure.supxlabel(
        "grey: may be observed (S) · blue: to be known (A) · numbers: order of the picks",
        fontsize=9,
        color=GREY,
    )
    return figure


def _draw_setting(axes: "Axes", setting: Setting) -> None:
    step = setting.axis[1] - setting.axis[0]
    side = 72 * 2.6 * step / (setting.axis[-1] - setting.axis[0] + step)  # of a cell, in points
    cell = {"marker": "s", "s": (0.8 * side) ** 2, "linewidths": 0}
    axes.scatter(*setting.pool.T, color=SAMPLE_SPACE, **cell)
    axes.scatter(*setting.target_points.T, color=TARGET_SPACE, **cell)
    axes.set_aspect("equal")
    axes.set(xlim=(-3.15, 3.15), ylim=(-3.15, 3.15), xticks=(-3, 0, 3), yticks=(-3, 0, 3))
    axes.spines[:].set_visible(False)


def _draw_picks(axes: "Axes", samples: Samples, method: Method, name: str) -> None:
    setting = samples.settings[name]
    if name not in samples.picks[method.key]:
        axes.set_title(f"{setting.title}\nnot defined here", fontsize=9)
        return
    picks = samples.picks[method.key][name]
    count = Counter(picks.tolist())
    for pick, times in count.items():
        x, y = setting.pool[pick]
        axes.scatter(x, y, s=62, color=PICK, linewidths=0, zorder=3)
        text = str(picks.tolist().index(pick) + 1) + ("" if times == 1 else f"×{times}")
        axes.text(x, y, text, color="white", ha="center", va="center", fontsize=5.5, zorder=4)
    outside = samples.outside(method.key, name)
    axes.set_title(f"{setting.title}\n{100 * outside:.0f}% of picks outside A", fontsize=9)
