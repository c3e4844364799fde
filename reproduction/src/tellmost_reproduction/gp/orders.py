"""Claims about who is ahead.

Curves are compared by their means over 1 to t observations. "Entropy" in the paper is that of f on
A, which depends on the tolerance at which the rank of K_AA is cut; that of y on A needs none. What
is claimed about entropy is judged by both.
"""

from tellmost_reproduction.gp.comparing import LOOSE_CUT, Comparison, compare, fall_of, rank
from tellmost_reproduction.gp.curves import Curves, needed
from tellmost_reproduction.gp.measures import ENTROPIES, MEASURES, RISING
from tellmost_reproduction.verdicts import Verdict, conclude

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
        f"{of_f.describe()} ({of_f.difference}), with the rank cut at {LOOSE_CUT:.0e} ITL "
        f"{cut[0]:.4g} against VTL {cut[1]:.4g}; of the entropy of y: {of_y.describe()} "
        f"({of_y.difference}){depends}",
    )


def lead(curves: Curves, figure3: Curves) -> Verdict:
    """Of all the paper's methods."""
    measured = {"mean_variance": "vtl", **dict.fromkeys(ENTROPIES, "itl")}
    found = {measure: rank(curves, measure) for measure in measured}
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
