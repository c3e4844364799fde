"""Two parameters: the sets, and the mean of every output."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tellmost.report.safe_marks import (
    BLACK,
    GREY,
    ORANGE,
    STATUS,
    VERMILLION,
    add_legend,
    edge_of,
    statuses_of,
    title_of,
)
from tellmost.safebo.snapshots import Curve, Snapshot
from tellmost.shapes import Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STATES = ("not safe", "may be safe", "safe")
STATE_COLORS = ("#e6e6e6", "#bfe0f5", "#4aa3d8")  # lightness alone tells them apart
NUMBERED = 30  # up to so many trials carry their number; beyond, their colour says the order
ROOM = 0.06  # share of the extent that a number takes


@dataclass(frozen=True, eq=False)
class Grid:
    """Points that fill a rectangle, so that a mesh and contours can be drawn."""

    x: Float[np.ndarray, " a"]
    y: Float[np.ndarray, " b"]
    rows: np.ndarray  # (b, a): which point is at each place

    @classmethod
    def of(cls, points: Float[np.ndarray, "n 2"]) -> "Grid | None":
        x, column = np.unique(points[:, 0], return_inverse=True)
        y, line = np.unique(points[:, 1], return_inverse=True)
        rows = np.full((len(y), len(x)), -1)
        rows[line, column] = np.arange(len(points))
        is_whole = len(points) == rows.size and rows.min() >= 0 and min(rows.shape) > 1
        return cls(x, y, rows) if is_whole else None


def draw_map(figure: "Figure", snapshot: Snapshot) -> None:
    """The sets with all trials, and a map of each output."""
    count = 1 + len(snapshot.curves)
    columns = 2 if count in (2, 4) else 3
    lines = -(-count // columns)
    figure.set_size_inches(4.3 * columns, 0.9 + 3.7 * lines)
    panels = np.ravel(figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False))
    grid = Grid.of(snapshot.points)
    _draw_sets(figure, panels[0], snapshot, grid)
    for axes, curve in zip(panels[1:], snapshot.curves, strict=False):
        _draw_values(figure, axes, snapshot, curve, grid)
    for axes in panels[count:]:
        axes.remove()
    for axes in panels[:count]:
        axes.set_xlabel(snapshot.names[0])
        axes.set_ylabel(snapshot.names[1])
        axes.tick_params(labelbottom=True, labelleft=True)
    figure.suptitle(title_of(snapshot), fontsize="medium")
    add_legend(figure)


def _draw_sets(figure: "Figure", axes: "Axes", snapshot: Snapshot, grid: Grid | None) -> None:
    from matplotlib.colors import ListedColormap

    states = snapshot.may_be_safe.astype(float) + snapshot.is_safe
    colors = ListedColormap(STATE_COLORS)
    drawn = _paint(axes, snapshot, grid, states, cmap=colors, vmin=-0.5, vmax=2.5)
    bar = figure.colorbar(drawn, ax=axes, ticks=range(3), shrink=0.8)
    bar.ax.set_yticklabels(STATES, rotation=90, va="center")
    _draw_targets(axes, snapshot, grid)
    _draw_trials(axes, snapshot)
    _draw_best(axes, snapshot)
    axes.set_title("what is known to be safe", fontsize="medium")


def _draw_values(
    figure: "Figure", axes: "Axes", snapshot: Snapshot, curve: Curve, grid: Grid | None
) -> None:
    drawn = _paint(axes, snapshot, grid, curve.mean, cmap="cividis")
    figure.colorbar(drawn, ax=axes, shrink=0.8, label=curve.label)
    if grid is None:
        drawn.set_sizes(np.where(snapshot.is_safe, 20.0, 5.0))
        axes.plot([], [], "o", markersize=2.5, color=GREY, label="small: not known to be safe")
    else:
        _outline(axes, grid, snapshot.is_safe, "white", "edge of the safe set")
        for limit in (*curve.at_least, *curve.at_most):
            _outline(axes, grid, curve.mean >= limit, VERMILLION, "mean at its limit")
    _draw_best(axes, snapshot)
    axes.set_title(f"mean of {curve.label}", fontsize="medium")


def _paint(
    axes: "Axes", snapshot: Snapshot, grid: Grid | None, values: np.ndarray, **style: Any
) -> Any:
    if grid is not None:
        return axes.pcolormesh(grid.x, grid.y, values[grid.rows], shading="nearest", **style)
    x, y = snapshot.points.T
    return axes.scatter(x, y, c=values, s=18, linewidths=0, **style)


def _draw_targets(axes: "Axes", snapshot: Snapshot, grid: Grid | None) -> None:
    """Their edge on a grid, a ring around each of them elsewhere."""
    if grid is not None:
        _outline(axes, grid, snapshot.is_target, ORANGE, "targets")
        return
    x, y = snapshot.points[snapshot.is_target].T
    ring: dict[str, Any] = {"facecolors": "none", "edgecolors": ORANGE, "linewidths": 0.9}
    axes.scatter(x, y, s=30, label="targets", **ring)


def _outline(axes: "Axes", grid: Grid, mask: np.ndarray, color: str, label: str) -> None:
    """The edge of a set, with a dark seam, so that it shows on every ground."""
    from matplotlib.lines import Line2D
    from matplotlib.patheffects import AbstractPathEffect, withStroke

    if not mask.any() or mask.all():
        return
    seam: list[AbstractPathEffect] = [withStroke(linewidth=2.8, foreground=BLACK)]
    inside = mask[grid.rows].astype(float)
    edge = axes.contour(grid.x, grid.y, inside, levels=[0.5], colors=[color], linewidths=1.6)
    edge.set_path_effects(seam)
    axes.add_line(Line2D([], [], color=color, linewidth=1.6, label=label, path_effects=seam))


def _draw_trials(axes: "Axes", snapshot: Snapshot) -> None:
    """All trials; of the safe ones the first are light and the last dark."""
    if not len(snapshot.history):
        return
    places = np.array([trial.x[:2] for trial in snapshot.history])
    statuses, n = statuses_of(snapshot), len(places)
    for status, (marker, color, size) in STATUS.items():
        chosen = statuses == status
        if not chosen.any():
            continue
        style: dict[str, Any] = {"c": color, **edge_of(marker)}
        if status == "safe":
            style |= {"c": np.flatnonzero(chosen), "cmap": "Greys", "vmin": -n, "vmax": n}
        label = "trials, safe: later ones darker" if status == "safe" else f"trials, {status}"
        x, y = places[chosen].T
        axes.scatter(x, y, s=size + 8, marker=marker, zorder=4, label=label, **style)
    if n <= NUMBERED:
        _number(axes, places, snapshot)


def _number(axes: "Axes", places: Float[np.ndarray, "t 2"], snapshot: Snapshot) -> None:
    """Numbers of the trials, the last first; where there is no room, none."""
    from matplotlib.patheffects import withStroke

    extent, middle = np.ptp(snapshot.points, axis=0), snapshot.points[:, 0].mean()
    taken = [] if snapshot.best is None else [snapshot.best.x[:2]]
    for number in range(len(places), 0, -1):
        place = places[number - 1]
        if any((np.abs(place - other) <= ROOM * extent).all() for other in taken):
            continue
        taken.append(place)
        is_left = bool(place[0] < middle)
        where = {"xytext": (4 if is_left else -4, 3), "ha": "left" if is_left else "right"}
        style: dict[str, Any] = {"textcoords": "offset points", "fontsize": "x-small", **where}
        text = axes.annotate(str(number), place.tolist(), **style)
        text.set_path_effects([withStroke(linewidth=1.6, foreground="white")])


def _draw_best(axes: "Axes", snapshot: Snapshot) -> None:
    if snapshot.best is not None:
        x, y = snapshot.best.x[:2]
        style: dict[str, Any] = {"c": ORANGE, "edgecolors": BLACK, "linewidths": 0.8, "zorder": 5}
        axes.scatter([x], [y], marker="*", s=170, label="best", **style)
