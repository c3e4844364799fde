"""The paper's claims about a setting, each judged by the curves of a run.

Curves are compared by their means over 1 to t observations. "Entropy" in the paper is that of f on
A, which depends on the tolerance at which the rank of K_AA is cut. That of y on A needs none. What
is claimed about entropy is judged by both.
"""

from collections.abc import Callable, Sequence

from tellmost_reproduction.frame.comparing import PairedComparison
from tellmost_reproduction.frame.verdicts import FAILS, HOLDS, IN_PART, Verdict, conclude, percent
from tellmost_reproduction.gp.curves import (
    LOOSE_CUT,
    Curves,
    compare,
    fall_of,
    needed,
    rank_methods,
    spread,
)
from tellmost_reproduction.gp.measures import ENTROPIES, MEASURES, RISING, irreducible, local_level

ALIKE = 0.05
"""Methods whose mean curves differ by less than this share perform alike: a twentieth cannot be
seen in a figure of the paper's size."""

RULE = (
    f"*{HOLDS}*: all that the claim says is so, and what it says about entropy is so for the "
    f"entropy of f on A, which the paper shows and which depends on the rank tolerance, and for "
    f"that of y on A, which does not. *{IN_PART}*: some of it is so, or all of it with one of the "
    f"two entropies. *{FAILS}*: none of it is so. Methods *perform alike* if their mean curves "
    f"differ by at most {100 * ALIKE:.0f}% in either entropy and in mean standard deviation. CTL "
    f"is judged there as the authors' published code has it, by squared correlations with noisy "
    f"observations; the signed rule of the paper's text is shown beside it."
)
"""When a claim gets which verdict."""

OURS = ("itl", "vtl")
RIVALS = ("uncertainty", "local-uncertainty", "random")
PUBLISHED = "ctl-published"
MARGINAL = ("mm-itl", "vtl", PUBLISHED)
DIRECTED = ("itl", "vtl", PUBLISHED, "mm-itl", "local-uncertainty", "truvar")
OTHER_FORMS = ("ctl-squared", "ctl", "ctl-y")
"""CTL by squared correlations with f, as the text has it, and by signed ones with y."""

MEASURED = ("information", "mean_sd")  # the paper's two
JUDGED = (*MEASURED, "information_y")
FIRST = 25  # picks that the paper's figure 2 shows

Judge = Callable[[Curves, Curves], Verdict]
"""Judges the curves of a setting, with those of figure 3 beside them."""

Pairs = dict[tuple[str, str, str], PairedComparison]
"""Comparisons by measure and the keys of both methods."""


def compare_all(curves: Curves, measures: Sequence[str], rivals: Sequence[str] = RIVALS) -> Pairs:
    """Compare ITL and VTL with the others."""
    return {
        (measure, ours, rival): compare(curves, measure, ours, rival)
        for measure in measures
        for ours in OURS
        for rival in rivals
    }


def describe(one: PairedComparison) -> str:
    return f"{one.one} {one.means[0]:.4g} against {one.other} {one.means[1]:.4g}"


def describe_difference(measure: str, one: PairedComparison) -> str:
    """The difference in nats, or as a share of the other's."""
    mean, rival = one.means
    if measure in RISING:
        return f"{mean - rival:+.1f} nats"
    return f"{100 * (mean / rival - 1):+.2g}%"


def outperform(curves: Curves, figure3: Curves) -> Verdict:
    """Local uncertainty sampling is no rival where ITL equals it."""
    is_same = curves.setting.name == "gp-laplace"
    rivals = tuple(key for key in RIVALS if not (is_same and key == "local-uncertainty"))
    made, about_y = (compare_all(curves, m, rivals) for m in (MEASURED, ("information_y",)))
    names = ", ".join(curves.label(key) for key in rivals)
    return Verdict(
        f"ITL and VTL beat {names} in entropy and in mean sd",
        conclude([one.is_better for one in (*made.values(), *about_y.values())]),
        f"{_count(made)} About y on A: {_count(about_y)}",
    )


def _count(made: Pairs) -> str:
    lost = [
        f"{describe(one)} ({_in_words(measure, one)})"
        for (measure, *_), one in made.items()
        if not one.is_better
    ]
    won = f"{len(made) - len(lost)} of {len(made)} comparisons{_narrowest(made)}."
    return f"{won} Not: {'; '.join(lost)}." if lost else won


def _narrowest(made: Pairs) -> str:
    """The closest of those that were won, on each measure."""
    closest: dict[str, PairedComparison] = {}
    for (measure, *_), one in sorted(made.items(), key=lambda pair: -_margin(pair[1])):
        if one.is_better:
            closest[measure] = one
    found = [
        f"{describe(one)} ({_in_words(measure, one)}, {describe_difference(measure, one)})"
        for measure, one in closest.items()
    ]
    return f"; most narrowly {', '.join(found)}" if found else ""


