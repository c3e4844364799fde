"""Figures: accuracy and share of picks against labels, and the table of noise.

A row of panels shows a dataset. Where that would be too many curves, each rule has a row.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tellmost_reproduction.frame.drawing import Style, draw_curve, label_ends, make_figure, tidy
from tellmost_reproduction.networks.claims import ROWS, cells, row_label
from tellmost_reproduction.networks.configurations import RHOS, Configuration
from tellmost_reproduction.networks.curves import Curves
from tellmost_reproduction.networks.page import PAPER, datasets, shown
from tellmost_reproduction.networks.problems import CIFAR, CIFAR_HEAD, MNIST, MNIST_FLOAT32

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Okabe and Ito's colours, which colour-blind readers can tell apart
STYLES: dict[str, Style] = {
    "itl": ("#0072B2", "-", 2.2),
    "vtl": ("#D55E00", "-", 2.2),
    "ctl": ("#E69F00", "-", 1.6),
    "cosine": ("#CC79A7", "-", 1.3),
    "information-density": ("#56B4E9", "-", 1.3),
    "badge": ("#009E73", "-", 1.3),
    "random": ("#8a8a8a", "-", 1.6),
    "inside-all": ("#000000", "-", 1.6),
}
SEQUENCE = ("#86bbdc", "#4a90c9", "#1c5fa8", "#08224f")
"""Colours of curves that differ by a number alone: the larger, the darker."""

OTHERS = ("#5b2a86", "#7a3b1d", "#3d5a1f", "#b8860b", "#2f4f4f", "#a0307a", "#4682b4", "#000000")
DASHES = ("--", ":", "-.")
METHOD_ROWS = {"nn-candidates": ("itl", "vtl", "ctl"), "nn-beyond": ("itl", "vtl", "cosine")}
"""Methods that have a row of panels each, with Random in every row."""

NUMBERED: dict[str, tuple[str, Callable[[Configuration], int | None]]] = {
    "nn-candidates": ("k", lambda one: one.candidates),
    "nn-per-round": ("m", lambda one: one.targets_per_round),
    "nn-targets": ("M", lambda one: one.targets),
}
"""Experiments whose curves differ by a number: its letter, and where it is found."""

NETWORKS = {
    CIFAR: "CIFAR-100 (Lite0)",
    CIFAR_HEAD: "CIFAR-100 (Lite0, final layer)",
    MNIST: "MNIST",
    MNIST_FLOAT32: "MNIST (100 epochs)",
}
SHORT_LABEL = 26  # characters; longer ones make the figure wider, not the panels narrower
PANELS = (("accuracy", "Accuracy on the task"), ("share", "Share of picks from the task"))


def draw_curves(curves: Curves) -> "Figure":
    """Draw all configurations that there are runs of, but only the default of the noise ratios."""
    rows = [(dataset, drawn) for dataset in datasets(curves) for drawn in rows_of(curves, dataset)]
    longest = max(len(label_of(curves, one)) for _, drawn in rows for one in drawn)
    width = 11.0 + 0.15 * max(longest - SHORT_LABEL, 0)
    figure = make_figure(width, (4.2 if len(rows) < 3 else 3.4) * len(rows))
    panels = figure.subplots(len(rows), 2, squeeze=False)
    for row, (dataset, drawn) in zip(panels, rows, strict=True):
        for axes, (measure, title) in zip(row, PANELS, strict=True):
            draw_measure(axes, curves, drawn, measure)
            draw_levels(axes, curves, dataset, measure)
            axes.set_title(
                f"{title}, {NETWORKS[curves.trained[dataset]]}", loc="left", fontsize=10
            )
            label_ends(axes)
    return figure


def rows_of(curves: Curves, dataset: str) -> list[list[Configuration]]:
    """Which configurations share a row of panels."""
    drawn = [one for one in shown(curves, dataset) if is_drawn(one)]
    methods = METHOD_ROWS.get(curves.experiment.name)
    if methods is None:
        return [drawn]
    rows = [[one for one in drawn if method_of(one) in (key, "random")] for key in methods]
    return [row for row in rows if any(method_of(one) != "random" for one in row)]


def draw_measure(axes: "Axes", curves: Curves, drawn: list[Configuration], measure: str) -> None:
    styles = styles_for(curves.experiment.name, drawn)
    for one in drawn:
        values, labels = curves.values(measure, one.name), curves.labels(one.name)
        error = values.std(axis=0, ddof=1) / len(values) ** 0.5 if len(values) > 1 else None
        style, label = styles[one.name], label_of(curves, one)
        draw_curve(axes, labels, values.mean(axis=0), error, style, label, alpha=0.2)
    axes.set_xlabel("labels bought (seeds of a curve in brackets)")
    axes.set_xlim(0, max(curves.labels(one.name)[-1] for one in drawn))
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
    tidy(axes)


def label_of(curves: Curves, one: Configuration) -> str:
    """The label with the number of seeds, since curves of few seeds say less."""
    stuck = ", stuck" if curves.is_stuck(one.name) else ""
    return f"{words_for(curves, one)} ({len(curves.of_name(one.name))}){stuck}"


def words_for(curves: Curves, one: Configuration) -> str:
    """Name the usual number too where curves differ by it."""
    if curves.experiment.name not in NUMBERED or method_of(one) == "random":
        return one.label
    letter, number = NUMBERED[curves.experiment.name]
    return one.label if f"{letter} = " in one.label else f"{one.label}, {letter} = {number(one):,}"


def is_drawn(one: Configuration) -> bool:
    """True if it has a curve: the targets alone are a level, noise ratios are in the tables."""
    is_default = one.name.startswith(f"{one.dataset}/ratio-1/")
    return one.pool != "targets" and (is_default or "/ratio-" not in one.name)


def draw_levels(axes: "Axes", curves: Curves, dataset: str, measure: str) -> None:
    """Draw what all of the targets reach as a level, from the labels that they cost."""
    for one in shown(curves, dataset):
        if one.pool != "targets" or measure != "accuracy":
            continue
        level = curves.last(measure, one.name)
        ends = (float(curves.labels(one.name)[-1]), axes.get_xlim()[1])
        label = label_of(curves, one)
        axes.plot(ends, (level.value,) * 2, "--", color="#000000", linewidth=1.4, label=label)
        error = level.error or 0.0
        low, high = level.value - error, level.value + error
        axes.fill_between(ends, low, high, color="#000000", alpha=0.12, linewidth=0)


def method_of(one: Configuration) -> str:
    """The method that decides the colour of a curve."""
    last = one.name.rsplit("/", 1)[-1]
    return last if last in STYLES else last.split("-", 1)[0]


def styles_for(experiment: str, drawn: list[Configuration]) -> dict[str, Style]:
    if experiment in NUMBERED:
        return styles_by_number(drawn, NUMBERED[experiment][1])
    return styles_by_method(drawn, has_own_row=experiment in METHOD_ROWS)


def styles_by_number(
    drawn: list[Configuration], number: Callable[[Configuration], int | None]
) -> dict[str, Style]:
    others = sorted(
        (one for one in drawn if method_of(one) != "random"), key=lambda o: number(o) or 0
    )
    colors = SEQUENCE[-len(others) :]
    made = {one.name: (c, "-", 1.8) for one, c in zip(others, colors, strict=True)}
    return {one.name: made.get(one.name, STYLES["random"]) for one in drawn}


def styles_by_method(drawn: list[Configuration], *, has_own_row: bool) -> dict[str, Style]:
    """A method keeps its colour. A variant has dashes, or another colour in a row of its own."""
    made: dict[str, Style] = {}
    others, dashed = 0, dict.fromkeys(STYLES, 0)
    for one in drawn:
        method = method_of(one)
        is_variant = method in STYLES and any(s[0] == STYLES[method][0] for s in made.values())
        if method not in STYLES or (is_variant and has_own_row):
            made[one.name] = (OTHERS[others % len(OTHERS)], "-", 1.3)
            others += 1
        elif is_variant:
            color, _, width = STYLES[method]
            made[one.name] = (color, DASHES[dashed[method] % len(DASHES)], width)
            dashed[method] += 1
        else:
            made[one.name] = STYLES[method]
    return made


Line = tuple[str, str, str, list[float], list[float]]
"""Label, colour, dashes, means, standard errors."""

MARGIN = 1.5  # of the noise, beyond the first and the last, so that no bar is cut


def draw_noise(curves: Curves) -> "Figure":
    figure = make_figure(10.0, 4.6)
    left, right = figure.subplots(1, 2, sharey=True)
    draw_lines(left, our_lines(curves))
    ours = NETWORKS[curves.trained.get(CIFAR, CIFAR)]
    left.set_title(f"Accuracy after 100 rounds, {ours}", loc="left", fontsize=10)
    draw_lines(right, papers_lines())
    right.set_title("The paper's (B0)", loc="left", fontsize=10)
    for axes in (left, right):
        label_ends(axes)
    return figure


def noise_rows() -> list[tuple[str, str, bool]]:
    """Rule, embedding, and whether batches are conditional."""
    return [(*row, is_conditional) for is_conditional in (True, False) for row in ROWS]


def style_of(key: str, kind: str, is_conditional: bool) -> tuple[str, str]:
    """Rules differ by colour. Loss gradients are paler, and the b best dashed."""
    paler = {"itl": "#6fb3dd", "ctl": "#f0c760"}
    return STYLES[key][0] if kind == "last" else paler[key], "-" if is_conditional else "--"


def our_lines(curves: Curves) -> list[Line]:
    made = []
    for key, kind, is_conditional in noise_rows():
        names = cells(key, kind, is_conditional=is_conditional)
        if all(curves.of_name(name) for name in names):
            means = [curves.last("accuracy", name) for name in names]
            label = row_label(key, kind, is_conditional=is_conditional)
            values = [mean.value for mean in means], [mean.error or 0.0 for mean in means]
            made.append((label, *style_of(key, kind, is_conditional), *values))
    if curves.of_name(f"{CIFAR}/random"):
        random = curves.last("accuracy", f"{CIFAR}/random")
        flat = [random.value] * len(RHOS), [random.error or 0.0] * len(RHOS)
        made.append(("Random", STYLES["random"][0], "-", *flat))
    return made


def papers_lines() -> list[Line]:
    named = [(row_label(a, b, is_conditional=c), *style_of(a, b, c)) for a, b, c in noise_rows()]
    named.append(("Random", STYLES["random"][0], "-"))
    made = []
    for label, color, dashes in named:
        means, errors = (np.array(PAPER[label]) / 100).T.tolist()
        made.append((label, color, dashes, means, errors))
    return made


def draw_lines(axes: "Axes", lines: list[Line]) -> None:
    for label, color, dashes, means, errors in lines:
        axes.errorbar(RHOS, means, yerr=errors, fmt="none", ecolor=color, capsize=2, linewidth=1)
        axes.plot(RHOS, means, dashes, color=color, linewidth=1.8, label=label)
    axes.set_xscale("log")
    axes.set_xticks(RHOS, [f"{rho:g}" for rho in RHOS])
    axes.set_xlim(RHOS[0] / MARGIN, RHOS[-1] * MARGIN)
    axes.set_xlabel("rho, noise standard deviation")
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
    tidy(axes)
