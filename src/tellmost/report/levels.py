"""Levels to which the uncertainty could fall, and what the pool can still tell."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tellmost.kernels.linear import feature_form
from tellmost.numerics import FLOOR_EXACT_ROWS, UNINFORMATIVE
from tellmost.report.markup import round_off
from tellmost.rules import Random
from tellmost.selecting.replay import Recalled
from tellmost.selecting.selection import Selection
from tellmost.shapes import Float, Int


@dataclass(frozen=True)
class Level:
    """The uncertainty that more observations would reach."""

    name: Literal["floor", "whole pool"]
    value: float
    shown: str
    remark: Literal["", "at most", "uninformative"]

    @property
    def text(self) -> str:
        """The value, and what kind of value it is."""
        if self.remark == "at most":
            return f"at most {self.shown}"
        return f"{self.shown}, {self.remark}" if self.remark else self.shown

    def pack(self) -> dict[str, str | float]:
        return {"name": self.name, "value": round_off(self.value), "text": self.text}


def find_levels(chosen: Selection) -> list[Level]:
    """The levels that were computed: the whole pool, observed once with noise, and the floor."""
    if chosen.floor is None or chosen.whole_pool is None:
        return []
    bound: Literal["", "at most"] = "" if chosen.settings["floor_is_exact"] else "at most"
    whole, floor = weigh(chosen, chosen.whole_pool), weigh(chosen, chosen.floor)
    of_pool = Level("whole pool", whole, f"{whole:.4g}", bound)
    if floor <= UNINFORMATIVE * mean_variance(chosen)[0]:  # the candidates span the targets
        return [of_pool, Level("floor", floor, "0", "uninformative")]
    return [of_pool, Level("floor", floor, f"{floor:.4g}", bound)]


def telling_levels(chosen: Selection) -> list[Level]:
    """The levels, without a floor that is zero up to rounding."""
    return [level for level in find_levels(chosen) if level.remark != "uninformative"]


def weigh(chosen: Selection, values: Float[np.ndarray, " m"]) -> float:
    """The mean over the targets, with the weights of the selection."""
    return float(np.average(values, weights=chosen.settings["target_weights"]))


def mean_variance(chosen: Selection) -> tuple[float, float]:
    """The mean variance of the given targets, before and after the picks."""
    before, after = chosen.uncertainty[[0, -1]].tolist()
    if chosen.settings["examples"] is not None:
        before, after = (weigh(chosen, variance) for variance in chosen.target_variance)
    return before, after


def with_levels(recalled: Recalled) -> Selection:
    """The selection with its floor and whole pool, which are computed now if that costs little."""
    chosen = recalled.chosen
    if chosen.whole_pool is not None or recalled.targets is None or recalled.obstacle is not None:
        return chosen
    # inner products take one pass; other kernels take a solve, which needs a small pool
    is_small = chosen.settings["candidates"] <= FLOOR_EXACT_ROWS
    is_cheap = is_small or feature_form(recalled.kernel) is not None
    if not is_cheap or len(find_eligible(recalled)) == 0:
        return chosen
    least = recalled.select(Random(), 1, floor=True)
    names = ("floor", "floor_is_exact")
    settings = chosen.settings | {name: least.settings[name] for name in names}
    return replace(chosen, floor=least.floor, whole_pool=least.whole_pool, settings=settings)


def find_eligible(recalled: Recalled) -> Int[np.ndarray, " c"]:
    """The candidates that were not observed before."""
    chosen = recalled.chosen
    rows = chosen.candidate_indices
    rows = np.arange(len(recalled.pool)) if rows is None else rows
    return np.setdiff1d(rows, chosen.observed_indices)


def name_uncertainty(chosen: Selection) -> str:
    """Name ``chosen.uncertainty`` in words."""
    if not chosen.settings["targets"]:
        return "mean variance of the candidates"
    if chosen.settings["examples"] is not None:
        return "mean variance under the distribution of the targets"
    is_weighted = chosen.settings["target_weights"] is not None
    return "weighted mean target variance" if is_weighted else "mean target variance"


def still_to_tell(chosen: Selection, levels: list[Level]) -> tuple[Level, float] | None:
    """What the whole pool would leave, and how much that is below the variance now, if known."""
    whole = next((level for level in levels if level.name == "whole pool"), None)
    if whole is None:
        return None
    return whole, max(mean_variance(chosen)[1] - whole.value, 0.0)
