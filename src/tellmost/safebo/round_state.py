"""A model is assumed about all outputs, and a state says what is believed in a round."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.learner.record import Noise
from tellmost.posterior.gp import GP
from tellmost.posterior.interpolation import INTERPOLATED, InducingPoints, SumMaker
from tellmost.posterior.sketch import (
    SKETCHED,
    Features,
    IndependentRows,
)
from tellmost.rules import Rule
from tellmost.safebo.bounds import (
    Confidence,
    ConfidenceBounds,
    PointBeliefs,
    SafeSets,
    probability_safe,
)
from tellmost.safebo.constraints import Constraint, Lipschitz, Side
from tellmost.safebo.kept_rows import KeptVectors
from tellmost.safebo.mixture import MixtureRows, MixtureView, SetRule, weigh_limits
from tellmost.safebo.outputs import (
    Output,
    OutputPosterior,
    OutputValue,
    gather_outputs,
    gather_sides,
)
from tellmost.safebo.trial_blocks import Told, TrialBlocks, first_alike
from tellmost.safebo.trials import MiscalibratedModel
from tellmost.shapes import Bool, Float
from tellmost.targets.box import Box

SKETCH_TOLERANCE = 1e-6
"""Share of the largest prior variance that a sketch may leave out if noisy targets are seen. This
is a deviation of a thousandth of the prior's."""

SKETCH_NOISE = 1e-4
"""The same as a share of the noise variance. What is left out acts as noise that is not there, so
it must be small beside the noise that is."""

SEEING_TOLERANCE = 1e-12
"""The same if the rule sees f at the targets. It lies below RANK_TOLERANCE, which decides what is
seen."""

EMPTY_INTERVAL = 1e-9
"""A lower bound may exceed an upper one by so many prior standard deviations, through rounding."""

AGAINST_SEED = 0.1
"""Where the prior itself takes a seed for unsafe, what was told must have lowered its optimistic
margin by so many prior standard deviations before it counts as evidence against the seed."""

SKETCH_SHARE = 0.25
"""A sketch of more features than this share of the points costs more than it saves."""

MOST_FEATURES = 400
"""Nor does a sketch of more features than this: sums over targets take their square per row."""

INDUCING_POINTS = 200
"""At most so many points stand for all in sums over targets. With half of them many rows have to
be looked at again, and twice as many take four times as long."""


@dataclass(frozen=True)
class Layout:
    """The points of a round, and the rows at which things are found among them."""

    points: Points
    is_candidate: Bool[Tensor, " n"]  # whether a row may be asked for, as far as the domain goes
    fixed: int  # so many rows come first in other rounds too, and the trials follow
    seeds: tuple[int, ...]  # a row for each declared seed
    trials: tuple[int, ...]  # a row for each trial
    data: tuple[tuple[int, ...], ...]  # of each output, a row for each observation of its prior
    pending: tuple[int, ...]
    is_kept: bool  # whether all rounds look at the same points
    contexts: int  # so many of the last numbers are the same at all candidates


@dataclass(frozen=True)
class Track:
    """A strategy keeps a safe set of its own, and a goal, from one round to the next."""

    sets: SafeSets
    sources: Bool[Tensor, " n"]  # the safe set of the round before, from which this one grew
    goal: int | None = None


@runtime_checkable
class Tracking(Protocol):
    """A strategy whose safe set, or goal, follows from those of the round before."""

    def track(self, state: "RoundState", before: Track | None) -> Track:
        """The track after what was told last; ``before`` is None at the start."""


