"""The panel of curves: the uncertainty after each pick, beside that of other methods."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from tellmost.report.levels import find_eligible, find_levels, name_uncertainty, still_to_tell
from tellmost.report.markup import (
    number,
    shorten,
    write_chart,
    write_paragraph,
    write_section,
    write_small,
)
from tellmost.rows.sources import spans
from tellmost.selecting.replay import Recalled
from tellmost.selecting.selection import Selection
from tellmost.shapes import Float, Int

RETRACE_BYTES = 64 * 2**20  # a block of picks x targets; three exist when picks are retraced
RETRACED = 2_000  # so many picks are followed target by target; the work grows with the cube
POINTS = 400  # a screen cannot show more of one line
OTHERS = ("top-k", "mmr")
RANDOM_DRAWS = 10


@dataclass(frozen=True)
class Course:
    """The mean and the worst target variance, before the first pick and after each pick."""

    mean: Float[np.ndarray, " steps"]
    worst: Float[np.ndarray, " steps"]


@dataclass(frozen=True)
class Curves:
    """The course of this selection and of others, as far as they can be computed."""

    own: Float[np.ndarray, " steps"]  # the mean of the given targets
    worst: Float[np.ndarray, " retraced"] | None = None
    random: Sequence[Course] = ()
    others: Mapping[str, Course] = field(default_factory=dict)
    obstacle: str | None = None
    examples: Float[np.ndarray, " steps"] | None = None  # of the targets' distribution

    @property
    def retraced(self) -> int:
        return 0 if self.worst is None else len(self.worst) - 1

    def pack(self) -> dict[str, Any]:
        """The mean and the worst as charts: a line per method, and the band of random choices."""
        mean: dict[str, Any] = {"own": _line(self.own)}
        worst: dict[str, Any] = {}
        if self.examples is not None:
            mean["examples"] = _line(self.examples)
        if self.worst is not None:
            worst["own"] = _line(self.worst)
            mean["random"] = _band([course.mean for course in self.random])
            worst["random"] = _band([course.worst for course in self.random])
        for name, course in self.others.items():
            mean[name], worst[name] = _line(course.mean), _line(course.worst)
        return {"mean": mean, "worst": worst}


def _line(values: Float[np.ndarray, " steps"]) -> dict[str, list[float]]:
    kept = _thin(len(values))
    return {"x": kept.tolist(), "y": shorten(values[kept])}


def _band(courses: list[np.ndarray]) -> dict[str, list[float]]:
    """The mean of several lines, and the values between which they lie."""
    values = np.stack(courses)
    kept = _thin(values.shape[1])
    low, high = values.min(axis=0)[kept], values.max(axis=0)[kept]
    return {**_line(values.mean(axis=0)), "low": shorten(low), "high": shorten(high)}


def _thin(steps: int) -> Int[np.ndarray, " points"]:
    return np.unique(np.linspace(0, steps - 1, min(steps, POINTS)).round().astype(np.int64))


def follow_curves(recalled: Recalled) -> Curves:
    """Retrace this selection and those that it is compared with."""
    chosen, obstacle = recalled.chosen, recalled.obstacle
    if recalled.targets is None:
        obstacle = "the selection had no targets, so the other methods have nothing to go by"
    if obstacle is None and len(chosen) == 0:
        obstacle = "nothing was picked"
    if obstacle is not None:
        return Curves(chosen.uncertainty, obstacle=obstacle)
    rows = find_eligible(recalled)
    k = min(len(chosen), RETRACED, len(rows))
    draws = (np.random.default_rng(seed) for seed in range(RANDOM_DRAWS))
    rivals = [name for name in OTHERS if name != chosen.settings["rule"] and k > 0]
    try:
        own = follow(recalled, chosen.indices[:RETRACED])
        random = [follow(recalled, draw.choice(rows, k, replace=False)) for draw in draws]
        others = {name: follow(recalled, recalled.select(name, k).indices) for name in rivals}
    except LinAlgError:
        reason = "at this noise the covariance of the picks is singular up to rounding"
        return Curves(chosen.uncertainty, obstacle=reason)
    if chosen.settings["examples"] is None:
        return Curves(chosen.uncertainty, own.worst, random, others)
    return Curves(own.mean, own.worst, random, others, examples=chosen.uncertainty)


def follow(recalled: Recalled, indices: Int[np.ndarray, " k"]) -> Course:
    """The variance that these picks leave. The worst target is one that has some weight."""
    before, given = recalled.chosen.target_variance[0], recalled.chosen.settings["target_weights"]
    weights = np.full(len(before), 1.0 / len(before)) if given is None else np.asarray(given)
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
    """The fall of each target's variance by each pick. Some targets come at a time."""
    assert recalled.targets is not None
    step = max(RETRACE_BYTES // (8 * max(len(indices), 1)), 1)
    for start, stop in spans(len(recalled.targets), step):
        part = replace(recalled, targets=recalled.targets[start:stop])
        yield start, stop, part.reductions(indices)


def write_curves(chosen: Selection, curves: Curves) -> str:
    name = "mean target variance" if curves.examples is not None else name_uncertainty(chosen)
    k = len(curves.own) - 1
    before, after = curves.own[[0, -1]]
    about = f"{name}: {number(before)} before the first pick, {number(after)} after pick {k:,}"
    finals = (
        f"{other} {number(course.mean[-1])} after {len(course.mean) - 1:,}"
        for other, course in curves.others.items()
    )
    charts = write_chart("curve-mean", "; ".join([about, *finals]), name.capitalize())
    if curves.worst is not None:
        first, last = curves.worst[[0, -1]]
        about = f"worst target variance: {number(first)} before the first pick, {number(last)} "
        about += f"after pick {curves.retraced:,}"
        charts += write_chart("curve-worst", about, "Variance of the worst target")
    legend = '<div class="legend" id="curve-legend" role="group" aria-label="lines"></div>'
    body = f'{legend}<div class="pair">{charts}</div>{_explain(chosen, curves)}'
    return write_section("curve", "Uncertainty after each pick", body)


def _explain(chosen: Selection, curves: Curves) -> str:
    circular = "This is the model's own uncertainty"
    if chosen.settings["rule"] == "vtl":
        circular = "VTL chooses so as to lower this mean by construction"
    proof = (
        f"{circular}, so a low line is no proof that the picks are useful. Labels can prove it: "
        "“tellmost compare” measures the accuracy that a model learns from them."
    )
    lowered = ""
    if curves.examples is not None:
        lowered = (
            "The thin line is the mean variance under the distribution that the targets are "
            "examples of. The picks lower this one; all other lines are about the given targets."
        )
    rivals, levels = _explain_rivals(chosen, curves), _explain_levels(chosen)
    return write_paragraph(proof) + write_small(lowered, rivals, levels)


def _explain_rivals(chosen: Selection, curves: Curves) -> str:
    if curves.obstacle is not None:
        return f"Other methods, and the worst target, are not shown: {curves.obstacle}."
    text = f"Random: mean of {RANDOM_DRAWS} draws, and the band from the lowest to the highest."
    if chosen.settings["limits"]:
        limits = " and ".join(chosen.settings["limits"])
        text += (
            f" The other methods choose without {limits}; they are compared at an equal number "
            f"of picks, whatever these cost."
        )
    if curves.retraced < len(chosen):
        text += f" Other methods and the worst target: the first {curves.retraced:,} picks."
    return text


def _explain_levels(chosen: Selection) -> str:
    levels = find_levels(chosen)
    if not levels and chosen.settings["targets"]:
        return (
            "What the whole pool would leave is not known: with this kernel it takes long; "
            "select(..., floor=True) computes it."
        )
    text = ""
    if still_to_tell(chosen, levels) is not None:
        text = (
            "What this pool can still tell about the targets is the distance from the line of "
            "this selection down to that of the whole pool."
        )
    if any(level.remark == "uninformative" for level in levels):
        text += (
            " The floor (every candidate known exactly) is 0 and uninformative: the candidates "
            "span the targets."
        )
    return text
