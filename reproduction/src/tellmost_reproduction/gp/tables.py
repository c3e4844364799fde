"""Tables of results."""

from collections.abc import Sequence

from tellmost_reproduction.gp.comparing import TOLERANCES, fall_of
from tellmost_reproduction.gp.curves import Curves
from tellmost_reproduction.gp.measures import MEASURES, RISING
from tellmost_reproduction.gp.numbers import observations
from tellmost_reproduction.gp.orders import comparisons
from tellmost_reproduction.tables import Cells


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
