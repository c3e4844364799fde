"""What a selection is measured against: its uncertainty, and how far that could fall."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tellmost.kernels.composed import feature_form
from tellmost.numerics import FLOOR_EXACT_ROWS, UNINFORMATIVE
from tellmost.report.baselines import find_eligible
from tellmost.rules import Random
from tellmost.selecting.replay import Recalled
from tellmost.selecting.selection import Selection
from tellmost.shapes import Float


@dataclass(frozen=True)
class Level:
    """An uncertainty that more observations would reach."""

    name: Literal["floor", "whole pool"]
    value: float
    shown: str
    remark: Literal["", "at most", "uninformative"]

    @property
    def text(self) -> str:
        """The value, and how to take it."""
        if self.remark == "at most":
            return f"at most {self.shown}"
        return f"{self.shown}, {self.remark}" if self.remark else self.shown


def with_levels(recalled: Recalled) -> Selection:
    """The selection with floor and whole pool, where they were not asked for but cost little."""
    chosen = recalled.chosen
    is_known = chosen.whole_pool is not None or recalled.targets is None
    if is_known or recalled.obstacle is not None or not _costs_little(recalled):
        return chosen
    least = recalled.select(Random(), 1, floor=True, progress=False)
    names = ("floor", "floor_is_exact")
    settings = chosen.settings | {name: least.settings[name] for name in names}
    return replace(chosen, floor=least.floor, whole_pool=least.whole_pool, settings=settings)


def _costs_little(recalled: Recalled) -> bool:
    """A pass for inner products; otherwise a solve that only a small pool allows."""
    is_small = recalled.chosen.settings["candidates"] <= FLOOR_EXACT_ROWS
    is_cheap = is_small or feature_form(recalled.kernel) is not None
    return is_cheap and len(find_eligible(recalled)) > 0


def find_levels(chosen: Selection) -> list[Level]:
    """The whole pool, observed once with noise, and the floor, as far as they were computed."""
    if chosen.floor is None or chosen.whole_pool is None:
        return []
    bound: Literal["", "at most"] = "" if chosen.settings["floor_is_exact"] else "at most"
    whole, floor = weigh(chosen, chosen.whole_pool), weigh(chosen, chosen.floor)
    of_pool = Level("whole pool", whole, f"{whole:.4g}", bound)
    if is_uninformative(chosen, floor):
        return [of_pool, Level("floor", floor, "0", "uninformative")]
    return [of_pool, Level("floor", floor, f"{floor:.4g}", bound)]


def is_uninformative(chosen: Selection, floor: float) -> bool:
    """Whether a floor is zero: the candidates span the targets, and it says nothing more."""
    return bool(floor <= UNINFORMATIVE * chosen.uncertainty[0])


def weigh(chosen: Selection, values: Float[np.ndarray, " m"]) -> float:
    """The mean over the targets, weighted as the selection was."""
    weights = chosen.settings["target_weights"]
    return float(np.average(values, weights=weights))


def name_uncertainty(chosen: Selection) -> str:
    """What ``chosen.uncertainty`` is, in words."""
    if not chosen.settings["targets"]:
        return "mean variance of the candidates"
    is_weighted = chosen.settings["target_weights"] is not None
    return "weighted mean target variance" if is_weighted else "mean target variance"