def _margin(one: PairedComparison) -> float:
    """How far apart they are, as a share of the other's."""
    mean, rival = one.means
    return abs(mean / rival - 1) if rival else 0.0


def _in_words(measure: str, one: PairedComparison) -> str:
    words = "mean sd" if measure == "mean_sd" else "fall of entropy"
    return words if one.sign else f"{words}, no clear difference"


def divide_the_work(curves: Curves, figure3: Curves) -> Verdict:
    variance = compare(curves, "mean_variance", "vtl", "itl")
    of_f, of_y = (compare(curves, measure, "itl", "vtl") for measure in ENTROPIES)
    cut = [fall_of(curves, key, LOOSE_CUT) for key in OURS]
    depends = ". Which of the two is ahead depends on the entropy"
    return Verdict(
        "VTL reduces the variance on A faster than ITL, ITL the entropy faster than VTL",
        conclude([variance.is_better, of_f.is_better, of_y.is_better]),
        f"mean variance: {describe(variance)} ({describe_difference('mean_variance', variance)}); "
        f"fall of the entropy of f: {describe(of_f)} ({describe_difference(ENTROPIES[0], of_f)}), "
        f"with the rank cut at {LOOSE_CUT:.0e} ITL {cut[0]:.4g} against VTL {cut[1]:.4g}; of the "
        f"entropy of y: {describe(of_y)} ({describe_difference(ENTROPIES[1], of_y)})"
        f"{depends * (of_f.is_better != of_y.is_better)}",
    )


def lead(curves: Curves, figure3: Curves) -> Verdict:
    """Compare all the paper's methods."""
    measured = {"mean_variance": "vtl", **dict.fromkeys(ENTROPIES, "itl")}
    found = {measure: rank_methods(curves, measure) for measure in measured}
    firsts = [found[measure][0] == "itl" for measure in ENTROPIES]
    depends = ". Whether ITL is best depends on the entropy" * (firsts[0] != firsts[1])
    return Verdict(
        "VTL is best of all in variance, ITL in entropy",
        conclude([found[measure][0] == key for measure, key in measured.items()]),
        "; ".join(f"{MEASURES[m]}: {_podium(curves, m, keys)}" for m, keys in found.items())
        + depends,
    )


def _podium(curves: Curves, measure: str, keys: list[str]) -> str:
    """The first three, and ITL wherever it came."""
    return ", ".join(
        f"{curves.label(keys[i])} {curves.area(measure, keys[i]):.4g}"
        + (f" (place {i + 1})" if i > 2 else "")
        for i in sorted({0, 1, 2, keys.index("itl")})
    )


def grow(curves: Curves, figure3: Curves) -> Verdict:
    dense, sparse = (compare_all(c, JUDGED, ("uncertainty",)) for c in (figure3, curves))
    before, after = (
        {key: _advantage(key[0], one) for key, one in made.items()} for made in (dense, sparse)
    )

    def words(measure: str) -> str:
        unit = " nats" if measure in RISING else " times"
        return ", ".join(
            f"{one.one} {before[key]:.3g} -> {after[key]:.3g}{unit}"
            for key, one in dense.items()
            if key[0] == measure
        )

    return Verdict(
        "The advantage over UnSa grows as the target gets sparser",
        conclude([after[key] > before[key] for key in before]),
        f"UnSa's mean sd over theirs: {words('mean_sd')}; their fall of entropy less UnSa's: "
        f"{words('information')}, about y {words('information_y')}. {_patience(curves, figure3)}",
    )


def _advantage(measure: str, one: PairedComparison) -> float:
    first, second = one.means
    return first - second if measure in RISING else second / first


def _patience(curves: Curves, figure3: Curves) -> str:
    """Observations that UnSa needs for what ITL has after a tenth of all."""
    tenth = curves.size.rounds // 10
    found = []
    for one in (figure3, curves):
        level = one.mean("mean_sd", "itl")[tenth]
        took = needed(one.mean("mean_sd", "uncertainty"), level)
        found.append(f"{took}" if took is not None else f"more than {one.size.rounds}")
    return (
        f"What ITL knows after {tenth} observations (mean sd) UnSa knows after "
        f"{' and '.join(found)}"
    )


def stay_inside(curves: Curves, figure3: Curves) -> Verdict:
    shares = [curves.share("itl", curves.setting.is_target, first) for first in (FIRST, None)]
    return Verdict(
        "ITL does not leave A",
        conclude([share == 1.0 for share in shares]),
        f"{percent(shares[0])} of the first {FIRST} picks and {percent(shares[1])} of all "
        f"{curves.size.rounds} are in A",
    )


def leak(curves: Curves, figure3: Curves) -> Verdict:
    outside = ~curves.setting.is_target
    shares = [curves.share("itl", outside, first) for first in (FIRST, None)]
    return Verdict(
        'Information "leaks": ITL picks points outside A',
        conclude([share > 0 for share in shares]),
        f"{percent(shares[0])} of the first {FIRST} picks and {percent(shares[1])} of all "
        f"{curves.size.rounds} are outside A",
    )


