"""The page of a results folder, and the tables on it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tellmost.kernels import Laplace
from tellmost.numerics import RANK_TOLERANCE, REPRODUCED
from tellmost.shapes import Int
from tellmost_reproduction.frame.folders import Cells, describe_machine, in_markdown, write_table
from tellmost_reproduction.frame.numbers import (
    Numbers,
    Series,
    find_differences,
    read_expected,
    shorten,
)
from tellmost_reproduction.frame.verdicts import Verdict, tabulate_verdicts
from tellmost_reproduction.gp.claims import RULE, UNCLAIMED, comparisons
from tellmost_reproduction.gp.curves import TOLERANCES, Curves, Run, fall_of
from tellmost_reproduction.gp.first_picks import Samples
from tellmost_reproduction.gp.measures import MEASURES, RISING, measure
from tellmost_reproduction.gp.settings import LOUD_STD, NOISE_STD, SMOKE, Size

LOOKED_AT = (10, 25, 50, 100, 200, 300, 400, 500)
"""Numbers of observations after which results are written down."""

UNCOMPARED = frozenset({"rmse"})
"""Depends on y: two picks of equal gain that change places meet other errors."""


def observations(rounds: int) -> list[int]:
    return [count for count in LOOKED_AT if count < rounds] + [rounds]


def numbers_of(curves: Curves) -> Numbers:
    counts = observations(curves.size.rounds)
    methods = {
        method.key: {name: _series(curves, name, method.key, counts) for name in MEASURES}
        for method in curves.methods
    }
    return Numbers(counts, methods)


def _series(curves: Curves, name: str, key: str, counts: list[int]) -> Series:
    error = curves.error(name, key)
    return Series(
        [shorten(value) for value in curves.mean(name, key)[counts]],
        None if error is None else [shorten(value) for value in error[counts]],
    )


def numbers_of_samples(samples: Samples) -> Numbers:
    """What the last of the first picks leaves, and the share outside A: mirrored picks agree."""
    methods: dict[str, dict[str, Series]] = {}
    for key, by_setting in samples.picks.items():
        found = methods.setdefault(key, {})
        for name, picks in by_setting.items():
            known = measure(samples.settings[name], picks, range(1))
            found[f"{name}: share outside A"] = Series([samples.outside(key, name)], None)
            found[f"{name}: information"] = Series([shorten(known.information[-1])], None)
            found[f"{name}: mean_sd"] = Series([shorten(known.mean_sd[-1])], None)
    return Numbers([len(next(iter(samples.picks["itl"].values())))], methods)


def read_numbers(name: str) -> Numbers:
    return read_expected("tellmost_reproduction.gp", name)


def differences(got: Numbers, expected: Numbers) -> list[str]:
    return find_differences(got, expected, uncompared=UNCOMPARED)


def table_of(curves: Curves, measure: str) -> Cells:
    """A row per method, a column per number of observations, and the mean over all of them."""
    counts = observations(curves.size.rounds)
    heading = [MEASURES[measure], *(str(count) for count in counts), "mean"]
    return [heading, *(_row(curves, measure, m.key, counts) for m in curves.methods)]


def _row(curves: Curves, measure: str, key: str, counts: Sequence[int]) -> list[str]:
    mean, error = curves.mean(measure, key), curves.error(measure, key)
    cells = [
        write(measure, mean[count], None if error is None else error[count]) for count in counts
    ]
    return [curves.label(key), *cells, write(measure, curves.area(measure, key), None)]


def write(measure: str, value: float, error: float | None) -> str:
    """A number, with its standard error where there is one."""
    form = ".1f" if measure in RISING else ".3g"
    return f"{value:{form}}" if error is None else f"{value:{form}} ± {error:.1g}"


def table_of_comparisons(curves: Curves) -> Cells:
    heading = ["method", "against", "measure", "mean", "its mean", "difference", "ahead", "wins"]
    return [heading] + [
        [
            one.one,
            one.other,
            MEASURES[one.measure],
            write(one.measure, one.means[0], None),
            write(one.measure, one.means[1], None),
            one.difference,
            f"{100 * one.ahead:.0f}%",
            "yes" if one.wins else "**no**" if one.is_clear else "**unclear**",
        ]
        for one in comparisons(curves)
    ]


def table_of_tolerances(curves: Curves) -> Cells:
    """Mean fall of the entropy, had the rank of K_AA been cut elsewhere; picks as they are."""
    heading = ["rank cut at", *(f"{tolerance:.0e}" for tolerance in TOLERANCES)]
    return [heading] + [
        [
            method.label,
            *(f"{fall_of(curves, method.key, tolerance):.1f}" for tolerance in TOLERANCES),
        ]
        for method in curves.methods
    ]


ABOUT_SEEDS = (
    "Variances do not depend on y, and ties go to the lowest index, so every seed gives the same "
    "picks and the same curve for every method but {random}: one number stands for all seeds, and "
    "there is no standard error to print. The numbers of {random} are means over {seeds} seeds, ± "
    "one standard error. The error of the posterior mean (RMSE) depends on y, so there every "
    "method has a standard error."
)
ABOUT_ENTROPY = (
    "Entropies are compared with that at the start: the level itself is set by rounding. They "
    "come from Cholesky factors of the observations and have no numerical noise, so nothing is "
    "smoothed (the paper takes a running mean of 5)."
)

ABOUT_FIGURE = (
    "The band is one standard error of {random}. Where an irreducible level remains, the axis of "
    "the standard deviation is linear and leaves out the start. ITL about y and squared CTL, "
    "which the paper does not have, are in the tables only."
)


def write_readme(
    curves: Curves, verdicts: Sequence[Verdict], *, seconds: float, own: Sequence[str]
) -> str:
    setting, random = curves.setting, _random_methods(curves)
    parts = [
        *_head(setting.name, setting.title, verdicts, curves.size, seconds, own),
        f"**Set-up.** {describe_setting(curves)}",
        f"**Seeds.** {ABOUT_SEEDS.format(random=random, seeds=curves.size.seeds)}",
        "**Result.**",
        tabulate_verdicts(verdicts),
        f"**Verdicts.** {RULE}",
        *_unclaimed(setting.name),
        "![Entropy and mean standard deviation against observations](figure.svg)",
        f"{ABOUT_ENTROPY} {ABOUT_FIGURE.format(random=random)}",
        *_comparisons(curves),
        "## Numbers",
        "After so many observations, and the mean over all of them.",
        *(in_markdown(table_of(curves, measure)) for measure in MEASURES),
        *_tolerances(curves),
        _files(curves.size),
    ]
    return "\n\n".join(parts) + "\n"


def _random_methods(curves: Curves) -> str:
    return " and ".join(method.label for method in curves.methods if method.is_random)


def _unclaimed(name: str) -> list[str]:
    return [f"**Not judged here.** {UNCLAIMED[name]}"] if name in UNCLAIMED else []


def write_samples_readme(
    samples: Samples,
    verdicts: Sequence[Verdict],
    *,
    size: Size,
    seconds: float,
    own: Sequence[str],
) -> str:
    title = "the first picks of ITL"
    count = len(samples.picks["itl"]["gp-fig3"])
    parts = [
        *_head("gp-fig2", title, verdicts, size, seconds, own),
        f"**Set-up.** The first {count} picks of ITL under the Gaussian kernel (lengthscale 1) "
        f"and the Laplace kernel (lengthscale 10), with A inside S and with A mostly outside; "
        f"noise sd {NOISE_STD}. K_AA is inverted up to {RANK_TOLERANCE:.0e} of its largest "
        f"eigenvalue. The picks do not depend on y{_drawn(samples)}. {_overlap(samples)}",
        "**Result.**",
        tabulate_verdicts(verdicts),
        "![Where ITL picks first](figure.svg)",
        "`picks.csv`: the numbers of the points in S, in the order picked, with those of local "
        f"UnSa. {_about_expected(size)}",
    ]
    return "\n\n".join(parts) + "\n"


def _drawn(samples: Samples) -> str:
    """Of rules that draw, the picks shown are those of one seed."""
    random = [method.label for method in samples.methods if method.is_random]
    if not random:
        return ", so they are the same for every seed"
    return f"; those of {' and '.join(random)} are drawn, and shown for the seed that the rule has"


def _overlap(samples: Samples) -> str:
    outside = samples.settings["gp-extrapolation"]
    return (
        f"Where A is mostly outside, {int(outside.is_target.sum())} of its {len(outside.targets)} "
        f"points are in S, although the paper calls them disjoint."
    )


def _head(
    name: str,
    title: str,
    verdicts: Sequence[Verdict],
    size: Size,
    seconds: float,
    own: Sequence[str],
) -> list[str]:
    return [
        f"# {name}: {title}",
        *about_size(size),
        "**Claim.** Hübotter et al. 2024: " + "; ".join(v.claim for v in verdicts) + ".",
        f"**Command.** `{command_for(name, size, own)}`. Needs "
        f'`pip install "tellmost[cli,plot]"`.',
        f"**Time.** {seconds:.0f} s for picks, measures and figure: {describe_machine()}.",
    ]


def about_size(size: Size) -> list[str]:
    """A warning at the head of a page whose numbers are not those of the paper's size."""
    small = "**Smoke size: this says that the code runs, and nothing about the paper.**"
    return [small] if size == SMOKE else []


