"""The paper's claims about a setting, each judged by the curves of a run.

Curves are compared by their means over 1 to t observations. "Entropy" is that of f on A, cut at
the rank tolerance, as in the paper's figures; where the verdict would be another for the entropy
of y on A, which needs no tolerance, that is said.
"""

from collections.abc import Callable

from sightline.experiments.gp import comparing
from sightline.experiments.gp.comparing import Comparison, compare, spread
from sightline.experiments.gp.curves import Curves, needed
from sightline.experiments.gp.levels import irreducible, local_level
from sightline.experiments.gp.measures import MEASURES
from sightline.experiments.gp.verdicts import Verdict, conclude, percent
from sightline.numerics import ALIKE

OURS = ("itl", "vtl")
RIVALS = ("uncertainty", "local-uncertainty", "random")
MEASURED = ("information", "mean_sd")  # the paper's two
DIRECTED = ("itl", "vtl", "ctl", "mm-itl", "local-uncertainty", "truvar")
FIRST = 25  # picks that the paper's figure 2 shows

Judge = Callable[[Curves, Curves], Verdict]
"""From the curves of a setting, and those of figure 3 beside them."""


def judge(curves: Curves, figure3: Curves) -> list[Verdict]:
    return [claim(curves, figure3) for claim in CLAIMS[curves.setting.name]]


def comparisons(
    curves: Curves,
    measures: tuple[str, ...] = (*MEASURED, "information_y"),
    rivals: tuple[str, ...] = RIVALS,
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
    made = comparisons(curves, MEASURED, rivals)
    names = ", ".join(curves.label(key) for key in rivals)
    return Verdict(
        f"ITL and VTL beat {names} in entropy and in mean sd",
        conclude([one.wins for one in made]),
        f"{_count(made)} About y on A: {_count(comparisons(curves, ('information_y',), rivals))}",
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
    entropy = compare(curves, "information", "itl", "vtl")
    return Verdict(
        "VTL reduces the variance on A faster than ITL, ITL the entropy faster than VTL",
        conclude([variance.wins, entropy.wins]),
        f"mean variance: {variance.describe()} ({variance.difference}); fall of entropy: "
        f"{entropy.describe()} ({entropy.difference})",
    )


def lead(curves: Curves, figure3: Curves) -> Verdict:
    """Of all the paper's methods."""
    measured = {"mean_variance": "vtl", "information": "itl"}
    found = {measure: comparing.rank(curves, measure) for measure in measured}
    return Verdict(
        "VTL is best of all in variance, ITL in entropy",
        conclude([found[measure][0] == key for measure, key in measured.items()]),
        "; ".join(f"{MEASURES[m]}: {_podium(curves, m, keys)}" for m, keys in found.items()),
    )


def _podium(curves: Curves, measure: str, keys: list[str]) -> str:
    return ", ".join(f"{curves.label(k)} {curves.area(measure, k):.4g}" for k in keys[:3])


def perform_alike(curves: Curves, figure3: Curves) -> Verdict:
    keys = ("mm-itl", "vtl", "ctl")
    two, three = (max(spread(curves, m, some) for m in MEASURED) for some in (keys[:2], keys))
    return Verdict(
        f"MM-ITL, VTL and CTL perform alike (within {percent(ALIKE)})",
        conclude([two <= ALIKE, three <= ALIKE]),
        f"MM-ITL and VTL differ by at most {100 * two:.1f}%, with CTL by {percent(three)}; "
        f"{_areas(curves, (*keys, 'ctl-squared'))}",
    )


def _areas(curves: Curves, keys: tuple[str, ...]) -> str:
    return "; ".join(
        f"{MEASURES[measure]}: "
        + ", ".join(f"{curves.label(key)} {curves.area(measure, key):.4g}" for key in keys)
        for measure in MEASURED
    )


def stay_inside(curves: Curves, figure3: Curves) -> Verdict:
    shares = [curves.share("itl", curves.setting.is_target, first) for first in (FIRST, None)]
    return Verdict(
        "ITL does not leave A",
        conclude([share == 1.0 for share in shares]),
        f"{percent(shares[0])} of the first {FIRST} picks and {percent(shares[1])} of all "
        f"{curves.size.rounds} are in A",
    )


def equal_local(curves: Curves, figure3: Curves) -> Verdict:
    one, other = (curves.of(key)[0].picks for key in ("itl", "local-uncertainty"))
    same = int((one == other).sum())
    return Verdict(
        "ITL equals local UnSa",
        conclude([same == len(one)]),
        f"{same} of {len(one)} picks are the same",
    )


def all_alike(curves: Curves, figure3: Curves) -> Verdict:
    without = tuple(key for key in DIRECTED if key != "ctl")
    both = [(measure, keys) for measure in MEASURED for keys in (DIRECTED, without)]
    worst = max(spread(curves, measure, without) for measure in MEASURED)
    squared = max(spread(curves, measure, (*without, "ctl-squared")) for measure in MEASURED)
    return Verdict(
        f"All but UnSa and Random perform alike (within {percent(ALIKE)})",
        conclude([spread(curves, measure, keys) <= ALIKE for measure, keys in both]),
        f"without CTL they differ by at most {100 * worst:.1f}%, with squared CTL in its place by "
        f"{100 * squared:.1f}%; {_areas(curves, ('itl', 'ctl', 'uncertainty', 'random'))}",
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


def grow(curves: Curves, figure3: Curves) -> Verdict:
    made = [
        (
            compare(figure3, measure, ours, "uncertainty"),
            compare(curves, measure, ours, "uncertainty"),
        )
        for measure in MEASURED
        for ours in OURS
    ]
    facts = [_advantage(sparse) > _advantage(dense) for dense, sparse in made]
    return Verdict(
        "The advantage over UnSa grows as the target gets sparser",
        conclude(facts),
        f"UnSa's mean sd over theirs: {_grown(made, 'mean_sd')}; their fall of entropy less "
        f"UnSa's: {_grown(made, 'information')}. {_patience(curves, figure3)}",
    )


def _advantage(one: Comparison) -> float:
    first, second = one.means
    return first - second if one.measure == "information" else second / first


def _grown(made: list[tuple[Comparison, Comparison]], measure: str) -> str:
    unit = " nats" if measure == "information" else " times"
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


ORDER: tuple[Judge, ...] = (outperform, divide_the_work, lead, perform_alike)
CLAIMS: dict[str, tuple[Judge, ...]] = {
    "gp-fig3": ORDER,
    "gp-laplace": (outperform, stay_inside, equal_local, all_alike),
    "gp-extrapolation": (*ORDER, leak, local_misses),
    "gp-extrapolation-laplace": (*ORDER, leak, local_misses),
    "gp-heteroscedastic": (*ORDER, avoid_noise),
    "gp-sparse": (*ORDER, grow),
}
"""What is claimed about each setting."""
