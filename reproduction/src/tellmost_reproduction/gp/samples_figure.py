"""Figure 2: where ITL looks first."""

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from tellmost.report.drawing import make_figure
from tellmost_reproduction.gp.figures import GREY
from tellmost_reproduction.gp.methods import Method
from tellmost_reproduction.gp.samples import SHOWN, Samples
from tellmost_reproduction.gp.settings import Setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = ("#ffffff", "#e3e3e3", "#c6dff0", "#8fc1e3")  # neither, S, A, both
ONCE, AGAIN = "#8c2d04", "#000000"
SIDE = 4.3  # inches of a panel


def draw_samples_figure(samples: Samples) -> "Figure":
    """Two by two panels for each method: a row per kernel, a column per place of the targets."""
    shown = [method for method in samples.methods if method.key == "itl" or method.is_own]
    figure = make_figure(2 * SIDE, (2 * SIDE + 0.4) * len(shown))
    grid = figure.subplots(2 * len(shown), 2, squeeze=False)
    for number, method in enumerate(shown):
        panels = grid[2 * number : 2 * number + 2].flat
        for axes, name in zip(panels, SHOWN, strict=True):
            _draw_setting(axes, samples.settings[name])
            _draw_picks(axes, samples, method, name)
    figure.supxlabel(
        "grey: may be observed (S) · light blue: to be known (A) · blue: both · numbers: order of "
        "the picks, black if picked again",
        fontsize=9,
        color=GREY,
    )
    return figure


def _draw_setting(axes: "Axes", setting: Setting) -> None:
    from matplotlib.colors import ListedColormap

    kind = np.zeros(len(setting.domain))
    kind[setting.samples] += 1
    kind[setting.targets] += 2
    half = (setting.axis[1] - setting.axis[0]) / 2
    low, high = setting.axis[0] - half, setting.axis[-1] + half
    side = len(setting.axis)
    axes.imshow(
        kind.reshape(side, side).T,
        origin="lower",
        extent=(low, high, low, high),
        cmap=ListedColormap(list(COLORS)),
        vmin=0,
        vmax=3,
    )
    axes.set(xticks=(-3, 0, 3), yticks=(-3, 0, 3))
    axes.spines[:].set_visible(False)


def _draw_picks(axes: "Axes", samples: Samples, method: Method, name: str) -> None:
    setting = samples.settings[name]
    if name not in samples.picks[method.key]:
        axes.set_title(f"{method.label}: {setting.title}\nnot defined here", fontsize=9)
        return
    picks = samples.picks[method.key][name].tolist()
    times = Counter(picks)
    for pick in times:
        x, y = setting.pool[pick]
        axes.scatter(x, y, s=56, color=ONCE if times[pick] == 1 else AGAIN, linewidths=0)
        number = str(picks.index(pick) + 1)
        axes.text(x, y, number, color="white", ha="center", va="center_baseline", fontsize=5.5)
    outside = 100 * samples.outside(method.key, name)
    axes.set_title(
        f"{method.label}: {setting.title}\n{outside:.0f}% of {len(picks)} picks outside A",
        fontsize=9,
    )