@dataclass(frozen=True)
class SafeModel:
    """Everything that is assumed: priors, limits, confidence, and the rule that reads them."""

    domain: Points  # with contexts; the scale of an output is taken over these points
    outputs: tuple[Output, ...]  # the objective's is the first
    constraints: Mapping[str, Constraint]
    sides: tuple[Side, ...]
    confidence: Confidence
    rule: Rule
    noise_std: Sequence[Any]  # of each output: a number, one per row of the domain, or a function
    is_minimized: bool
    strategy: Any  # None, or a QueryStrategy that chooses in place of targets and rule
    suspect_z: float  # a value farther from its prediction, in standard deviations, is suspect
    sets: SetRule = "mixture"  # how priors that are not known prove points safe

    def with_priors(self, priors: Mapping[str, GP]) -> "SafeModel":
        """The same with other priors, each by the first name of its output."""
        gps = {name: priors[one.names[0]] for one in self.outputs for name in one.names}
        constraints = {n: replace(one, gp=gps[n]) for n, one in self.constraints.items()}
        objective = priors[self.outputs[0].names[0]]
        outputs = gather_outputs(objective, constraints, self.domain)
        sides = gather_sides(outputs, constraints)
        return replace(self, outputs=outputs, constraints=constraints, sides=sides)

    def start(
        self,
        layout: Layout,
        values: Sequence[Sequence[OutputValue]],
        mixtures: Mapping[int, MixtureRows],
        kept: KeptVectors | None = None,
    ) -> "RoundState":
        """Make what is believed at the points of a round, after these values of each output."""
        points = layout.points
        noises = [
            self.noise_at(number, points) / output.scale**2
            for number, output in enumerate(self.outputs)
        ]
        features: dict[tuple[int, float], SumMaker] = {}
        posteriors: list[OutputPosterior] = []
        for number, (output, noise) in enumerate(zip(self.outputs, noises, strict=True)):
            key = id(output.kernel), self._tolerance(output, noises)
            if key not in features:
                features[key] = self._features(output, layout, key[1])
            given = values[number], features[key], self.rule, layout.is_candidate, posteriors
            key = number, *points[0, points.shape[1] - layout.contexts :].tolist()
            begun = (
                None
                if kept is None
                else kept.begun(key, output.kernel, points, layout.fixed, len(layout.trials))
            )
            posteriors.append(OutputPosterior(output, points, noise, *given, begun))
        return RoundState(self, layout, posteriors, mixtures)

    @cached_property
    def inducing(self) -> dict[int, InducingPoints | None]:
        """The inducing points of each kernel, by its id."""
        most = min(int(SKETCH_SHARE * len(self.domain)), INDUCING_POINTS)
        kernels = {id(one.kernel): one.kernel for one in self.outputs}
        return {
            key: InducingPoints.of(one, self.domain, most) if most else None
            for key, one in kernels.items()
        }

    @property
    def slopes(self) -> dict[Side, Lipschitz]:
        """The Lipschitz constants that are known, by their limits, in units of the outputs."""
        found = {}
        for side in self.sides:
            one = self.constraints[side.name].slope
            if one is not None:
                found[side] = Lipschitz(one.constant / self.outputs[side.output].scale, one.norm)
        return found

    @property
    def limits_of_objective(self) -> tuple[float, float]:
        """Between these the objective has to stay, in its unit, if it is a constraint too."""
        own = [side for side in self.sides if side.output == 0]
        scale = self.outputs[0].scale
        lowest = max((side.limit for side in own if side.is_lower), default=-inf)
        highest = min((side.limit for side in own if not side.is_lower), default=inf)
        return lowest * scale, highest * scale

    def is_bounded(self, side: Side) -> bool:
        """If true, its Lipschitz constant and noise bound prove points safe, and no prior."""
        return self.outputs[side.output].is_bounded

    def noise_at(self, number: int, points: Points, box: Box | None = None) -> Float[Tensor, " n"]:
        """Variance of an observation of an output; at points of a box with its slope.

        Rows beyond the domain's are not asked for, so a noise per row does not reach them.
        """
        output, noise_std = self.outputs[number], self.noise_std[number]
        if callable(noise_std):
            noise = Noise.of(noise_std, points.detach())
            argument = f"noise_std[{output.names[0]!r}]"
            output.check_noise(float(noise.of_rows.min()) ** 0.5, argument)
            return noise.of_rows if box is None else noise.near(points, box)
        if noise_std is None:
            noise_std = output.gp.noise_std
        values = torch.as_tensor(noise_std, dtype=torch.float64).square()
        variance = torch.full((len(points),), output.gp.noise_std**2, dtype=torch.float64)
        variance[: len(values) if values.ndim else None] = values
        return variance

    def noise_std_at(self, number: int, row: int | None, point: Points) -> float:
        """Standard deviation of an observation at a row of the domain, or at a single point."""
        stated = self.noise_std[number]
        if row is not None and isinstance(stated, Tensor):
            return float(stated[row])
        return float(self.noise_at(number, point)) ** 0.5

    def _features(self, output: Output, layout: Layout, tolerance: float) -> SumMaker:
        fields = self.rule.needs & SKETCHED
        if self.strategy is not None or not fields:
            return None
        if fields <= INTERPOLATED:
            inducing = self.inducing[id(output.kernel)]
            candidates = layout.points[layout.is_candidate]
            return None if inducing is None else inducing.among(candidates, layout.contexts)
        if fields != {"variance_given_targets"}:
            return None
        most = min(int(SKETCH_SHARE * len(layout.points)), MOST_FEATURES)
        features = Features.of(output.kernel, layout.points, tolerance, most)
        if features is not None or output.noise_of_targets(self.rule) or not layout.is_kept:
            return features
        return IndependentRows(output.kernel, layout.points)

    def _tolerance(self, output: Output, noises: Sequence[Float[Tensor, " n"]]) -> float:
        """The tolerance of a sketch that serves all outputs of this kernel."""
        sees = "variance_given_targets" in self.rule.needs
        if sees and output.noise_of_targets(self.rule) == 0.0:
            return SEEING_TOLERANCE
        parts = zip(self.outputs, noises, strict=True)
        least = min(float(noise.min()) for one, noise in parts if one.kernel is output.kernel)
        return min(SKETCH_TOLERANCE, max(SKETCH_NOISE * least, SEEING_TOLERANCE))


