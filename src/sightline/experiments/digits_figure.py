"""The figure of the digits experiment: two curves per method, and the first images each picked."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sightline.shapes import Bool, Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

NAMES = {"vtl": "VTL", "top-k": "nearest neighbours", "random": "random"}
COLORS = {"vtl": "#1d5fb8", "top-k": "#c8641b", "random": "#7a7a7a"}
MARKERS = {"vtl": "o", "top-k": "s", "random": "^"}
THUMBNAILS = 20

Curves = tuple[Float[np.ndarray, "methods budgets"], Float[np.ndarray, "methods budgets"]]
Shown = Mapping[str, tuple[Float[np.ndarray, "k d"], Bool[np.ndarray, " k"]]]


def draw_figure(budgets: Sequence[int], accuracy: Curves, share: Curves, shown: Shown) -> "Figure":
    """``accuracy`` and ``share`` are means and standard errors; ``shown`` has a row per method."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("the figure needs matplotlib; pip install 'sightline[demo]'.") from error
    figure = Figure(figsize=(9.0, 5.6), layout="constrained")
    panels = figure.subfigures(2, 1, height_ratios=(3, 2), squeeze=False)
    left, right = panels[0, 0].subplots(1, 2)
    _draw_curves(left, budgets, accuracy, shown)
    left.set_title("Accuracy on held-out 3, 6, 9", loc="left", fontsize="medium")
    left.legend(frameon=False, loc="lower right")
    _draw_curves(right, budgets, share, shown)
    right.set_title("Share of 3, 6, 9 among the picks", loc="left", fontsize="medium")
    _draw_thumbnails(panels[1, 0], shown)
    return figure


def _draw_curves(axes: "Axes", budgets: Sequence[int], curves: Curves, shown: Shown) -> None:
    for method, mean, error in zip(shown, *curves, strict=True):
        axes.errorbar(
            budgets,
            mean,
            yerr=error,
            label=NAMES[method],
            color=COLORS[method],
            marker=MARKERS[method],
            markersize=5,
            capsize=3,
        )
    axes.set_xlabel("labels bought")
    axes.set_xticks(budgets)
    axes.set_ylim(0.0, 1.03)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25, linewidth=0.6)


def _draw_thumbnails(panel: "SubFigure", shown: Shown) -> None:
    count = min(THUMBNAILS, *(len(images) for images, _ in shown.values()))
    grid = panel.subplots(len(shown), count)
    panel.suptitle(
        f"The first {count} picks of the first seed; frames mark 3, 6 and 9",
        x=0.01,
        ha="left",
        fontsize="medium",
    )
    for row, (method, (images, is_right)) in zip(grid, shown.items(), strict=True):
        for axes, image, right in zip(row, images, is_right, strict=False):
            axes.imshow(image.reshape(8, 8), cmap="gray_r")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set(color=COLORS[method] if right else "none", linewidth=2)
        row[0].set_ylabel(
            NAMES[method].replace(" ", "\n"),
            rotation=0,
            ha="right",
            va="center",
            fontsize="small",
        )
