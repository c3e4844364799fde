"""Draw results.json: probe accuracy against the noise ratio, a panel per dataset and k."""

from __future__ import annotations

import json
import sys
from collections import defaultdict

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

# Okabe-Ito colours: told apart by colour-blind readers
COLOURS = {"vtl": "#0072B2", "itl": "#D55E00"}
DASHES = {"raw": "-", "unit": (0, (4, 2))}
BASELINES = {
    "random": ("#777777", "random"),
    "top-k": ("#009E73", "nearest neighbours"),
    "mmr": ("#CC79A7", "MMR, best of its weights"),
}

Scores = dict[tuple, list[float]]  # (method, rows, noise_ratio) -> accuracy per seed


def scores_by_panel(cells: list[dict]) -> dict[str, dict[int, Scores]]:
    """Accuracies less how easy their seed was: some draws of target classes are harder for all."""
    panels: dict = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    ease = ease_of_seeds(cells)
    for cell in cells:
        key = (cell["method"], cell["rows"], cell["noise_ratio"])
        for k, judged in cell["by_k"].items():
            easier = ease[cell["dataset"], k, cell["seed"]]
            panels[cell["dataset"]][int(k)][key].append(judged["accuracy"] - easier)
    return panels


def ease_of_seeds(cells: list[dict]) -> dict[tuple, float]:
    """How far the mean accuracy of a seed, over all methods, lies above the mean of all seeds."""
    by_seed = defaultdict(list)
    for cell in cells:
        for k, judged in cell["by_k"].items():
            by_seed[cell["dataset"], k, cell["seed"]].append(judged["accuracy"])
    means = {key: float(np.mean(values)) for key, values in by_seed.items()}
    whole = defaultdict(list)
    for (dataset, k, _), mean in means.items():
        whole[dataset, k].append(mean)
    return {key: mean - float(np.mean(whole[key[:2]])) for key, mean in means.items()}


def mean_and_error(values: list[float]) -> tuple[float, float]:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(np.mean(values)), float(error)


def baseline(scores: Scores, name: str) -> list[float] | None:
    """Scores per seed; for MMR those of the weight that did best in this panel."""
    found = [values for key, values in scores.items() if key[0].startswith(name)]
    return max(found, key=np.mean) if found else None


def draw_baselines(axes: plt.Axes, scores: Scores) -> None:
    for name, (colour, label) in BASELINES.items():
        values = baseline(scores, name)
        if values is None:
            continue
        mean, error = mean_and_error(values)
        axes.axhline(mean, color=colour, linewidth=1.4, linestyle=":", label=label)
        axes.axhspan(mean - error, mean + error, color=colour, alpha=0.12, linewidth=0)


def draw_rules(axes: plt.Axes, scores: Scores) -> None:
    for rule, colour in COLOURS.items():
        for rows, dashes in DASHES.items():
            ratios = sorted(key[2] for key in scores if key[:2] == (rule, rows))
            if not ratios:
                continue
            pairs = [mean_and_error(scores[rule, rows, ratio]) for ratio in ratios]
            mean, error = np.array(pairs).T
            style = {"color": colour, "linestyle": dashes, "marker": "o", "markersize": 3}
            axes.plot(ratios, mean, label=f"{rule.upper()}, {rows} rows", **style)
            axes.fill_between(ratios, mean - error, mean + error, color=colour, alpha=0.13)


def show_what_differs(axes: plt.Axes, scores: Scores) -> None:
    """Scale to the directed methods; a random line far below them is told in words."""
    drawn = [values for key, values in scores.items() if key[0] in COLOURS]
    drawn += [values for name in ("top-k", "mmr") if (values := baseline(scores, name))]
    means = [np.mean(values) for values in drawn]
    low, high = min(means), max(means)
    margin = max(0.15 * (high - low), 0.01)
    axes.set_ylim(low - margin, high + margin)
    random = np.mean(baseline(scores, "random") or np.nan)
    if random < low - margin:  # false where there is none
        place = {"xy": (0.02, 0.02), "xycoords": "axes fraction", "fontsize": 8}
        axes.annotate(f"random {random:.2f}, below", color="#555555", **place)


def draw_panel(axes: plt.Axes, scores: Scores, title: str) -> None:
    draw_baselines(axes, scores)
    draw_rules(axes, scores)
    show_what_differs(axes, scores)
    axes.set_xscale("log")
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("noise_ratio", fontsize=8)
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)


def draw(results: dict) -> plt.Figure:
    panels = scores_by_panel(results["cells"])
    columns = max(len(by_k) for by_k in panels.values())
    size = (3.6 * columns, 2.7 * len(panels) + 0.8)
    shape = (len(panels), columns)
    figure, grid = plt.subplots(*shape, figsize=size, squeeze=False, layout="constrained")
    for row, (dataset, by_k) in zip(grid, panels.items(), strict=True):
        for axes, (k, scores) in zip(row, sorted(by_k.items()), strict=False):
            draw_panel(axes, scores, f"{dataset}, k = {k}")
        for axes in row[len(by_k) :]:
            axes.set_visible(False)
        row[0].set_ylabel("probe accuracy")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def main() -> None:
    results_path, figure_path = sys.argv[1:]
    with open(results_path) as file:
        results = json.load(file)
    # no date inside: the same results give the same file
    metadata = {"Date": None} if figure_path.endswith(".svg") else {}
    draw(results).savefig(figure_path, metadata=metadata)


if __name__ == "__main__":
    main()
