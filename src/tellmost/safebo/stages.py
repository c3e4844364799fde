"""A round: the points that are looked at, what is believed there, and what follows from it.

Which points may be asked for at all, whatever the models say.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.learner.record import Noise
from tellmost.posterior.sketch import Features, Moments
from tellmost.rules import Rule
from tellmost.safebo.bounds import Bounds, Sets, Sources, probability_safe
from tellmost.safebo.confidence import Confidence
from tellmost.safebo.constraints import Lipschitz, Side
from tellmost.safebo.outputs import Output
from tellmost.safebo.trials import Trial
from tellmost.safebo.views import Seen, View, noise_of_targets
from tellmost.shapes import Bool, Float
from tellmost.targets.box import Box

SKETCH_TOLERANCE = 1e-6
"""Share of the largest prior variance that a sketch may leave out, where sums over targets are
made of it; a deviation of a thousandth of the prior's."""

SKETCH_NOISE = 1e-4
"""And the same as a share of the noise variance: what is left out acts as noise that is not there,
and it must be small beside the noise that is."""

SEEING_TOLERANCE = 1e-12
"""The same where f is seen at the targets: below RANK_TOLERANCE, which decides what is seen."""

SKETCH_SHARE = 0.25
"""A sketch of more features than this share of the points costs more than it saves."""

STEP_ROUNDING = 1e-9
"""Share by which a step may exceed the longest allowed: ten steps of 0.1 are to cover a unit."""


@dataclass(frozen=True)
class Track:
    """What a strategy keeps from one round to the next: a safe set of its own, and a goal."""

    sets: Sets
    sources: Bool[Tensor, " n"]  # the safe set of the round before, from which this one grew
    goal: int | None = None


@runtime_checkable
class Tracking(Protocol):
    """A strategy whose safe set, or goal, follows from those of the round before."""

    def track(self, stage: "Stage", before: Track | None) -> Track:
        """After what was told last; None: at the start."""


@dataclass(frozen=True)
class Model:
    """Everything that is assumed: priors, limits, confidence, and the rule that reads them."""

    outputs: tuple[Output, ...]
    sides: tuple[Side, ...]
    lipschitz: Mapping[str, Lipschitz | None]
    confidence: Confidence
    rule: Rule
    noise_std: Sequence[Any]  # of each output: a number, one per row of the domain, or a function
    is_minimized: bool = False
    strategy: object | None = None  # chooses in place of the rule

    def stage(
        self,
        points: Points,
        is_candidate: Bool[Tensor, " n"],
        seen: Sequence[Sequence[Seen]],
        *,
        is_kept: bool,
        origin: "Origin",
    ) -> "Stage":
        """At some points, of which the first are those of the domain; kept for many rounds?"""
        noises = [
            self.noise_at(number, points) / output.scale**2
            for number, output in enumerate(self.outputs)
        ]
        moments: dict[tuple[int, float], Moments | None] = {}
        views = []
        for output, noise, told in zip(self.outputs, noises, seen, strict=True):
            key = id(output.kernel), self._tolerance(output, noises)
            if key not in moments:
                features = self._features(output, points, key[1], is_kept)
                moments[key] = None if features is None else Moments(features)
            views.append(View(output, points, noise, told, moments[key], self.rule))
        return Stage(self, points, is_candidate, views, origin)

    @property
    def slopes(self) -> list[tuple[Side, Lipschitz]]:
        """Of each limit whose function has a known Lipschitz constant, in units of its output."""
        found = []
        for side in self.sides:
            one = self.lipschitz.get(side.name)
            if one is not None:
                scale = self.outputs[side.output].scale
                found.append((side, Lipschitz(one.constant / scale, one.norm)))
        return found

    def noise_at(self, number: int, points: Points) -> Float[Tensor, " n"]:
        """Variance of an observation of an output; rows beyond the domain's are not asked for."""
        output, noise_std = self.outputs[number], self.noise_std[number]
        if callable(noise_std):
            return Noise.of(noise_std, points).of_rows
        if noise_std is None:
            noise_std = output.gp.noise_std
        values = torch.as_tensor(noise_std, dtype=torch.float64).square()
        variance = torch.full((len(points),), output.gp.noise_std**2, dtype=torch.float64)
        variance[: len(values) if values.ndim else None] = values
        return variance

    def noise_near(self, number: int, points: Points, box: Box) -> Float[Tensor, " b"]:
        """The same at points of a box, with its slope."""
        noise_std = self.noise_std[number]
        if callable(noise_std):
            return Noise.of(noise_std, points.detach()).near(points, box)
        return self.noise_at(number, points)

    def _features(
        self, output: Output, points: Points, tolerance: float, is_kept: bool
    ) -> Features | None:
        """None: where they would be many, or made for a single product."""
        if self.strategy is not None:
            return None
        if not (is_kept or "variance_given_targets" in self.rule.needs):
            return None
        return Features.of(output.kernel, points, tolerance, int(SKETCH_SHARE * len(points)))

    def _tolerance(self, output: Output, noises: Sequence[Float[Tensor, " n"]]) -> float:
        """Of a sketch that serves all outputs of this kernel."""
        sees = "variance_given_targets" in self.rule.needs
        if sees and noise_of_targets(self.rule, output) == 0.0:
            return SEEING_TOLERANCE
        parts = zip(self.outputs, noises, strict=True)
        least = min(float(noise.min()) for one, noise in parts if one.kernel is output.kernel)
        return min(SKETCH_TOLERANCE, max(SKETCH_NOISE * least, SEEING_TOLERANCE))


