"""Colours and marks of a safe optimization: the same in every figure.

Colours after Okabe and Ito, which people of all kinds of colour vision tell apart; every status
has a shape of its own too.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from tellmost.safebo.snapshots import Curve, Snapshot

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


def mark_trials(axes: "Axes", x: np.ndarray, y: np.ndarray, statuses: np.ndarray) -> None:
    """A mark for each value that was told; NaN where none was."""
    for status, (marker, color, size) in STATUS.items():
        chosen = (statuses == status) & np.isfinite(y)
        if chosen.any():
            axes.scatter(
                *(x[chosen], y[chosen]),
                s=size,
                c=color,
                marker=marker,
                label=f"told, {status}" if status != "failed" else status,
                zorder=4,
                **edge_of(marker),
            )


def edge_of(marker: str) -> dict[str, Any]:
    """A thin white edge keeps marks apart; a stroke has none."""
    return {} if marker == "|" else {"edgecolors": "white", "linewidths": 0.5}


def mark_failures(axes: "Axes", x: np.ndarray, statuses: np.ndarray) -> None:
    """Trials without a value, at the lower edge."""
    failed = statuses == "failed"
    if failed.any():
        marker, color, size = STATUS["failed"]
        across = axes.get_xaxis_transform()
        place = np.full(failed.sum(), 0.03)
        axes.scatter(x[failed], place, s=size, c=color, marker=marker, transform=across)
        axes.collections[-1].set_label("failed")


def draw_limits(axes: "Axes", curve: Curve) -> None:
    """Each limit, and shade beyond it."""
    low, high = axes.get_ylim()
    room = 0.04 * (high - low)
    low = min([low, *(limit - 2 * room for limit in curve.at_least)])
    high = max([high, *(limit + 2 * room for limit in curve.at_most)])
    for limit, beyond in [
        *((limit, low) for limit in curve.at_least),
        *((limit, high) for limit in curve.at_most),
    ]:
        axes.axhline(limit, color=VERMILLION, linestyle="--", linewidth=1.2, label="limit")
        axes.axhspan(limit, beyond, color=VERMILLION, alpha=0.08, linewidth=0, zorder=0)
    axes.set_ylim(low, high)


def tidy(axes: "Axes") -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25, linewidth=0.6)


def told_values(snapshot: Snapshot, curve: Curve) -> np.ndarray:
    """Of each trial, NaN where nothing was told; a function of several names is told by any."""
    told = [
        next((trial.values[name] for name in curve.names if name in trial.values), np.nan)
        for trial in snapshot.history
    ]
    return np.array(told, dtype=np.float64)


def statuses_of(snapshot: Snapshot) -> np.ndarray:
    return np.array([trial.status for trial in snapshot.history], dtype=object)


def add_legend(figure: "Figure") -> None:
    """One for all panels, below them, each label once."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        figure.legend(
            list(found.values()),
            list(found),
            loc="outside lower center",
            ncols=min(len(found), 5),
            frameon=False,
            fontsize="small",
        )


def title_of(snapshot: Snapshot) -> str:
    """How many trials, how large the sets are, and under which context."""
    safe, perhaps = int(snapshot.is_safe.sum()), int(snapshot.may_be_safe.sum())
    words = [
        f"{len(snapshot.history):,} trials",
        f"{safe:,} of {len(snapshot.points):,} points known to be safe, {perhaps:,} may be",
    ]
    words += [f"{name} = {value:.4g}" for name, value in snapshot.context.items()]
    return "; ".join(words)
