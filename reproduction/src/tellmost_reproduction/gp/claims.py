"""The paper's claims about a setting, each judged by the curves of a run."""

from collections.abc import Callable

from tellmost.numerics import ALIKE
from tellmost_reproduction.frame.verdicts import FAILS, HOLDS, IN_PART, Verdict, conclude, percent
from tellmost_reproduction.gp.curves import (
    LOOSE_CUT,
    Comparison,
    Curves,
    compare,
    fall_of,
    needed,
    rank_methods,
    spread,
)
from tellmost_reproduction.gp.measures import ENTROPIES, MEASURES, RISING, irreducible, local_level

RULE = (
    f"*{HOLDS}*: all that the claim says is so, and what it says about entropy is so for the "
    f"entropy of f on A, which the paper shows and which depends on the rank tolerance, and for "
    f"that of y on A, which does not. *{IN_PART}*: some of it is so, or all of it with one of the "
    f"two entropies. *{FAILS}*: none of it is so. Methods *perform alike* if their mean curves "
    f"differ by at most {100 * ALIKE:.0f}% in either entropy and in mean standard deviation; that "
    f"{IN_PART} where they do with the squared CTL of the authors' code in CTL's place, and else "
    f"it {FAILS}."
)
"""When a claim gets which verdict."""


OURS = ("itl", "vtl")
RIVALS = ("uncertainty", "local-uncertainty", "random")
MEASURED = ("information", "mean_sd")  # the paper's two
JUDGED = (*MEASURED, "information_y")


def comparisons(
    curves: Curves, measures: tuple[str, ...] = JUDGED, rivals: tuple[str, ...] = RIVALS
) -> list[Comparison]:
    """ITL and VTL against the others."""
    return [
        compare(curves, measure, ours, rival)
        for measure in measures
        for ours in OURS
        for rival in rivals
    ]


def outperform(curves: Curves, figure3: Curves) -> Verdict:
    """In the setting where ITL is local uncertainty sampling, that is no rival."""
    is_same = curves.setting.name == "gp-laplace"
    rivals = tuple(key for key in RIVALS if not (is_same and key == "local-uncertainty"))
    made, about_y = (comparisons(curves, m, rivals) for m in (MEASURED, ("information_y",)))
    names = ", ".join(curves.label(key) for key in rivals)
    return Verdict(
        f"ITL and VTL beat {names} in entropy and in mean sd",
        conclude([one.wins for one in (*made, *about_y)]),
        f"{_count(made)} About y on A: {_count(about_y)}",
    )


def _count(made: list[Comparison]) -> str:
    lost = [f"{one.describe()} ({_in_words(one)})" for one in made if not one.wins]
    won = f"{len(made) - len(lost)} of {len(made)} comparisons{_narrowest(made)}."
    return f"{won} Not: {'; '.join(lost)}." if lost else won


def _narrowest(made: list[Comparison]) -> str:
    """Of those that were won, the closest on each measure."""
    closest: dict[str, Comparison] = {}
    for one in sorted(made, key=lambda one: one.margin, reverse=True):
        if one.wins:
            closest[one.measure] = one
    found = [f"{c.describe()} ({_in_words(c)}, {c.difference})" for c in closest.values()]
    return f"; most narrowly {', '.join(found)}" if found else ""


def _in_words(one: Comparison) -> str:
    measure = "mean sd" if one.measure == "mean_sd" else "fall of entropy"
    return measure if one.is_clear else f"{measure}, no clear difference"


def divide_the_work(curves: Curves, figure3: Curves) -> Verdict:
    variance = compare(curves, "mean_variance", "vtl", "itl")
    of_f, of_y = (compare(curves, measure, "itl", "vtl") for measure in ENTROPIES)
    cut = [fall_of(curves, key, LOOSE_CUT) for key in OURS]
    depends = ". Which of the two is ahead depends on the entropy" * (of_f.wins != of_y.wins)
    return Verdict(
        "VTL reduces the variance on A faster than ITL, ITL the entropy faster than VTL",
        conclude([variance.wins, of_f.wins, of_y.wins]),
        f"mean variance: {variance.describe()} ({variance.difference}); fall of the entropy of f: "
        f"{of_f.describe()} ({of_f.difference}), with the rank_methods cut at {LOOSE_CUT:.0e} ITL "
        f"{cut[0]:.4g} against VTL {cut[1]:.4g}; of the entropy of y: {of_y.describe()} "
        f"({of_y.difference}){depends}",
    )