class RoundState:
    """Posteriors, bounds and safe sets at the points of a round; told values are taken in."""

    def __init__(
        self,
        model: SafeModel,
        layout: Layout,
        posteriors: Sequence[OutputPosterior],
        mixtures: Mapping[int, MixtureRows],
    ) -> None:
        self.model = model
        self.layout = layout
        self.points, self.is_candidate = layout.points, layout.is_candidate
        self._blocks = TrialBlocks(posteriors)
        self.posteriors = posteriors  # of an output in ``mixtures``: that of the likeliest theta
        self.mixtures = mixtures
        self.risk: Float[Tensor, "s n"] | None = None  # of each limit, if there are mixtures
        self.track: Track | None = None
        self.doubted: RoundState | None = None  # what is believed if suspect values are right
        self.confidence = model.confidence
        self.bounds: ConfidenceBounds
        self.sets: SafeSets
        self._kept: ConfidenceBounds | None = None  # of all rounds so far, if intersected
        self._refresh()

    def observe(self, told: Sequence[Told]) -> None:
        """Take in trials, block by block where only what is believed in the end counts."""
        if self.confidence.is_intersected or isinstance(self.model.strategy, Tracking):
            for row, values in told:
                self._betas_after(values)  # a schedule may fail: nothing is changed yet
                self.doubted = None
                self._blocks.take_in([(row, values)])
                self._refresh()
                self._place([row])
        elif told:
            self.doubted = None
            self._blocks.fill(told)
            self._refresh()
            self._place([row for row, _ in told])

    def _place(self, rows: Sequence[int]) -> None:
        """Trials were told at these rows."""
        self.layout = replace(self.layout, trials=(*self.layout.trials, *rows))

    def rely_on(self, confidence: Confidence) -> None:
        """Make the bounds anew with another confidence."""
        if confidence != self.confidence:
            self.confidence = confidence
            if self.doubted is not None:
                self.doubted.rely_on(confidence)
            self._refresh()

    def doubt(self, other: "RoundState") -> None:
        """Rely on what holds with the suspect values, as ``other`` has them, and without."""
        other.rely_on(self.confidence)
        self.doubted = other
        self._join()

    def _join(self) -> None:
        """Take the wider bounds and the smaller safe set of the two."""
        if (other := self.doubted) is not None:
            self.bounds, self.sets = self._joined(self.bounds, self.sets, other.bounds, other.sets)

    def _joined(
        self, bounds: ConfidenceBounds, sets: SafeSets, others: ConfidenceBounds, other: SafeSets
    ) -> tuple[ConfidenceBounds, SafeSets]:
        """What holds with and without suspect values. The doubted outputs have other units."""
        assert self.doubted is not None
        each = zip(self.doubted.model.outputs, self.model.outputs, strict=True)
        ratios = self.mean.new_tensor([its.scale / mine.scale for its, mine in each])[:, None]
        of_sides = ratios[[side.output for side in self.model.sides]]
        margins = replace(other, worst=other.worst * of_sides, best=other.best * of_sides)
        wide = ConfidenceBounds(others.lower * ratios, others.upper * ratios)
        return bounds.widened(wide), sets.joined(margins)

    def _refresh(self) -> None:
        """Bounds and safe sets after what was observed last."""
        means, variances = zip(*(one.belief.of_rows() for one in self.posteriors), strict=True)
        self.mean, self.std = torch.stack(means), torch.stack(variances).sqrt()
        model, points = self.model, self.points
        now = ConfidenceBounds.around(self.mean, self.std, self.betas)
        if self._kept is not None:
            now = now.intersect(self._kept)
        tracking = model.strategy if isinstance(model.strategy, Tracking) else None
        if model.slopes and tracking is None:
            is_safe = SafeSets.of(now, model.sides).is_safe
            now = now.extended(model.slopes, points, points[is_safe], now.at(is_safe))
        self.bounds = now
        self._kept = self.bounds if self.confidence.is_intersected else None
        views = {number: rows.view() for number, rows in self.mixtures.items()}
        self.risk, self.sets = self._prove(now, self.mean, self.std, points, views)
        if tracking is not None:
            self.track = tracking.track(self, self.track)
            self.sets = self.track.sets
        self._join()

    def _prove(
        self,
        bounds: ConfidenceBounds,
        mean: Float[Tensor, "o b"],
        std: Float[Tensor, "o b"],
        points: Points,
        views: Mapping[int, MixtureView],
    ) -> tuple[Float[Tensor, "m b"] | None, SafeSets]:
        """Safe sets by the bounds, by mixtures, and by what Lipschitz constants alone prove.

        Mixtures give the risk of each limit that they are about too.
        """
        model, risk, sets = self.model, None, SafeSets.of(bounds, self.model.sides)
        believed = [i for i, one in enumerate(model.sides) if not model.is_bounded(one)]
        if any(model.sides[i].output in views for i in believed):
            sides = [model.sides[i] for i in believed]
            given = model.outputs, (mean, std), views, self.betas, model.sets
            risk, weighed = weigh_limits(sides, *given)
            sets.worst[believed], sets.best[believed] = weighed.worst, weighed.best
        for i, side in enumerate(model.sides):
            if model.is_bounded(side):
                told, slope = self.posteriors[side.output], model.slopes[side]
                where, nothing = self.points[told.seen_rows], torch.full_like(mean[0], -torch.inf)
                y = side.margin(torch.tensor(told.values, dtype=torch.float64))
                bound = (model.constraints[side.name].noise_bound or 0.0) / self.scale(side.output)
                sets.worst[i] = slope.raise_lower(nothing, points, where, y - bound)
                sets.best[i] = -slope.raise_lower(nothing, points, where, -y - bound)
        return risk, sets

    @property
    def betas(self) -> list[float]:
        """So many standard deviations make the bounds of each output."""
        return self._betas_after(())

    def _betas_after(self, observed: Collection[int]) -> list[float]:
        """The betas after another observation of some outputs."""
        learned = [
            replace(one, observations=one.observations + (number in observed))
            for number, one in enumerate(one.learned for one in self.posteriors)
        ]
        return self.confidence.betas(learned, len(self.model.sides))

    def check(self) -> None:
        """Raise MiscalibratedModel where an interval is empty: it says that the model is wrong."""
        gap = self.bounds.lower - self.bounds.upper
        for side, worst, best in zip(
            self.model.sides, self.sets.worst, self.sets.best, strict=True
        ):
            if self.model.is_bounded(side):
                gap[side.output] = worst - best
        if not bool((gap > EMPTY_INTERVAL).any()):
            return
        output, row = divmod(int(gap.argmax()), gap.shape[1])
        name, where = self.model.outputs[output].names[0], self.points[row].tolist()
        size, has_slopes = float(gap[output, row]), bool(self.model.slopes)
        raise MiscalibratedModel.by_interval(name, where, size, has_slopes=has_slopes)

    def chance_of_others(self) -> Float[Tensor, " n"]:
        """The probability of each row to keep all limits but those of the objective itself."""
        sides = [one for one in self.model.sides if not self.model.is_bounded(one)]
        others = [i for i, side in enumerate(sides) if side.output > 0]
        if self.risk is not None:
            return (1 - self.risk[others]).prod(dim=0)
        return probability_safe(self.mean, self.std, [sides[i] for i in others])

    @property
    def safe_rows(self) -> Bool[Tensor, " n"]:
        """S_n among the points of the domain."""
        return self.is_candidate & self.sets.is_safe

    def evidence_against(self, row: int) -> str:
        """Say which limit a row breaks by its bounds, because of what was told; else say nothing.

        What the priors say before any observation is no evidence.
        """
        for side, best in zip(self.model.sides, self.sets.best[:, row].tolist(), strict=True):
            mean, std = self.posteriors[side.output].prior_at(row)
            width = self.betas[side.output] * std
            before = float(side.margins(mean - width, mean + width)[1])
            if best < min(0.0, before - AGAINST_SEED * (before < 0)):
                beyond = -best * self.scale(side.output)
                return f"by its bounds, {side.name} is at least {beyond:.3g} beyond its limit"
        return ""

    def rising(self) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
        """Bounds of what is to be large: the objective, or its negative if it is minimized."""
        lower, upper = self.bounds.lower[0], self.bounds.upper[0]
        return (-upper, -lower) if self.model.is_minimized else (lower, upper)

    def shown_bounds(
        self, number: int, at: PointBeliefs | None = None
    ) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
        """The bounds of an output in its unit, at the rows or at other points.

        Those of a mixture, and of a Lipschitz constant alone, meet a limit where S_n ends.
        """
        scale, sets = self.scale(number), (self if at is None else at).sets
        bounds = self.bounds if at is None else at.bounds
        lower, upper = (b[number] * scale for b in (bounds.lower, bounds.upper))
        for side, worst, best in zip(self.model.sides, sets.worst, sets.best, strict=True):
            is_own = number in self.mixtures or self.model.is_bounded(side)
            if side.output == number and is_own:
                near, far = (worst, best) if side.is_lower else (-best, -worst)
                lower, upper = scale * (side.limit + near), scale * (side.limit + far)
        return lower, upper

    def scale(self, number: int) -> float:
        """Prior standard deviation of an output, in its unit."""
        return self.model.outputs[number].scale

    def beliefs_at(self, points: Points, about: Collection[int] | None = None) -> PointBeliefs:
        """Say what is believed at points that need not be rows, by the present bounds.

        Where only some outputs are asked ``about``, nothing is said of the others.
        """
        mean, variance = points.new_zeros(2, len(self.posteriors), len(points))
        for number in range(len(mean)) if about is None else about:
            mean[number], variance[number] = self.posteriors[number].belief.at(points)
        std = variance.sqrt()
        now, model = ConfidenceBounds.around(mean, std, self.betas), self.model
        if model.slopes:
            is_safe = self.sets.is_safe
            now = now.extended(model.slopes, points, self.points[is_safe], self.bounds.at(is_safe))
        views = {number: rows.mixture.at(points) for number, rows in self.mixtures.items()}
        risk, sets = self._prove(now, mean, std, points, views)
        doubted = None if self.doubted is None else self.doubted.beliefs_at(points, about)
        if doubted is not None:
            now, sets = self._joined(now, sets, doubted.bounds, doubted.sets)
        return PointBeliefs(model, mean, std, now, sets, risk, doubted)

    def beliefs_at_row(self, row: int) -> PointBeliefs:
        """The same at a row, by the bounds that are kept."""
        one = slice(row, row + 1)
        risk = None if self.risk is None else self.risk[:, one]
        mean, std = self.mean[:, one], self.std[:, one]
        doubted = None if self.doubted is None else self.doubted.beliefs_at_row(row)
        return PointBeliefs(
            self.model, mean, std, self.bounds.at(one), self.sets.at(one), risk, doubted
        )

    def draw(
        self, count: int, generator: torch.Generator
    ) -> tuple[Float[Tensor, "count n"], Float[Tensor, "count n"] | None]:
        """Draw objectives, in their unit, each with the smallest margin of its constraints."""
        roots: dict[int, Tensor] = {}  # of the covariances; outputs that vary alike share one
        drawn = []
        for number, one in enumerate(self.posteriors):
            first = self.first_alike(number)
            if first not in roots:
                roots[first] = one.belief.root_of_rows()
            drawn.append(one.belief.sample_rows(count, generator, root=roots[first]))
        margins = [side.margin(drawn[side.output]) for side in self.model.sides]
        smallest = torch.stack(margins).amin(dim=0) if margins else None
        return drawn[0] * self.scale(0), smallest

    def first_alike(self, number: int) -> int:
        """The first output whose variances are those of an output."""
        return first_alike(self.posteriors, number)
