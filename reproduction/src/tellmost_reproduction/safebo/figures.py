"""Regret and size of the safe set against rounds, and where is measured."""

from typing import TYPE_CHECKING

import numpy as np

from tellmost.shapes import Int
from tellmost_reproduction.frame.drawing import (
    Style,
    draw_curve,
    draw_level,
    label_ends,
    make_figure,
    tidy,
)
from tellmost_reproduction.safebo.records import Record
from tellmost_reproduction.safebo.runs import Run
from tellmost_reproduction.safebo.tasks import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# a colour for each kind of method, dashes for its variants
STYLES: dict[str, Style] = {
    "itl": ("#0072B2", "-", 2.4),
    "vtl": ("#D55E00", "-", 2.4),
    "itl-thompson": ("#0072B2", "--", 1.6),
    "itl-expanders": ("#0072B2", ":", 2.0),
    "vtl-expanders": ("#D55E00", ":", 2.0),
    "safeopt": ("#009E73", "-", 1.5),
    "safeopt-oracle": ("#009E73", "--", 1.5),
    "safeopt-estimated": ("#009E73", ":", 1.8),
    "safeopt-expanders": ("#009E73", "-.", 1.6),
    "heuristic-safeopt": ("#4d7a1f", "-.", 1.4),
    "goose": ("#9b4f96", "-", 1.5),
    "goose-oracle": ("#9b4f96", "--", 1.5),
    "goose-estimated": ("#9b4f96", ":", 1.8),
    "ise": ("#000000", "-", 1.4),
    "ise-bo-draws": ("#000000", "--", 1.4),
    "ise-bo": ("#000000", ":", 1.4),
    "eic": ("#E69F00", "-", 1.8),
    "ucb": ("#56B4E9", "-", 1.6),
    "uncertainty": ("#b08968", "-", 1.4),
    "random": ("#8a8a8a", "-", 1.3),
}
MOST_STEPS = 250


def draw_curves(record: Record) -> "Figure":
    """The means over the seeds, with a band of one standard error."""
    figure = make_figure(12.0, 5.6)
    left, right = figure.subplots(1, 2)
    _draw(left, record, "regret")
    unit = ", kg/h" if record.challenge.name == "process" else ""
    left.set_title(f"Simple regret of the recommendation{unit}", loc="left", fontsize=10)
    _draw(right, record, "safe")
    right.set_title("Points known to be safe", loc="left", fontsize=10)
    if isinstance(record.challenge, Task):
        level = int(record.challenge.is_safe.sum())
        right.set_ylim(top=max(1.06 * level, right.get_ylim()[1]))
        draw_level(right, level, "all that are safe", at=0.02, below=False)
    for axes in (left, right):
        label_ends(axes)
    return figure


def _draw(axes: "Axes", record: Record, measure: str) -> None:
    steps = drawn_steps(record.rounds)
    for key in record.keys:
        mean, error = record.mean(measure, key)[steps], record.error(measure, key)[steps]
        draw_curve(axes, steps, mean, error, STYLES[key], record.label(key), alpha=0.12)
    axes.set_xlabel("rounds")
    axes.set_xlim(0, record.rounds)
    axes.set_ylim(bottom=0)
    tidy(axes)


def drawn_steps(rounds: int) -> Int[np.ndarray, " s"]:
    """All rounds, or evenly spread ones: more than the eye can tell apart make a large file."""
    return np.unique(np.linspace(0, rounds, min(rounds, MOST_STEPS) + 1).astype(np.int64))


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
    """Draw the first seed: points unsafe, safe, and known to be safe in the end; and picks."""
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
    """Draw the first seed: f, what is known to be safe at first and at the end, and picks."""
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