@dataclass(frozen=True)
class Origin:
    """What is known to be safe before a stage: rows of seeds, and whether nothing was told yet."""

    seeds: tuple[int, ...]
    is_first: bool


class Stage:
    """What is believed at the points of a round; told values are taken in as they come."""

    def __init__(
        self,
        model: Model,
        points: Points,
        is_candidate: Bool[Tensor, " n"],
        views: list[View],
        origin: Origin,
    ) -> None:
        self.model = model
        self.points = points
        self.is_candidate = is_candidate
        self.views = views
        self.origin = origin
        self.track: Track | None = None
        self._kept: Bounds | None = None  # of all rounds so far, where these are intersected
        self._refresh()

    def observe(self, seen: Mapping[int, Seen]) -> None:
        """Values of some outputs at a row."""
        self._betas_after(seen)  # a schedule of the caller's may fail, before anything is changed
        for number, one in seen.items():
            self.views[number].observe(one)
        self._refresh()

    def _refresh(self) -> None:
        moments = [view.moments() for view in self.views]
        self.mean = torch.stack([mean for mean, _ in moments])
        self.std = torch.stack([std for _, std in moments])
        model = self.model
        now = Bounds.around(self.mean, self.std, self.betas)
        if self._kept is not None:
            now = now.intersect(self._kept)
        tracking = model.strategy if isinstance(model.strategy, Tracking) else None
        if model.slopes and tracking is None:
            sources = Sources.of(self.points, now, Sets.of(now, model.sides).is_safe)
            now = now.extended(model.slopes, self.points, sources)
        self.bounds = now
        self._kept = self.bounds if model.confidence.is_intersected else None
        self.sets = Sets.of(self.bounds, model.sides)
        if tracking is not None:
            self.track = tracking.track(self, self.track)
            self.sets = self.track.sets

    @property
    def betas(self) -> list[float]:
        return self._betas_after(())

    def _betas_after(self, seen: Collection[int]) -> list[float]:
        """With another observation of some outputs."""
        learned = [view.learned for view in self.views]
        counted = [
            replace(one, observations=one.observations + (number in seen))
            for number, one in enumerate(learned)
        ]
        return self.model.confidence.betas(counted, len(self.model.sides))

    def check(self) -> None:
        """Raise MiscalibratedModel where the bounds exclude each other."""
        names = [output.names for output in self.model.outputs]
        self.bounds.check(names, self.points, has_slopes=bool(self.model.slopes))

    def rising(self) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
        """Bounds of what is to be large: the objective, or less it."""
        lower, upper = self.bounds.lower[0], self.bounds.upper[0]
        return (-upper, -lower) if self.model.is_minimized else (lower, upper)

    def scale(self, number: int) -> float:
        """Prior standard deviation of an output, in its unit."""
        return self.model.outputs[number].scale

    def look_at(self, points: Points) -> "Look":
        """What is believed at points that need not be rows, by the present bounds."""
        moments = [view.belief.at(points) for view in self.views]
        mean = torch.stack([mean for mean, _ in moments])
        std = torch.stack([variance for _, variance in moments]).sqrt()
        now = Bounds.around(mean, std, self.betas)
        if self.model.slopes:
            sources = Sources.of(self.points, self.bounds, self.sets.is_safe)
            now = now.extended(self.model.slopes, points, sources)
        return Look(self.model, mean, std, Sets.of(now, self.model.sides))

    def look_at_row(self, row: int) -> "Look":
        """The same at a row, by the bounds that are kept."""
        one = slice(row, row + 1)
        return Look(self.model, self.mean[:, one], self.std[:, one], self.sets.at(one))

    def draw(
        self, count: int, generator: torch.Generator
    ) -> tuple[Float[Tensor, "count n"], Float[Tensor, "count n"] | None]:
        """Objectives, in their unit, and the smallest margin of constraints drawn with each."""
        drawn = [
            view.belief.sample_rows(count, generator, root=root)
            for view, root in zip(self.views, self._roots(), strict=True)
        ]
        margins = [
            drawn[side.output] - side.limit if side.is_lower else side.limit - drawn[side.output]
            for side in self.model.sides
        ]
        smallest = torch.stack(margins).amin(dim=0) if margins else None
        return drawn[0] * self.model.outputs[0].scale, smallest

    def _roots(self) -> list[Float[Tensor, "n _"]]:
        """Of the covariance of each output: one for all that vary alike."""
        roots: list[Tensor] = []
        for number, view in enumerate(self.views):
            alike = (i for i in range(number) if view.varies_as(self.views[i]))
            first = next(alike, None)
            roots.append(view.belief.root_of_rows() if first is None else roots[first])
        return roots


