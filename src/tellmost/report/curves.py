r"""Uncertainty after each pick: of this selection, and had others chosen.

What a selection is measured against: its uncertainty, and how far that could fall.

What other methods would have picked, under the same conditions.

Where a smaller selection would have done nearly as well.

With :math:`u_t` the mean uncertainty after t of k picks, the stop is the first s with

.. math:: \frac{u_s - u_k}{k - s} < \text{STOP\_SHARE} \cdot \frac{u_0 - u_k}{k},

so the picks after it gain, on average, less than that share of the average pick. Averages on both
sides: one poor pick in between stops nothing. A first pick that gains much stops nothing either,
as it would if the others were compared with it alone.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from tellmost.kernels.linear import feature_form
from tellmost.numerics import FLOOR_EXACT_ROWS, STOP_SHARE, UNINFORMATIVE
from tellmost.report.markup import shorten
from tellmost.rows.sources import spans
from tellmost.rules import Random, Rule
from tellmost.selecting.replay import Recalled
from tellmost.selecting.selection import Selection
from tellmost.shapes import Float, Int

RETRACE_BYTES = 64 * 2**20
"""Size of a block of picks x targets values when a selection is retraced; three exist at once."""


RETRACED = 2_000  # picks followed target by target; the work grows with the cube
POINTS = 400  # more than a screen can show of one line
OTHERS = ("top-k", "mmr")


@dataclass(frozen=True)
class Course:
    """Mean and worst target variance, before the first pick and after each."""

    mean: Float[np.ndarray, " steps"]
    worst: Float[np.ndarray, " steps"]


@dataclass(frozen=True)
class Curves:
    """The course of this selection beside those of others, as far as they can be computed."""

    own: Float[np.ndarray, " steps"]  # the mean, of all picks
    worst: Float[np.ndarray, " retraced"] | None
    random: list[Course]
    others: dict[str, Course]
    obstacle: str | None

    @property
    def retraced(self) -> int:
        return 0 if self.worst is None else len(self.worst) - 1


def follow_curves(recalled: Recalled) -> Curves:
    """Retrace this selection and its rivals."""
    chosen = recalled.chosen
    obstacle = recalled.obstacle
    if recalled.targets is None:
        obstacle = "the selection had no targets, so the other methods have nothing to go by"
    if obstacle is None and len(chosen) == 0:
        obstacle = "nothing was picked"
    if obstacle is not None:
        return Curves(chosen.uncertainty, None, [], {}, obstacle)
    try:
        own = follow(recalled, chosen.indices[:RETRACED])
        random = [follow(recalled, picks) for picks in draw_at_random(recalled, _length(recalled))]
        others = {name: follow(recalled, picks) for name, picks in _rivals(recalled)}
    except LinAlgError:
        reason = "at this noise the covariance of the picks is singular up to rounding"
        return Curves(chosen.uncertainty, None, [], {}, reason)
    return Curves(chosen.uncertainty, own.worst, random, others, None)


def follow(recalled: Recalled, indices: Int[np.ndarray, " k"]) -> Course:
    """What is left after each of these picks; targets of no weight are no worst ones."""
    before = recalled.chosen.target_variance[0]
    weights = target_weights(recalled)
    mean = np.full(len(indices) + 1, float(weights @ before))
    worst = np.zeros(len(indices) + 1)
    for start, stop, falls in retrace_in_parts(recalled, indices):
        mean[1:] -= np.cumsum(falls @ weights[start:stop])
        counted = np.flatnonzero(weights[start:stop] > 0)
        left = before[start:stop][counted] - np.cumsum(falls[:, counted], axis=0)
        highest = left.max(axis=1, initial=0.0)
        first = before[start:stop][counted].max(initial=0.0)
        worst = np.maximum(worst, np.concatenate([[first], highest]))
    return Course(np.maximum(mean, 0.0), worst)


def retrace_in_parts(
    recalled: Recalled, indices: Int[np.ndarray, " k"]
) -> Iterator[tuple[int, int, Float[np.ndarray, "k b"]]]:
    """How much each pick lowers the variance of each target, some targets at a time."""
    assert recalled.targets is not None
    step = max(RETRACE_BYTES // (8 * max(len(indices), 1)), 1)
    for start, stop in spans(len(recalled.targets), step):
        part = replace(recalled, targets=recalled.targets[start:stop])
        yield start, stop, part.reductions(indices)


def target_weights(recalled: Recalled) -> Float[np.ndarray, " m"]:
    """Summing to 1."""
    m = recalled.chosen.settings["targets"]
    weights = recalled.chosen.settings["target_weights"]
    return np.full(m, 1.0 / m) if weights is None else np.asarray(weights)


def _length(recalled: Recalled) -> int:
    return min(len(recalled.chosen), RETRACED)


def _rivals(recalled: Recalled) -> Iterator[tuple[str, Int[np.ndarray, " k"]]]:
    own = recalled.chosen.settings["rule"]
    k = min(_length(recalled), len(find_eligible(recalled)))
    for name in OTHERS:
        if name != own and k > 0:
            yield name, pick_again(recalled, name, k)


def pack_curves(curves: Curves) -> dict[str, Any]:
    """Two charts, mean and worst: lines by method, and the band of the random choices."""
    mean: dict[str, Any] = {"own": _line(curves.own)}
    worst: dict[str, Any] = {}
    if curves.worst is not None:
        worst["own"] = _line(curves.worst)
        mean["random"] = _band([course.mean for course in curves.random])
        worst["random"] = _band([course.worst for course in curves.random])
    for name, course in curves.others.items():
        mean[name], worst[name] = _line(course.mean), _line(course.worst)
    return {"mean": mean, "worst": worst}


def _line(values: Float[np.ndarray, " steps"]) -> dict[str, list[float]]:
    kept = _thin(len(values))
    return {"x": kept.tolist(), "y": shorten(values[kept])}


def _band(courses: list[np.ndarray]) -> dict[str, list[float]]:
    """The mean of several lines, and between which values they lie."""
    values = np.stack(courses)
    kept = _thin(values.shape[1])
    return {
        **_line(values.mean(axis=0)),
        "low": shorten(values.min(axis=0)[kept]),
        "high": shorten(values.max(axis=0)[kept]),
    }


def _thin(steps: int) -> Int[np.ndarray, " points"]:
    return np.unique(np.linspace(0, steps - 1, min(steps, POINTS)).round().astype(np.int64))


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


RANDOM_DRAWS = 10

BLIND_TO_NOISE = frozenset({"random", "cosine", "top-k", "mmr", "k-center", "k-means++"})
"""Rules that look at similarities or distances alone: other noise would change no pick."""


def draw_at_random(recalled: Recalled, k: int) -> Iterator[Int[np.ndarray, " k"]]:
    """So many random choices among what might have been picked; seeds 0, 1, ..."""
    rows = find_eligible(recalled)
    for seed in range(RANDOM_DRAWS):
        yield np.random.default_rng(seed).choice(rows, min(k, len(rows)), replace=False)


def find_eligible(recalled: Recalled) -> Int[np.ndarray, " c"]:
    """The candidates that were not observed before."""
    chosen = recalled.chosen
    rows = chosen.candidate_indices
    rows = np.arange(len(recalled.pool)) if rows is None else rows
    return np.setdiff1d(rows, chosen.observed_indices)


def pick_again(
    recalled: Recalled, rule: str | Rule, k: int, *, noise_factor: float = 1.0
) -> Int[np.ndarray, " k"]:
    """The picks of another rule, or of the same at other noise."""
    with warnings.catch_warnings():
        # such as of small noise: the caller asked for a page, not for this selection
        warnings.simplefilter("ignore", UserWarning)
        return recalled.select(rule, k, noise_factor=noise_factor, progress=False).indices


@dataclass(frozen=True)
class Stop:
    """A number of picks, the mean gain of a pick after it and of all, and the share reached."""

    picks: int
    gain_after: float
    gain_of_all: float
    share_reached: float


def suggest_stop(uncertainty: Float[np.ndarray, " steps"]) -> Stop | None:
    """The first pick after which the others gain little; None if no earlier stop is suggested."""
    k = len(uncertainty) - 1
    fall = float(uncertainty[0] - uncertainty[-1])
    s = np.arange(1, k)
    after = (uncertainty[1:k] - uncertainty[-1]) / (k - s)
    is_enough = np.flatnonzero(after < STOP_SHARE * fall / max(k, 1))
    if len(is_enough) == 0:
        return None
    first = int(is_enough[0])
    reached = float(uncertainty[0] - uncertainty[first + 1]) / fall
    return Stop(first + 1, float(after[first]), fall / k, reached)


def explain_stop(stop: Stop | None, k: int) -> str:
    """The suggestion and its reason, in words."""
    share = f"{100 * STOP_SHARE:.0f}%"
    if stop is None:
        return (
            f"No earlier stop is suggested: there is no point after which the picks gain less "
            f"than {share} of the average of all {k:,}."
        )
    return (
        f"You could stop at pick {stop.picks:,} of {k:,}, with {100 * stop.share_reached:.1f}% of "
        f"the fall: the picks after it lower the mean by {stop.gain_after:.2g} each, less than "
        f"{share} of the {stop.gain_of_all:.2g} of the average pick."
    )
