"""Where is measured: maps of the island, and the barriers."""

from typing import TYPE_CHECKING

import numpy as np

from tellmost.report.drawing import make_figure
from tellmost_reproduction.safebo.figures import STYLES
from tellmost_reproduction.safebo.records import Record
from tellmost_reproduction.safebo.running import Run
from tellmost_reproduction.safebo.tasks import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAPPED = (
    "itl",
    "safeopt-estimated",
    "safeopt-oracle",
    "itl-thompson",
    "goose-estimated",
    "goose-oracle",
)
"""Those of the paper's figure of the island, in its order."""

JUMPING = ("itl-expanders", "safeopt-expanders")
OCEAN, SHORE, KNOWN = "#9aa5ad", "#dfe5e8", "#ffffff"


def draw_maps(record: Record) -> "Figure":
    """Of the first seed: unsafe points, safe ones, those known to be safe in the end, picks."""
    figure = make_figure(9.6, 6.6)
    for axes, key in zip(figure.subplots(2, 3).flat, MAPPED, strict=True):
        _draw_map(axes, record, record.of(key)[0])
        axes.set_title(record.label(key), loc="left", fontsize=10)
    return figure


def _draw_map(axes: "Axes", record: Record, run: Run) -> None:
    from matplotlib.colors import ListedColormap

    task = record.challenge
    assert isinstance(task, Task)
    level = task.is_safe.astype(int)
    level[record.replay(run).safe_mask] = 2
    side = int(np.sqrt(len(level)))
    x = task.domain[:, 0].reshape(side, side)
    y = task.domain[:, 1].reshape(side, side)
    colors = ListedColormap([OCEAN, SHORE, KNOWN])
    axes.pcolormesh(x, y, level.reshape(side, side), cmap=colors, vmin=0, vmax=2, rasterized=True)
    places, order = task.domain[run.picks], np.arange(len(run.picks))
    axes.scatter(places[:, 0], places[:, 1], c=order, cmap="viridis", s=14, linewidths=0, zorder=3)
    axes.plot(*task.domain[task.optimum], "*", color="#D55E00", markersize=10, zorder=4)
    axes.set_aspect("equal")
    axes.set_xlim(x.min(), x.max())
    axes.set_ylim(y.min(), y.max())
    axes.set_xticks([-2, 0, 2])
    axes.set_yticks([-2, 0, 2])


def draw_barriers(record: Record) -> "Figure":
    """Of the first seed: f, what is known to be safe at first and at the end, and picks."""
    figure = make_figure(9.6, 3.4)
    for axes, key in zip(figure.subplots(1, 2, sharey=True), JUMPING, strict=True):
        _draw_barriers(axes, record, record.of(key)[0])
        axes.set_title(record.label(key), loc="left", fontsize=10)
    return figure


def _draw_barriers(axes: "Axes", record: Record, run: Run) -> None:
    task = record.challenge
    assert isinstance(task, Task)
    x, bottom = task.domain[:, 0], -2.3
    known = record.replay(run).safe_mask
    first = task.optimizer(np.random.default_rng(0)).safe_mask
    axes.fill_between(x, bottom, 2.2, where=known.tolist(), color="#dfe5e8", linewidth=0)
    axes.fill_between(x, bottom, 2.2, where=first.tolist(), color="#b9c6cd", linewidth=0)
    axes.plot(x, task.f, "--", color="#000000", linewidth=1.2)
    axes.axhline(0.0, color="#000000", linewidth=0.8)
    color = STYLES[run.method][0]
    axes.plot(x[run.picks], task.f[run.picks], "o", color=color, markersize=4, alpha=0.5)
    axes.vlines(x[run.picks], bottom, bottom + 0.2, color=color, linewidth=0.8, alpha=0.5)
    axes.set_ylim(bottom, 2.2)
    axes.set_xlim(-10, 10)
    axes.spines[["top", "right"]].set_visible(False)