@dataclass(frozen=True)
class Look:
    """Means and standard deviations at some points, a row per output, and margins."""

    model: Model
    mean: Float[Tensor, "o b"]
    std: Float[Tensor, "o b"]
    sets: Sets

    def probability_safe(self) -> Float[Tensor, " b"]:
        return probability_safe(self.mean, self.std, self.model.sides)

    def lower_margins(self) -> dict[str, float]:
        """Of each constraint at a single point, in its own unit."""
        margins: dict[str, float] = {}
        for side, worst in zip(self.model.sides, self.sets.worst[:, 0].tolist(), strict=True):
            margin = worst * self.model.outputs[side.output].scale
            margins[side.name] = min(margin, margins.get(side.name, margin))
        return margins


def describe_betas(stage: Stage) -> str:
    """Of each output; once where all are the same."""
    parts = zip(stage.model.outputs, stage.betas, strict=True)
    words = [f"{output.names[0]} {beta:.3g}" for output, beta in parts]
    return words[0].split()[-1] if len(set(stage.betas)) == 1 else ", ".join(words)


Seed = tuple[int | None, Tensor]
"""The row of a finite domain, and the point."""

TRIED = {"safe", "marginal", "violated", "failed"}


@dataclass(frozen=True)
class Seeds:
    """Points that are safe by declaration, until a violation is told of them."""

    declared: tuple[Seed, ...]

    def standing(self, trials: Sequence[Trial]) -> list[int]:
        """Numbers of the seeds that are still taken for safe."""
        violated = self._where(trials, {"violated"})
        return [i for i, place in enumerate(self._places) if place not in violated]

    def untold(self, trials: Sequence[Trial]) -> list[int]:
        """Numbers of the standing seeds that were not tried yet, in vain or not."""
        standing = self.standing(trials)
        tried = self._where(trials, TRIED) if standing else set()
        return [i for i in standing if self._places[i] not in tried]

    def working(self, trials: Sequence[Trial]) -> list[int]:
        """Numbers of the standing seeds whose last trial, if there was one, did not fail."""
        standing = self.standing(trials)
        last = {self._place_of(trial): trial.status for trial in trials} if standing else {}
        return [i for i in standing if last.get(self._places[i]) != "failed"]

    @property
    def points(self) -> list[Float[Tensor, " d"]]:
        return [point for _, point in self.declared]

    @property
    def rows(self) -> list[int]:
        return [row for row, _ in self.declared if row is not None]

    @cached_property
    def _places(self) -> list[tuple[float, ...]]:
        return [tuple(seed.tolist()) for seed in self.points]

    def _where(self, trials: Sequence[Trial], statuses: set[str]) -> set[tuple[float, ...]]:
        """What was set by the trials with one of these outcomes."""
        return {self._place_of(trial) for trial in trials if trial.status in statuses}

    def _place_of(self, trial: Trial) -> tuple[float, ...]:
        """What a trial set, whatever its context."""
        return tuple(trial.x[: self._dimension].tolist())

    @cached_property
    def _dimension(self) -> int:
        return len(self.declared[0][1]) if self.declared else 0


def within_step(
    points: Points, last: Float[Tensor, " d"] | None, max_step: Float[Tensor, " d"] | None
) -> Bool[Tensor, " n"]:
    """What is at most a step away from the last point; everything, where there is no limit."""
    if max_step is None or last is None:
        return torch.ones(len(points), dtype=torch.bool)
    apart = (points[:, : len(last)] - last).abs()
    return (apart <= max_step * (1 + STEP_ROUNDING)).all(dim=1)


def without_failed(
    points: Points, is_near: Bool[Tensor, " n"], trials: Sequence[Trial], dimension: int
) -> Bool[Tensor, " n"]:
    """Points that failed since a value was told last are passed over, if others are left."""
    left = is_near.clone()
    for trial in reversed(trials):
        if trial.status != "failed":
            break
        x = torch.from_numpy(trial.x[:dimension])
        left &= ~(points[:, :dimension] == x).all(dim=1)
    return left if bool(left.any()) else is_near
