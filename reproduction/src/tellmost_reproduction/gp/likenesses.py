"""Claims that methods perform alike: their mean curves differ by at most ``numerics.ALIKE``.

CTL in the paper's text is signed, in the authors' code squared. A claim that holds only with the
squared rule in CTL's place holds in part.
"""

from tellmost.numerics import ALIKE
from tellmost_reproduction.gp.comparing import spread
from tellmost_reproduction.gp.curves import Curves
from tellmost_reproduction.gp.measures import MEASURES
from tellmost_reproduction.gp.orders import JUDGED, MEASURED
from tellmost_reproduction.verdicts import FAILS, HOLDS, IN_PART, Verdict, conclude, percent

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