def command_for(name: str, size: Size, own: Sequence[str]) -> str:
    """What was typed; ``own``: rules of the user's."""
    rules = "".join(f" --rule {rule}" for rule in own)
    return f"tellmost reproduce {name}{' --smoke' * (size == SMOKE)}{rules}"


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
        f"squared CTL is what the authors' code has in the place of CTL. TruVar: beta 1, eta 1, "
        f"r 0.1, delta 0{'' if setting.has_all_targets else '; left out, as A is not inside S'}."
    )


def _comparisons(curves: Curves) -> list[str]:
    return [
        "## One against the other",
        f"Means over 1 to {curves.size.rounds} observations; *ahead*: the share of these after "
        f"which the method is better; against Random a difference counts if it exceeds chance at "
        f"95%.",
        in_markdown(table_of_comparisons(curves)),
    ]


def _tolerances(curves: Curves) -> list[str]:
    return [
        "## How much of this is the tolerance",
        "Mean fall of the entropy of f on A (nats) had the rank of K_AA been cut elsewhere when "
        "measuring; the picks are those above.",
        in_markdown(table_of_tolerances(curves)),
    ]


def _files(size: Size) -> str:
    return (
        "`picks.csv`: a row per run, the numbers of the points in S in the order picked. "
        f"`seeds.csv`: all measures with every seed. {_about_expected(size)}"
    )


