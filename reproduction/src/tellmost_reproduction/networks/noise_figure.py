"""The table of noise as a figure: accuracy at the end against rho, ours and the paper's."""

from typing import TYPE_CHECKING

import numpy as np

from tellmost.report.drawing import label_ends, make_figure
from tellmost_reproduction.networks.curves import Curves
from tellmost_reproduction.networks.figures import STYLES
from tellmost_reproduction.networks.noise_claims import ROWS, cells, row_label
from tellmost_reproduction.networks.problems import CIFAR
from tellmost_reproduction.networks.settings import RHOS
from tellmost_reproduction.networks.tables import PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Line = tuple[str, str, str, list[float], list[float]]
"""Label, colour, dashes, means, standard errors."""

MARGIN = 1.5  # of the noise, beyond the first and the last, so that no bar is cut


def draw_noise(curves: Curves) -> "Figure":
    figure = make_figure(10.0, 4.6)
    left, right = figure.subplots(1, 2, sharey=True)
    draw_lines(left, our_lines(curves))
    left.set_title("Accuracy after 100 rounds, ours (Lite0)", loc="left", fontsize=10)
    draw_lines(right, papers_lines())
    right.set_title("The paper's (B0)", loc="left", fontsize=10)
    for axes in (left, right):
        label_ends(axes)
    return figure


def rows() -> list[tuple[str, str, bool]]:
    """Rule, embedding, and whether batches are conditional."""
    return [(*row, is_conditional) for is_conditional in (True, False) for row in ROWS]


def style_of(key: str, kind: str, is_conditional: bool) -> tuple[str, str]:
    """Rules by colour, loss gradients paler; the b best are dashed."""
    paler = {"itl": "#6fb3dd", "ctl": "#f0c760"}
    return STYLES[key][0] if kind == "last" else paler[key], "-" if is_conditional else "--"


def our_lines(curves: Curves) -> list[Line]:
    made = []
    for key, kind, is_conditional in rows():
        names = cells(key, kind, is_conditional=is_conditional)
        if all(curves.of_name(name) for name in names):
            means = [curves.last("accuracy", name) for name in names]
            label = row_label(key, kind, is_conditional=is_conditional)
            values = [mean.value for mean in means], [mean.error or 0.0 for mean in means]
            made.append((label, *style_of(key, kind, is_conditional), *values))
    if curves.of_name(f"{CIFAR}/random"):
        random = curves.last("accuracy", f"{CIFAR}/random")
        flat = [random.value] * len(RHOS), [random.error or 0.0] * len(RHOS)
        made.append(("Random", STYLES["random"][0], "-", *flat))
    return made


def papers_lines() -> list[Line]:
    named = [(row_label(a, b, is_conditional=c), *style_of(a, b, c)) for a, b, c in rows()]
    named.append(("Random", STYLES["random"][0], "-"))
    made = []
    for label, color, dashes in named:
        means, errors = (np.array(PAPER[label]) / 100).T.tolist()
        made.append((label, color, dashes, means, errors))
    return made


def draw_lines(axes: "Axes", lines: list[Line]) -> None:
    for label, color, dashes, means, errors in lines:
        axes.errorbar(RHOS, means, yerr=errors, fmt="none", ecolor=color, capsize=2, linewidth=1)
        axes.plot(RHOS, means, dashes, color=color, linewidth=1.8, label=label)
    axes.set_xscale("log")
    axes.set_xticks(RHOS, [f"{rho:g}" for rho in RHOS])
    axes.set_xlim(RHOS[0] / MARGIN, RHOS[-1] * MARGIN)
    axes.set_xlabel("rho, noise standard deviation")
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25, linewidth=0.6)
