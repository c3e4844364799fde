"""Scores per method, seed and budget: their means and errors, as text, numbers and curves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tellmost.shapes import Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Scores = Float[np.ndarray, "methods seeds budgets"]

COLORS = {
    "vtl-gradients": "#0b2e63",
    "mmr-gradients": "#4b2468",
    "vtl-paper": "#3aa6a0",
    "vtl": "#1d5fb8",
    "mmr": "#8a5bb0",
    "top-k": "#c8641b",
    "cosine": "#c8641b",
    "random": "#7a7a7a",
}
MARKERS = {
    "vtl-gradients": "*",
    "mmr-gradients": "P",
    "vtl-paper": "v",
    "vtl": "o",
    "mmr": "D",
    "top-k": "s",
    "cosine": "s",
    "random": "^",
}
NAMES = {
    "vtl-gradients": "VTL, loss gradients",
    "mmr-gradients": "MMR, loss gradients",
    "vtl-paper": "VTL, the paper's noise",
    "vtl": "VTL",
    "mmr": "MMR",
    "top-k": "nearest neighbours",
    "cosine": "cosine similarity",
    "random": "random",
}


def mean_and_error(
    scores: Float[np.ndarray, "... seeds budgets"],
) -> tuple[Float[np.ndarray, "... budgets"], Float[np.ndarray, "... budgets"]]:
    """Mean over the seeds and its standard error."""
    return scores.mean(axis=-2), scores.std(axis=-2, ddof=1) / np.sqrt(scores.shape[-2])


def tabulate(
    title: str, methods: Sequence[str], scores: Scores, budgets: Sequence[int]
) -> list[str]:
    """Lines of text: a heading, and a line per method."""
    lines = ["", f"{title:34}" + "".join(f"{f'{budget} picks':>16}" for budget in budgets)]
    means, errors = mean_and_error(scores)
    for method, mean, error in zip(methods, means, errors, strict=True):
        cells = (f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True))
        lines.append(f"  {method:32}" + "".join(f"{cell:>16}" for cell in cells))
    return lines


def summarize_scores(scores: Float[np.ndarray, "seeds budgets"]) -> dict[str, Any]:
    """One method's numbers, to be written down."""
    mean, error = mean_and_error(scores)
    return {
        "mean": mean.tolist(),
        "standard_error": error.tolist(),
        "per_seed": scores.tolist(),
    }


def draw_curves(
    axes: "Axes", methods: Sequence[str], scores: Scores, budgets: Sequence[int]
) -> None:
    """A line per method, with standard errors."""
    for method, mean, error in zip(methods, *mean_and_error(scores), strict=True):
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
