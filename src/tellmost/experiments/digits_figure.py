"""The figure of the digits experiment: two curves per method, and the first images each picked."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tellmost.experiments.scores import COLORS, NAMES, Scores, draw_curves
from tellmost.shapes import Bool, Float

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

THUMBNAILS = 20

Shown = Mapping[str, tuple[Float[np.ndarray, "k d"], Bool[np.ndarray, " k"]]]


def draw_figure(budgets: Sequence[int], accuracy: Scores, share: Scores, shown: Shown) -> "Figure":
    """``shown`` has a row per method."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("the figure needs matplotlib; pip install 'tellmost[demo]'.") from error
    figure = Figure(figsize=(9.0, 5.6), layout="constrained")
    panels = figure.subfigures(2, 1, height_ratios=(3, 2), squeeze=False)
    left, right = panels[0, 0].subplots(1, 2)
    draw_curves(left, list(shown), accuracy, budgets)
    left.set_title("Accuracy on held-out 3, 6, 9", loc="left", fontsize="medium")
    left.legend(frameon=False, loc="lower right")
    draw_curves(right, list(shown), share, budgets)
    right.set_title("Share of 3, 6, 9 among the picks", loc="left", fontsize="medium")
    _draw_thumbnails(panels[1, 0], shown)
    return figure


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