def local_misses(curves: Curves, figure3: Curves) -> Verdict:
    floor, limit = (float(sd(curves.setting).mean()) for sd in (irreducible, local_level))
    after = {key: curves.mean("mean_sd", key)[-1] for key in ("local-uncertainty", *OURS)}
    reached = ", ".join(f"{curves.label(key)} {value:.4g}" for key, value in after.items())
    return Verdict(
        "Local UnSa does not reach the irreducible level",
        conclude([limit > floor]),
        f"mean sd given all of S {floor:.4g}, given all of A in S {limit:.4g} "
        f"({limit / floor:.2f} times as much); after {curves.size.rounds} observations {reached}",
    )


def avoid_noise(curves: Curves, figure3: Curves) -> Verdict:
    loud = curves.setting.noise_std > curves.setting.noise_std.min()
    shares = {key: curves.share(key, loud) for key in ("itl", "vtl", *RIVALS, "ctl")}
    before, after = (c.area("mean_sd", "itl") for c in (figure3, curves))
    others = [c.area("mean_sd", "uncertainty") for c in (figure3, curves)]
    return Verdict(
        "ITL avoids the noisy square, which speeds learning up",
        conclude([shares["itl"] == 0.0, after / before < others[1] / others[0]]),
        "share of picks there: "
        + ", ".join(f"{curves.label(k)} {percent(s)}" for k, s in shares.items())
        + f"; with equal noise ITL {percent(figure3.share('itl', loud))}. The noise takes ITL's "
        f"mean sd from {before:.4g} to {after:.4g}, that of UnSa from {others[0]:.4g} to "
        f"{others[1]:.4g}",
    )


def perform_alike(curves: Curves, figure3: Curves) -> Verdict:
    shown = (*MARGINAL, *OTHER_FORMS)
    return judge_likeness(curves, "MM-ITL, VTL and CTL perform alike", MARGINAL, shown)


def all_alike(curves: Curves, figure3: Curves) -> Verdict:
    shown = ("itl", PUBLISHED, *OTHER_FORMS, "uncertainty", "random")
    return judge_likeness(curves, "All but UnSa and Random perform alike", DIRECTED, shown)


def judge_likeness(
    curves: Curves, claim: str, keys: tuple[str, ...], shown: tuple[str, ...]
) -> Verdict:
    """Judge by the CTL that the authors ran, and say what other forms of it do."""

    def apart(some: Sequence[str]) -> float:
        return max(spread(curves, measure, tuple(some)) for measure in JUDGED)

    instead = {
        f"with {curves.label(form)} in its place": [
            form if key == PUBLISHED else key for key in keys
        ]
        for form in OTHER_FORMS
    }
    instead["without it"] = [key for key in keys if key != PUBLISHED]
    others = ", ".join(f"{words} {100 * apart(some):.3g}%" for words, some in instead.items())
    areas = "; ".join(
        f"{MEASURES[measure]}: "
        + ", ".join(f"{curves.label(key)} {curves.area(measure, key):.4g}" for key in shown)
        for measure in MEASURED
    )
    return Verdict(
        f"{claim} (within {percent(ALIKE)})",
        conclude([apart(keys) <= ALIKE]),
        f"with CTL as published they differ by up to {100 * apart(keys):.3g}%, {others}; {areas}",
    )


def equal_local(curves: Curves, figure3: Curves) -> Verdict:
    one, other = (curves.of(key)[0].picks for key in ("itl", "local-uncertainty"))
    same = int((one == other).sum())
    return Verdict(
        "ITL equals local UnSa",
        conclude([same == len(one)]),
        f"{same} of {len(one)} picks are the same",
    )


ORDER: tuple[Judge, ...] = (outperform, divide_the_work, lead, perform_alike)
CLAIMS: dict[str, tuple[Judge, ...]] = {
    "gp-fig3": ORDER,
    "gp-laplace": (outperform, stay_inside, equal_local, all_alike, perform_alike),
    "gp-extrapolation": (*ORDER, leak, local_misses),
    "gp-extrapolation-laplace": (*ORDER, leak, local_misses),
    "gp-heteroscedastic": (*ORDER, avoid_noise),
    "gp-sparse": (*ORDER, grow),
}
"""What is claimed about each setting."""

UNCLAIMED = {
    "gp-laplace": (
        "That ITL and VTL beat local UnSa, and that VTL is best in variance and ITL in entropy. "
        "The paper does not claim it here: it says that all but UnSa and Random perform equally "
        "well under this kernel, and that ITL and local UnSa coincide. The numbers are below."
    )
}
"""What is claimed elsewhere and not here, and why."""


def judge(curves: Curves, figure3: Curves) -> list[Verdict]:
    return [claim(curves, figure3) for claim in CLAIMS[curves.setting.name]]
