"""Figures of a safe optimization, drawn from a snapshot.

With one parameter a figure shows the mean and the bounds of every output, with the sets below;
with two it maps the sets and the mean of every output. With any number it shows what was told,
trial by trial, and the best that is known for sure. Colours and marks are the same in all of them:
after Okabe and Ito, which people of all kinds of colour vision tell apart, and every status has a
shape of its own too.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tellmost.report.figure import new_figure, tidy
from tellmost.safebo.snapshots import Curve, Snapshot
from tellmost.shapes import Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, SKY, GREEN, ORANGE = "#0072B2", "#56B4E9", "#009E73", "#E69F00"
VERMILLION, BLACK, GREY = "#D55E00", "#1a1a1a", "#8a8a8a"

STATUS = {  # marker, face, size
    "safe": ("o", BLACK, 14),
    "marginal": ("^", ORANGE, 34),
    "violated": ("X", VERMILLION, 46),
    "failed": ("|", GREY, 60),
}

WHITE: dict[str, Any] = {"edgecolors": "white", "linewidths": 0.5}
EDGE = {"o": WHITE, "^": WHITE, "X": WHITE, "|": {}}  # it keeps marks apart; a stroke has none

SETS = (("targets", ORANGE), ("safe", GREEN), ("may be safe", SKY))
STATES = ("not safe", "may be safe", "safe")
STATE_COLORS = ("#e6e6e6", "#bfe0f5", "#4aa3d8")  # lightness alone tells them apart
NUMBERED = 30  # up to so many trials show their number; of more only the colour shows the order
ROOM = 0.06  # a number takes this share of the extent


def plot_snapshot(snapshot: Snapshot) -> "Figure":
    """Draw bands, maps or the history, as the kind of the snapshot says."""
    figure = new_figure()
    draw = {"bands": draw_bands, "map": draw_map, "history": draw_history}[snapshot.kind]
    draw(figure, snapshot)
    return figure


def draw_bands(figure: "Figure", snapshot: Snapshot) -> None:
    """Draw a panel per output, and one for the sets."""
    count = len(snapshot.curves)
    figure.set_size_inches(7.5, 1.7 + 2.3 * count)
    panels = figure.subplots(count + 1, 1, sharex=True, height_ratios=[3.0] * count + [1.0])
    for axes, curve in zip(panels, snapshot.curves, strict=False):
        _draw_curve(axes, snapshot, curve)
    _draw_sets_below(panels[-1], snapshot)
    panels[0].set_title(title_of(snapshot), loc="left", fontsize="medium")
    panels[-1].set_xlabel(snapshot.names[0])
    panels[-1].set_xlim(snapshot.points.min(), snapshot.points.max())
    add_legend(figure)


def _draw_curve(axes: "Axes", snapshot: Snapshot, curve: Curve) -> None:
    x = snapshot.points[:, 0]
    order = np.argsort(x, kind="stable")
    lower, upper = curve.lower[order], curve.upper[order]
    axes.fill_between(x[order], lower, upper, color=BLUE, alpha=0.18, linewidth=0, label="bounds")
    axes.plot(x[order], curve.mean[order], color=BLUE, linewidth=1.5, label="mean")
    draw_told(axes, snapshot, curve, np.array([trial.x[0] for trial in snapshot.history]))
    if snapshot.best is not None:
        place = float(snapshot.best.x[0])
        axes.axvline(place, color=ORANGE, linewidth=1.2, linestyle="-.", zorder=1, label="best")


def _draw_sets_below(axes: "Axes", snapshot: Snapshot) -> None:
    """Mark the points of each set."""
    masks = snapshot.is_target, snapshot.is_safe, snapshot.may_be_safe
    x = snapshot.points[:, 0]
    for height, (mask, (name, color)) in enumerate(zip(masks, SETS, strict=True)):
        place = np.full(int(mask.sum()), height)
        axes.scatter(x[mask], place, marker="|", s=60, c=color, linewidths=1.4)
        axes.collections[-1].set_gid(name)
    axes.set_yticks(range(len(SETS)), [name for name, _ in SETS])
    axes.set_ylim(-0.7, len(SETS) - 0.3)
    axes.spines[["top", "right"]].set_visible(False)


def draw_history(figure: "Figure", snapshot: Snapshot) -> None:
    """Draw a panel per output."""
    from matplotlib.ticker import MaxNLocator

    count = len(snapshot.curves)
    figure.set_size_inches(7.5, 1.2 + 2.2 * count)
    panels = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    trials = np.arange(1, len(snapshot.history) + 1)
    if trials.size:
        label = f"best point: {'at most' if snapshot.is_minimized else 'at least'}"
        style: dict[str, Any] = {"color": GREEN, "linewidth": 1.8, "marker": ".", "label": label}
        panels[0].step(trials, np.array(snapshot.best_bounds), where="post", **style)
    for axes, curve in zip(panels, snapshot.curves, strict=True):
        draw_told(axes, snapshot, curve, trials)
    panels[0].set_title(title_of(snapshot), loc="left", fontsize="medium")
    panels[-1].set_xlabel("trial")
    panels[-1].set_xlim(0.3, max(len(snapshot.history), 1) + 0.7)
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    add_legend(figure)


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
    """Draw the sets with all trials, and a map of each output."""
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
    """Draw the edge of the targets on a grid, or else a ring around each of them."""
    if grid is not None:
        _outline(axes, grid, snapshot.is_target, ORANGE, "targets")
        return
    x, y = snapshot.points[snapshot.is_target].T
    ring: dict[str, Any] = {"facecolors": "none", "edgecolors": ORANGE, "linewidths": 0.9}
    axes.scatter(x, y, s=30, label="targets", **ring)


def _outline(axes: "Axes", grid: Grid, mask: np.ndarray, color: str, label: str) -> None:
    """Draw the edge of a set, with a dark seam that makes it visible on every colour."""
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
    """Draw all trials. The first safe ones are light and the last are dark."""
    if not len(snapshot.history):
        return
    places = np.array([trial.x[:2] for trial in snapshot.history])
    statuses = np.array([trial.status for trial in snapshot.history], dtype=object)
    n = len(places)
    for status, (marker, color, size) in STATUS.items():
        chosen = statuses == status
        if not chosen.any():
            continue
        style: dict[str, Any] = {"c": color, **EDGE[marker]}
        if status == "safe":
            style |= {"c": np.flatnonzero(chosen), "cmap": "Greys", "vmin": -n, "vmax": n}
        label = "trials, safe: later ones darker" if status == "safe" else f"trials, {status}"
        x, y = places[chosen].T
        axes.scatter(x, y, s=size + 8, marker=marker, zorder=4, label=label, **style)
    if n <= NUMBERED:
        _number(axes, places, snapshot)


def _number(axes: "Axes", places: Float[np.ndarray, "t 2"], snapshot: Snapshot) -> None:
    """Write the numbers of the trials, the last first, as far as there is room."""
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


def draw_told(axes: "Axes", snapshot: Snapshot, curve: Curve, x: np.ndarray) -> None:
    """Mark each value that was told, each trial that failed at the lower edge, and each limit."""
    told = [  # a function of several names may be told by any of them
        next((trial.values[name] for name in curve.names if name in trial.values), np.nan)
        for trial in snapshot.history
    ]
    y = np.array(told, dtype=np.float64)
    statuses = np.array([trial.status for trial in snapshot.history], dtype=object)
    for status, (marker, color, size) in STATUS.items():
        chosen = (statuses == status) & np.isfinite(y)
        if chosen.any():
            label = f"told, {status}" if status != "failed" else status
            style: dict[str, Any] = {"s": size, "c": color, "label": label, "zorder": 4}
            axes.scatter(x[chosen], y[chosen], marker=marker, **style, **EDGE[marker])
    failed = statuses == "failed"
    if failed.any():
        marker, color, size = STATUS["failed"]
        across, place = axes.get_xaxis_transform(), np.full(failed.sum(), 0.03)
        axes.scatter(x[failed], place, s=size, c=color, marker=marker, transform=across)
        axes.collections[-1].set_label("failed")
    draw_limits(axes, curve)
    axes.set_ylabel(curve.label)
    tidy(axes)


def draw_limits(axes: "Axes", curve: Curve) -> None:
    """Draw each limit, and shade what lies beyond it."""
    low, high = axes.get_ylim()
    room = 0.04 * (high - low)
    low = min([low, *(limit - 2 * room for limit in curve.at_least)])
    high = max([high, *(limit + 2 * room for limit in curve.at_most)])
    beyond_limits = [(limit, low) for limit in curve.at_least]
    beyond_limits += [(limit, high) for limit in curve.at_most]
    for limit, beyond in beyond_limits:
        axes.axhline(limit, color=VERMILLION, linestyle="--", linewidth=1.2, label="limit")
        axes.axhspan(limit, beyond, color=VERMILLION, alpha=0.08, linewidth=0, zorder=0)
    axes.set_ylim(low, high)


def add_legend(figure: "Figure") -> None:
    """Write one legend below all panels, with each label once."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        style: dict[str, Any] = {"ncols": min(len(found), 5), "frameon": False}
        handles, labels = list(found.values()), list(found)
        figure.legend(handles, labels, loc="outside lower center", fontsize="small", **style)


def title_of(snapshot: Snapshot) -> str:
    """The number of trials, the sizes of the sets, and the context."""
    safe, perhaps = int(snapshot.is_safe.sum()), int(snapshot.may_be_safe.sum())
    words = [
        f"{len(snapshot.history):,} trials",
        f"{safe:,} of {len(snapshot.points):,} points known to be safe, {perhaps:,} may be",
    ]
    words += [f"{name} = {value:.4g}" for name, value in snapshot.context.items()]
    return "; ".join(words)
