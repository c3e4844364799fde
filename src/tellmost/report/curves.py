"""Uncertainty after each pick: of this selection, and had others chosen."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from tellmost.numerics import RETRACE_BYTES
from tellmost.report.baselines import draw_at_random, find_eligible, pick_again
from tellmost.report.payload import shorten
from tellmost.rows.sources import spans
from tellmost.selecting.replay import Recalled
from tellmost.shapes import Float, Int

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
