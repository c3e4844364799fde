"""The folder of a setting: numbers, tables, files, page and figure. Every number is from the run.

The figures are figure 3 of the paper and those of its appendix.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tellmost.kernels import Laplace
from tellmost.numerics import RANK_TOLERANCE
from tellmost.shapes import Int
from tellmost_reproduction.frame.drawing import (
    Style,
    draw_curve,
    draw_level,
    label_ends,
    make_figure,
    tidy,
)
from tellmost_reproduction.frame.folders import write_table
from tellmost_reproduction.frame.numbers import REPRODUCED, Numbers, Series
from tellmost_reproduction.frame.pages import (
    NEEDS,
    UNCOMPARED,
    Cells,
    command_for,
    describe_machine,
    head,
    in_markdown,
    in_paragraphs,
)
from tellmost_reproduction.frame.verdicts import Verdict, tabulate_verdicts
from tellmost_reproduction.gp.claims import (
    JUDGED,
    RULE,
    UNCLAIMED,
    compare_all,
    describe_difference,
)
from tellmost_reproduction.gp.curves import TOLERANCES, Curves, fall_of, share_ahead
from tellmost_reproduction.gp.measures import MEASURES, RISING, irreducible
from tellmost_reproduction.gp.settings import LOUD_STD, NOISE_STD, SMOKE, Size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKED_AT = (10, 25, 50, 100, 200, 300, 400, 500)
"""Numbers of observations after which results are written down."""

# Okabe and Ito's colours, which colour-blind readers can tell apart; dashes where curves meet
STYLES: dict[str, Style] = {
    "itl": ("#0072B2", "-", 2.2),
    "vtl": ("#D55E00", "-", 2.2),
    "ctl": ("#E69F00", "-", 1.3),
    "ctl-published": ("#E69F00", "--", 1.8),
    "mm-itl": ("#CC79A7", "--", 1.6),
    "uncertainty": ("#000000", "-", 1.3),
    "local-uncertainty": ("#56B4E9", "--", 1.8),
    "truvar": ("#009E73", ":", 2.0),
    "random": ("#8a8a8a", "-", 1.3),
}
OWN = ("#7a3b1d", "#5b2a86", "#3d5a1f")  # of the user's rules

ABOUT_SEEDS = (
    "Variances do not depend on y, and ties go to the lowest index, so every seed gives the same "
    "picks and the same curve for every method but {random}: one number stands for all seeds, and "
    "there is no standard error to print. The numbers of {random} are means over {seeds} seeds, ± "
    "one standard error. The error of the posterior mean (RMSE) depends on y, so there every "
    "method has a standard error."
)
ABOUT_FIGURE = (
    "Entropies are compared with that at the start: the level itself is set by rounding. They "
    "come from Cholesky factors of the observations and have no numerical noise, so nothing is "
    "smoothed (the paper takes a running mean of 5). "
    "The band is one standard error of {random}. Where an irreducible level remains, the axis of "
    "the standard deviation is linear and leaves out the start. ITL about y, squared CTL and CTL "
    "about y, which the paper does not have, are in the tables only."
)


def write_page(
    curves: Curves, verdicts: Sequence[Verdict], *, seconds: float, own: Sequence[str]
) -> str:
    setting, size = curves.setting, curves.size
    random = " and ".join(method.label for method in curves.methods if method.is_random)
    unclaimed = UNCLAIMED.get(setting.name)
    return in_paragraphs(
        [
            *begin(setting.name, setting.title, verdicts, size, seconds, own),
            f"**Set-up.** {describe_setting(curves)}",
            f"**Seeds.** {ABOUT_SEEDS.format(random=random, seeds=size.seeds)}",
            "**Result.**",
            tabulate_verdicts(verdicts),
            f"**Verdicts.** {RULE}",
            *([] if unclaimed is None else [f"**Not judged here.** {unclaimed}"]),
            "![Entropy and mean standard deviation against observations](figure.svg)",
            ABOUT_FIGURE.format(random=random),
            "## One against the other",
            f"Means over 1 to {size.rounds} observations; *ahead*: the share of these after which "
            f"the method is better; against Random a difference counts if it exceeds chance at "
            f"95%.",
            in_markdown(table_of_comparisons(curves)),
            "## Numbers",
            "After so many observations, and the mean over all of them.",
            *(in_markdown(table_of(curves, measure)) for measure in MEASURES),
            "## How much of this is the tolerance",
            "Mean fall of the entropy of f on A (nats) had the rank of K_AA been cut elsewhere "
            "when measuring; the picks are those above.",
            in_markdown(table_of_tolerances(curves)),
            "`picks.csv`: a row per run, the numbers of the points in S in the order picked. "
            f"`seeds.csv`: all measures with every seed. {about_expected(size)}",
        ]
    )


def begin(
    name: str,
    title: str,
    verdicts: Sequence[Verdict],
    size: Size,
    seconds: float,
    own: Sequence[str],
) -> list[str]:
    """Title, claim, command and time."""
    return [
        *head(name, title, is_smoke=size == SMOKE),
        "**Claim.** Hübotter et al. 2024: " + "; ".join(v.claim for v in verdicts) + ".",
        f"**Command.** {command_for(name, is_smoke=size == SMOKE, rules=own)}. {NEEDS}",
        f"**Time.** {seconds:.0f} s for picks, measures and figure: {describe_machine()}.",
    ]


def about_expected(size: Size) -> str:
    if size == SMOKE:
        return UNCOMPARED
    return (
        "The expected means and standard errors come with the package; a run agrees if every mean "
        f"is within {100 * REPRODUCED:.1f}% of them (RMSE aside, which depends on the order of "
        "equally good picks)."
    )


def describe_setting(curves: Curves) -> str:
    setting, size = curves.setting, curves.size
    inside = int(setting.is_target.sum())
    kernel = (
        "Laplace kernel exp(-|x - x'|_1 / 10) (lengthscale 1 in the paper's prose, 10 in its "
        "caption and code)"
        if isinstance(setting.kernel, Laplace)
        else "Gaussian kernel of lengthscale 1"
    )
    loud = f", {LOUD_STD} on [-0.5, 0.5]^2" if setting.noise_std.max() > NOISE_STD else ""
    return (
        f"{kernel}; S has {len(setting.samples):,} points of a {len(setting.axis)} x "
        f"{len(setting.axis)} grid, A has {len(setting.targets)}, {inside} of them in S; noise sd "
        f"{NOISE_STD}{loud}; {size.rounds} rounds, a point may be observed again. K_AA has rank "
        f"{curves.rank} up to {RANK_TOLERANCE:.0e} of its largest eigenvalue: ITL conditions on "
        f"f_A, and entropies are measured, with the pseudo-inverse at this tolerance (the authors "
        f"add 1e-10 to the diagonal). ITL about y sees the targets with noise sd {NOISE_STD}; "
        f"CTL is the signed rule of the paper's text, and CTL as published that of the authors' "
        f"code, Cor[y_x, f_a]^2; squared CTL is Cor[f_x, f_a]^2. TruVar: beta 1, eta 1, r 0.1, "
        f"delta 0{'' if setting.has_all_targets else '; left out, as A is not inside S'}."
    )


def observations(rounds: int) -> list[int]:
    return [count for count in LOOKED_AT if count < rounds] + [rounds]


def numbers_of(curves: Curves) -> Numbers:
    counts = observations(curves.size.rounds)

    def series(name: str, key: str) -> Series:
        error = curves.error(name, key)
        return Series.of(curves.mean(name, key)[counts], None if error is None else error[counts])

    methods = {m.key: {name: series(name, m.key) for name in MEASURES} for m in curves.methods}
    return Numbers(counts, methods)


def table_of(curves: Curves, measure: str) -> Cells:
    """A row per method, a column per number of observations, and the mean over all of them."""
    counts = observations(curves.size.rounds)
    rows = []
    for method in curves.methods:
        mean, error = curves.mean(measure, method.key), curves.error(measure, method.key)
        cells = [
            write(measure, mean[count], None if error is None else error[count])
            for count in counts
        ]
        rows.append([method.label, *cells, write(measure, curves.area(measure, method.key))])
    return [[MEASURES[measure], *(str(count) for count in counts), "mean"], *rows]


def write(measure: str, value: float, error: float | None = None) -> str:
    """A number, with its standard error if there is one."""
    form = ".1f" if measure in RISING else ".3g"
    return f"{value:{form}}" if error is None else f"{value:{form}} ± {error:.1g}"


def table_of_comparisons(curves: Curves) -> Cells:
    heading = ["method", "against", "measure", "mean", "its mean", "difference", "ahead", "wins"]
    return [heading] + [
        [
            one.one,
            one.other,
            MEASURES[measure],
            write(measure, one.means[0]),
            write(measure, one.means[1]),
            describe_difference(measure, one),
            f"{100 * share_ahead(curves, measure, ours, rival):.0f}%",
            "yes" if one.is_better else "**no**" if one.is_worse else "**unclear**",
        ]
        for (measure, ours, rival), one in compare_all(curves, JUDGED).items()
    ]


def table_of_tolerances(curves: Curves) -> Cells:
    """Mean fall of the entropy if the rank of K_AA is cut elsewhere; the picks stay."""
    heading = ["rank cut at", *(f"{tolerance:.0e}" for tolerance in TOLERANCES)]
    return [heading] + [
        [method.label, *(f"{fall_of(curves, method.key, cut):.1f}" for cut in TOLERANCES)]
        for method in curves.methods
    ]


def keep_picks(curves: Curves, path: Path) -> None:
    """Write a row per run: numbers of points in S, in the order picked."""
    rows = (
        [run.method.key, "all" if run.seed is None else str(run.seed), joined(run.picks)]
        for run in curves.runs
    )
    write_table(path, ["method", "seed", "picks"], rows)


def joined(picks: Int[np.ndarray, " t"]) -> str:
    return " ".join(map(str, picks.tolist()))


def keep_seeds(curves: Curves, path: Path) -> None:
    """Write what each method comes to with each seed. One curve may stand for all seeds."""
    rows = (
        [key, seed, count, *(f"{some[seed % len(some)][count]:.6g}" for some in measured)]
        for key in (method.key for method in curves.methods)
        for measured in [[curves.seeds(name, key) for name in MEASURES]]
        for seed in range(curves.size.seeds)
        for count in observations(curves.size.rounds)
    )
    write_table(path, ["method", "seed", "observations", *MEASURES], rows)


def draw_curves(curves: Curves) -> "Figure":
    """Draw the paper's methods and the user's. The other extra ones are in the tables alone."""
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
    for key, style in styles_for(curves).items():
        mean, error = sign * curves.mean(measure, key), curves.error(measure, key)
        draw_curve(axes, steps, mean, error, style, curves.label(key))
    axes.set_xlabel("observations")
    axes.set_xlim(0, curves.size.rounds)
    tidy(axes)


def styles_for(curves: Curves) -> dict[str, Style]:
    """The styles of the paper's methods, then of the user's."""
    drawn = {m.key: STYLES[m.key] for m in curves.methods if m.key in STYLES}
    own = [m.key for m in curves.methods if m.is_own]
    return drawn | {key: (OWN[i % len(OWN)], "-.", 2.0) for i, key in enumerate(own)}


def _scale(axes: "Axes", curves: Curves) -> None:
    """Scale logarithmically down to zero. If a level remains: linearly, without the start."""
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
    draw_level(axes, level, f"irreducible: {level:.3f}", at=0.3, below=True)
