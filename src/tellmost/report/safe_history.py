"""Any number of parameters: what was told, trial by trial, and the best known for sure."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tellmost.report.safe_marks import (
    GREEN,
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


def draw_history(figure: "Figure", snapshot: Snapshot) -> None:
    """A panel per output."""
    from matplotlib.ticker import MaxNLocator

    count = len(snapshot.curves)
    figure.set_size_inches(7.5, 1.2 + 2.2 * count)
    panels = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    for number, (axes, curve) in enumerate(zip(panels, snapshot.curves, strict=True)):
        _draw_told(axes, snapshot, curve, is_objective=number == 0)
    panels[0].set_title(title_of(snapshot), loc="left", fontsize="medium")
    panels[-1].set_xlabel("trial")
    panels[-1].set_xlim(0.3, max(len(snapshot.history), 1) + 0.7)
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    add_legend(figure)


def _draw_told(axes: "Axes", snapshot: Snapshot, curve: Curve, *, is_objective: bool) -> None:
    trials = np.arange(1, len(snapshot.history) + 1)
    statuses = statuses_of(snapshot)
    if is_objective and trials.size:
        side = "at most" if snapshot.is_minimized else "at least"
        label = f"best point: {side}"
        bounds = np.array(snapshot.best_bounds)
        style: dict[str, Any] = {"color": GREEN, "linewidth": 1.8, "marker": ".", "label": label}
        axes.step(trials, bounds, where="post", **style)
    mark_trials(axes, trials, told_values(snapshot, curve), statuses)
    mark_failures(axes, trials, statuses)
    draw_limits(axes, curve)
    axes.set_ylabel(curve.label)
    tidy(axes)
