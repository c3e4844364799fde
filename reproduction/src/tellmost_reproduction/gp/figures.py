"""Figure 3 and those of the appendix: entropy and standard deviation against observations."""

from typing import TYPE_CHECKING

import numpy as np

from tellmost_reproduction.frame.drawing import label_ends, make_figure
from tellmost_reproduction.gp.curves import Curves
from tellmost_reproduction.gp.measures import irreducible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers can tell apart; dashes where curves meet
STYLES: dict[str, tuple[str, str, float]] = {
    "itl": ("#0072B2", "-", 2.2),
    "vtl": ("#D55E00", "-", 2.2),
    "ctl": ("#E69F00", "-", 1.3),
    "mm-itl": ("#CC79A7", "--", 1.6),
    "uncertainty": ("#000000", "-", 1.3),
    "local-uncertainty": ("#56B4E9", "--", 1.8),
    "truvar": ("#009E73", ":", 2.0),
    "random": ("#8a8a8a", "-", 1.3),
}
OWN = ("#7a3b1d", "#5b2a86", "#3d5a1f")  # of the user's rules
GREY = "#555555"


def draw_curves(curves: Curves) -> "Figure":
    """The paper's methods and the user's; the other extra ones are in the tables alone."""
    figure = make_figure(10.0, 4.2)
    left, right = figure.subplots(1, 2)
    _draw_measure(left, curves, "information", sign=-1.0)
    left.set_title("Entropy of f on A, relative to the start (nats)", loc="left", fontsize=10)
    _draw_measure(right, curves, "mean_sd", sign=1.0)
    right.set_title("Mean standard deviation of f on A", loc="left", fontsize=10)
    _scale(right, curves)
    for axes in (left, right):
        label_ends(axes)
    return figure


def _draw_measure(axes: "Axes", curves: Curves, measure: str, sign: float) -> None:
    steps = np.arange(curves.size.rounds + 1)
    for key, (color, dashes, width) in styles_for(curves).items():
        mean, error = sign * curves.mean(measure, key), curves.error(measure, key)
        axes.plot(steps, mean, dashes, color=color, linewidth=width, label=curves.label(key))
        if error is not None:
            low, high = mean - error, mean + error
            axes.fill_between(steps, low, high, color=color, alpha=0.25, linewidth=0)
    axes.set_xlabel("observations")
    axes.set_xlim(0, curves.size.rounds)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25, linewidth=0.6)


def styles_for(curves: Curves) -> dict[str, tuple[str, str, float]]:
    """Of what is drawn: the paper's methods, then the user's."""
    drawn = {m.key: STYLES[m.key] for m in curves.methods if m.key in STYLES}
    own = [m.key for m in curves.methods if m.is_own]
    return drawn | {key: (OWN[i % len(OWN)], "-.", 2.0) for i, key in enumerate(own)}


def _scale(axes: "Axes", curves: Curves) -> None:
    """Logarithmic down to zero; where a level remains, linear above it and without the start."""
    from matplotlib.ticker import LogLocator, NullFormatter

    level = float(irreducible(curves.setting).mean())
    if level == 0:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        return
    tenth = curves.size.rounds // 10
    top = max(curves.mean("mean_sd", key)[tenth] for key in styles_for(curves))
    axes.set_ylim(level - 0.1 * (top - level), top)
    axes.axhline(level, color=GREY, linewidth=1.0, linestyle=(0, (6, 3)))
    axes.annotate(
        f"irreducible: {level:.3f}",
        (0.3, level),
        xycoords=axes.get_yaxis_transform(),
        xytext=(0, -10),
        textcoords="offset points",
        fontsize=8,
        color=GREY,
    )
