"""One parameter: mean and bounds of every output, and the sets below."""

from typing import TYPE_CHECKING

import numpy as np

from tellmost.report.safe_marks import (
    BLUE,
    GREEN,
    ORANGE,
    SKY,
    add_legend,
    draw_limits,
    mark_failures,
    mark_trials,
    statuses_of,
    tidy,
    title_of,
    told_values,
)
from tellmost.safebo.snapshots import Curve, Snapshot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SETS = (("targets", ORANGE), ("safe", GREEN), ("may be safe", SKY))


def draw_bands(figure: "Figure", snapshot: Snapshot) -> None:
    """A panel per output, and one for the sets."""
    count = len(snapshot.curves)
    figure.set_size_inches(7.5, 1.7 + 2.3 * count)
    panels = figure.subplots(count + 1, 1, sharex=True, height_ratios=[3.0] * count + [1.0])
    for axes, curve in zip(panels, snapshot.curves, strict=False):
        _draw_curve(axes, snapshot, curve)
    _draw_sets(panels[-1], snapshot)
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
    where = np.array([trial.x[0] for trial in snapshot.history])
    statuses = statuses_of(snapshot)
    mark_trials(axes, where, told_values(snapshot, curve), statuses)
    mark_failures(axes, where, statuses)
    draw_limits(axes, curve)
    if snapshot.best is not None:
        place = float(snapshot.best.x[0])
        axes.axvline(place, color=ORANGE, linewidth=1.2, linestyle="-.", zorder=1, label="best")
    axes.set_ylabel(curve.label)
    tidy(axes)


def _draw_sets(axes: "Axes", snapshot: Snapshot) -> None:
    """Where each set is, as marks of the points it holds."""
    masks = snapshot.is_target, snapshot.is_safe, snapshot.may_be_safe
    x = snapshot.points[:, 0]
    for height, (mask, (name, color)) in enumerate(zip(masks, SETS, strict=True)):
        place = np.full(int(mask.sum()), height)
        axes.scatter(x[mask], place, marker="|", s=60, c=color, linewidths=1.4)
        axes.collections[-1].set_gid(name)
    axes.set_yticks(range(len(SETS)), [name for name, _ in SETS])
    axes.set_ylim(-0.7, len(SETS) - 0.3)
    axes.spines[["top", "right"]].set_visible(False)