def lead(curves: Curves, figure3: Curves) -> Verdict:
    """Of all the paper's methods."""
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
    made = [
        (
            compare(figure3, measure, ours, "uncertainty"),
            compare(curves, measure, ours, "uncertainty"),
        )
        for measure in JUDGED
        for ours in OURS
    ]
    facts = [_advantage(sparse) > _advantage(dense) for dense, sparse in made]
    return Verdict(
        "The advantage over UnSa grows as the target gets sparser",
        conclude(facts),
        f"UnSa's mean sd over theirs: {_grown(made, 'mean_sd')}; their fall of entropy less "
        f"UnSa's: {_grown(made, 'information')}, about y {_grown(made, 'information_y')}. "
        f"{_patience(curves, figure3)}",
    )


def _advantage(one: Comparison) -> float:
    first, second = one.means
    return first - second if one.measure in RISING else second / first


def _grown(made: list[tuple[Comparison, Comparison]], measure: str) -> str:
    unit = " nats" if measure in RISING else " times"
    return ", ".join(
        f"{dense.one} {_advantage(dense):.3g} -> {_advantage(sparse):.3g}{unit}"
        for dense, sparse in made
        if dense.measure == measure
    )


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


FIRST = 25  # picks that the paper's figure 2 shows


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


MARGINAL = ("mm-itl", "vtl", "ctl")
DIRECTED = ("itl", "vtl", "ctl", "mm-itl", "local-uncertainty", "truvar")


def perform_alike(curves: Curves, figure3: Curves) -> Verdict:
    return Verdict(
        f"MM-ITL, VTL and CTL perform alike (within {percent(ALIKE)})",
        judge_likeness(curves, MARGINAL),
        f"{_differences(curves, MARGINAL)}; {_areas(curves, (*MARGINAL, 'ctl-squared'))}",
    )


def all_alike(curves: Curves, figure3: Curves) -> Verdict:
    shown = ("itl", "ctl", "ctl-squared", "uncertainty", "random")
    return Verdict(
        f"All but UnSa and Random perform alike (within {percent(ALIKE)})",
        judge_likeness(curves, DIRECTED),
        f"{_differences(curves, DIRECTED)}; {_areas(curves, shown)}",
    )


def judge_likeness(curves: Curves, keys: tuple[str, ...]) -> str:
    """As the text has CTL, else as the authors' code has it."""
    if difference(curves, keys) <= ALIKE:
        return HOLDS
    return IN_PART if difference(curves, _squared(keys)) <= ALIKE else FAILS


def difference(curves: Curves, keys: tuple[str, ...]) -> float:
    """The largest of those in mean standard deviation and in either entropy."""
    return max(spread(curves, measure, keys) for measure in JUDGED)


def _squared(keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("ctl-squared" if key == "ctl" else key for key in keys)


def _differences(curves: Curves, keys: tuple[str, ...]) -> str:
    others = tuple(key for key in keys if key != "ctl")
    found = [100 * difference(curves, some) for some in (keys, _squared(keys), others)]
    return (
        f"they differ by up to {found[0]:.3g}%, with squared CTL in CTL's place by {found[1]:.3g}%"
        f", without CTL by {found[2]:.3g}%"
    )


def _areas(curves: Curves, keys: tuple[str, ...]) -> str:
    return "; ".join(
        f"{MEASURES[measure]}: "
        + ", ".join(f"{curves.label(key)} {curves.area(measure, key):.4g}" for key in keys)
        for measure in MEASURED
    )


def equal_local(curves: Curves, figure3: Curves) -> Verdict:
    one, other = (curves.of(key)[0].picks for key in ("itl", "local-uncertainty"))
    same = int((one == other).sum())
    return Verdict(
        "ITL equals local UnSa",
        conclude([same == len(one)]),
        f"{same} of {len(one)} picks are the same",
    )


Judge = Callable[[Curves, Curves], Verdict]
"""From the curves of a setting, and those of figure 3 beside them."""

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
