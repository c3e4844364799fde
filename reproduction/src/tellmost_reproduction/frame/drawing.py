"""What figures share: curves with bands, levels, and names beside the ends of the curves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


GREY = "#555555"
LABEL_GAP = 0.058  # of an axis, between two labels


Style = tuple[str, str, float]
"""Colour, dashes, width."""


def make_figure(width: float, height: float) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("the figures need matplotlib; pip install 'tellmost[plot]'.") from error
    return Figure(figsize=(width, height), layout="constrained")


def draw_curve(
    axes: "Axes",
    x: Sequence[float] | np.ndarray,
    mean: np.ndarray,
    error: np.ndarray | None,
    style: Style,
    label: str,
    *,
    alpha: float = 0.25,
) -> None:
    """Draw a mean with a band of its standard error."""
    color, dashes, width = style
    axes.plot(x, mean, dashes, color=color, linewidth=width, label=label)
    if error is not None:
        axes.fill_between(x, mean - error, mean + error, color=color, alpha=alpha, linewidth=0)


def tidy(axes: "Axes") -> None:
    """Leave out what frames the panel, and draw a faint grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25, linewidth=0.6)


def draw_level(axes: "Axes", level: float, text: str, *, at: float, below: bool) -> None:
    """Draw a dashed level with words beside it, at a share of the axis."""
    axes.axhline(level, color=GREY, linewidth=1.0, linestyle=(0, (6, 3)))
    axes.annotate(
        text,
        (at, level),
        xycoords=axes.get_yaxis_transform(),
        xytext=(0, -10 if below else 3),
        textcoords="offset points",
        fontsize=8,
        color=GREY,
    )


def label_ends(axes: "Axes") -> None:
    """Write names beside the ends of the curves, pushed apart, each with a line to its curve."""
    lines = [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]
    axes.autoscale_view()
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = [float(to_axes.transform(np.asarray(line.get_xydata())[-1])[1]) for line in lines]
    for line, end, place in zip(lines, ends, push_apart(ends, LABEL_GAP), strict=True):
        axes.annotate(
            str(line.get_label()),
            (1.0, end),
            xycoords="axes fraction",
            xytext=(1.05, place),
            textcoords="axes fraction",
            color=line.get_color(),
            fontsize=9,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": line.get_color(),
                "linewidth": 0.6,
                "relpos": (0.0, 0.5),
                "shrinkA": 2.0,
                "shrinkB": 1.0,
            },
        )


def push_apart(places: list[float], gap: float) -> list[float]:
    """The nearest places between 0 and 1 that keep their order and this distance."""
    order = np.argsort(places, kind="stable")
    ladder = gap * np.arange(len(places))
    apart = np.empty(len(places))
    pooled = _nondecreasing(np.array(places)[order] - ladder)
    apart[order] = pooled.clip(0.0, max(1.0 - ladder[-1], 0.0)) + ladder
    return apart.tolist()


def _nondecreasing(values: np.ndarray) -> np.ndarray:
    """Least squares under order: neighbours that are out of order share their mean."""
    blocks: list[list[float]] = []
    for value in values:
        blocks.append([float(value)])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            last = blocks.pop()
            blocks[-1] += last
    return np.concatenate([np.full(len(block), np.mean(block)) for block in blocks])