def _about_expected(size: Size) -> str:
    if size == SMOKE:
        return "Nothing is compared with the expected numbers at this size."
    return (
        "The expected means and standard errors come with the package; a run agrees if every mean "
        f"is within {100 * REPRODUCED:.1f}% of them (RMSE aside, which depends on the order of "
        "equally good picks)."
    )


def keep_picks(curves: Curves, path: Path) -> None:
    """A row per run: numbers of points in S, in the order picked."""
    rows = ([run.method.key, _seed(run), _joined(run.picks)] for run in curves.runs)
    write_table(path, ["method", "seed", "picks"], rows)


def keep_samples(samples: Samples, path: Path) -> None:
    rows = (
        [setting, key, _joined(picks)]
        for key, by_setting in samples.picks.items()
        for setting, picks in by_setting.items()
    )
    write_table(path, ["setting", "method", "picks"], rows)


def keep_seeds(curves: Curves, path: Path) -> None:
    """What each method comes to with each seed; only errors differ where the picks do not."""
    rows = (
        [key, seed, count, *(f"{curve[count]:.6g}" for curve in measured)]
        for key in (method.key for method in curves.methods)
        for seed in range(curves.size.seeds)
        for measured in [[_of_seed(curves.seeds(name, key), seed) for name in MEASURES]]
        for count in observations(curves.size.rounds)
    )
    write_table(path, ["method", "seed", "observations", *MEASURES], rows)


def _seed(run: Run) -> str:
    return "all" if run.seed is None else str(run.seed)


def _joined(picks: Int[np.ndarray, " t"]) -> str:
    return " ".join(map(str, picks.tolist()))


def _of_seed(curves: np.ndarray, seed: int) -> np.ndarray:
    return curves[seed if len(curves) > 1 else 0]
