"""The unknown functions in units of their prior standard deviation, and what is believed of them.

In these units the gains of different outputs can be added: VTL's are variances, and count in
shares of the prior variance; those of ITL, MM-ITL and CTL do not depend on the unit anyway.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, log
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels import Kernel, Scaled
from tellmost.kernels.kernel import Points, are_same
from tellmost.numerics import RANK_TOLERANCE
from tellmost.posterior.function_tracker import FunctionTracker, Mark
from tellmost.posterior.gp import GP, Belief, Step
from tellmost.posterior.interpolation import Interpolated, Interpolation, SumMaker
from tellmost.posterior.problem import Observation, Problem, State, TargetState
from tellmost.posterior.sketch import (
    SKETCHED,
    Dense,
    Features,
    IndependentRows,
    Question,
    Seen,
    Sketch,
)
from tellmost.rows.pool import Pool
from tellmost.rules import Rule, noise_of_targets
from tellmost.safebo.bounds import Learned
from tellmost.safebo.constraints import Constraint, Side
from tellmost.safebo.kept_rows import Begun
from tellmost.shapes import Bool, Float, Int

OBJECTIVE = "objective"

SEEN_UP_TO = 2 * RANK_TOLERANCE
"""f_A is seen up to RANK_TOLERANCE twice: of its prior, and of what is left after the data."""

LEAST_NOISE = 1e-6
"""Noise below this share of the prior standard deviation is refused. Rounding decides what is
believed near repeated values from some 3e-8 on, and the same with many values close together."""

READABLE = SKETCHED | {"variance", "prior_variance"}
"""A rule may read these fields about the outputs."""


@dataclass(frozen=True)
class Output:
    """A function that is observed: the objective, a constraint, or several of them at once."""

    names: tuple[str, ...]  # OBJECTIVE and the constraints that it serves
    gp: GP
    scale: float  # the prior standard deviation: the root of the mean variance over the domain
    kernel: Kernel  # of f / scale
    is_bounded: bool = False  # Lipschitz constant and noise bound count, and the prior does not

    @classmethod
    def of(
        cls, names: tuple[str, ...], gp: GP, points: Points, is_bounded: bool = False
    ) -> "Output":
        check_fit(names[0], gp, points)
        variance = float(gp.kernel.diagonal(points).mean())
        if not variance > 0:
            raise ValueError(
                f"the prior of {names[0]!r} has no variance anywhere in the domain, so nothing "
                f"can be learned about it: {gp}."
            )
        kernel = gp.kernel if variance == 1.0 else Scaled(gp.kernel, 1.0 / variance)
        output = cls(names, gp, variance**0.5, kernel, is_bounded)
        if gp.knows_noise and not is_bounded:
            output.check_noise(gp.noise_std, f"noise_std of the GP of {names[0]!r}")
        return output

    def check_noise(self, least: float, argument: str) -> None:
        """Refuse noise that rounding hides."""
        if least < LEAST_NOISE * self.scale:
            raise ValueError(
                f"{argument} must be at least {LEAST_NOISE:g} times the prior standard deviation "
                f"{self.scale:.3g}, since rounding hides smaller noise; got {least:g}. State the "
                f"last digit of what you measure with, or {LEAST_NOISE * self.scale:.2g}."
            )

    def mean_of(self, points: Points) -> Float[Tensor, " n"]:
        """The prior mean of f / scale."""
        return self.gp.mean_of(points) / self.scale

    def noise_of_targets(self, rule: Rule) -> float:
        """The noise variance with which a rule about y_A sees the targets."""
        return noise_of_targets(rule, self.gp.noise_std**2) / self.scale**2

    def noise_std_of(self, told: Mapping[str, float]) -> float:
        """The noise of a value: as it was told, or the present estimate if it is not known."""
        return told[self.names[0]] if self.gp.knows_noise else self.gp.noise_std

    def value_in(self, given: Mapping[str, Any]) -> Any:
        """What was given of it, under any of its names; None if nothing was."""
        found = [given[name] for name in self.names if name in given]
        if len(found) > 1 and any(not np.array_equal(value, found[0]) for value in found[1:]):
            which = ", ".join(f"{name} {given[name]}" for name in self.names if name in given)
            raise ValueError(f"one function serves as {which}: tell it once, or the same value.")
        return found[0] if found else None


def by_number(outputs: Sequence[Output], given: Mapping[str, Any]) -> dict[int, Any]:
    """What was given by name, such as told values, by the numbers of the outputs."""
    values = {number: output.value_in(given) for number, output in enumerate(outputs)}
    return {number: value for number, value in values.items() if value is not None}


def check_fit(name: str, gp: GP, points: Points) -> None:
    """Refuse a kernel or data that do not suit the points, before they fail less clearly."""
    d = points.shape[1]
    try:
        gp.kernel.block(points[:1], points[:1])
    except (IndexError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"the kernel of {name!r} does not take points of {d} numbers, parameters and contexts "
            f"together: {gp.kernel!r}; {error}"
        ) from error
    if gp.data is not None and gp.data.points.shape[1] != d:
        raise ValueError(
            f"the data of {name!r} must be points of {d} numbers, parameters and contexts "
            f"together; got {gp.data.points.shape[1]}."
        )


def gather_outputs(
    objective: GP, constraints: Mapping[str, Constraint], points: Points
) -> tuple[Output, ...]:
    """An output for each prior that is not the same object as another; the objective's is first.

    Outputs whose kernels are the same share one kernel object, so that what is made of it serves
    all of them.
    """
    served: dict[int, tuple[GP, list[str]]] = {id(objective): (objective, [OBJECTIVE])}
    for name, constraint in constraints.items():
        served.setdefault(id(constraint.gp), (constraint.gp, []))[1].append(name)
    outputs = []
    for gp, names in served.values():
        bounds = {constraints[n].noise_bound for n in names if n in constraints}
        if len(bounds) > 1 or (bounds != {None} and OBJECTIVE in names and len(names) > 1):
            raise ValueError(
                f"{' and '.join(map(repr, names))} share a GP, so they must have the same "
                f"noise_bound, and the objective has none: give a constraint a GP of its own."
            )
        outputs.append(Output.of(tuple(names), gp, points, bool(bounds - {None})))
    kernels = [one.kernel for one in outputs]
    return tuple(
        replace(one, kernel=next(k for k in kernels if are_same(k, one.kernel))) for one in outputs
    )


def gather_sides(
    outputs: Sequence[Output], constraints: Mapping[str, Constraint]
) -> tuple[Side, ...]:
    """All limits, in the units of their outputs."""
    sides = []
    for name, constraint in constraints.items():
        number = number_of(outputs, name)
        limits = (True, constraint.at_least), (False, constraint.at_most)
        sides += [
            Side(name, number, is_lower, limit / outputs[number].scale)
            for is_lower, limit in limits
            if limit is not None
        ]
    for number, output in enumerate(outputs):
        check_room([side for side in sides if side.output == number], output)
    return tuple(sides)


def number_of(outputs: Sequence[Output], name: str) -> int:
    """The number of the output that serves a name."""
    for number, output in enumerate(outputs):
        if name in output.names:
            return number
    names = ", ".join(repr(one) for output in outputs for one in output.names)
    raise ValueError(f"there is no output {name!r}; there are {names}.")


def check_room(sides: Sequence[Side], output: Output) -> None:
    """Refuse constraints that share a function and contradict each other."""
    lowest = max((side.limit for side in sides if side.is_lower), default=-inf)
    highest = min((side.limit for side in sides if not side.is_lower), default=inf)
    if not lowest < highest:
        names = ", ".join(repr(side.name) for side in sides)
        raise ValueError(
            f"constraints {names} share one function, and nothing satisfies both: it is to be at "
            f"least {lowest * output.scale:g} and at most {highest * output.scale:g}."
        )


class OutputValue(NamedTuple):
    """An observation of one output, in units of its prior standard deviation."""

    row: int  # of the points of the round
    y: float
    noise_variance: float


@dataclass(frozen=True)
class Marked:
    """What an OutputPosterior knew at some time."""

    tracker: FunctionTracker
    tracked: Mark
    believed: tuple[Tensor, Tensor, Tensor]
    count: int
    log_noise: float


class OutputPosterior:
    """Mean and variance of f / scale at the points of a round, and gains of observing them."""

    def __init__(
        self,
        output: Output,
        points: Points,
        noise_variance: Float[Tensor, " n"],
        values: Sequence[OutputValue],
        features: SumMaker,
        rule: Rule,
        is_candidate: Bool[Tensor, " n"],
        others: Sequence["OutputPosterior"] = (),
        begun: Begun | None = None,
    ) -> None:
        """Of the ``others``, the first that varies alike shares its tracker.

        ``begun`` gives what earlier rounds have made, after the given rows were seen with noise.
        """
        self.output = output
        self.points = points
        self.noise_variance = noise_variance  # of an observation of each row
        self._rule = rule
        self._seen = [(one.row, one.noise_variance) for one in values]
        self.values = [one.y for one in values]  # in the order of the rows that were seen
        self._log_noise = sum(log(noise) for _, noise in self._seen)
        alike = next((other for other in others if self._is_like(other)), None)
        self._tracker: FunctionTracker = self._track(begun) if alike is None else alike._tracker
        y = torch.tensor([one.y for one in values], dtype=torch.float64)
        self.belief = Belief(self._tracker, output.mean_of, y)
        self._features = features
        self._is_candidate = is_candidate
        self._supposed: tuple[Any, FunctionTracker] | None = None  # with pending rows

    def _track(self, begun: Begun | None) -> FunctionTracker:
        points, kernel = self.points, self.output.kernel
        seen = zip(torch.split(points[self.seen_rows], 1), self._seen, strict=bool(self._seen))
        problem = Problem(
            kernel=kernel,
            rows=Pool.of(points),
            noise_variance=self.noise_variance,
            prior_variance=kernel.diagonal(points),
            observed=tuple(Observation(point, noise) for point, (_, noise) in seen),
            needs=frozenset({"variance"}),
            target_noise_variance=self.output.noise_of_targets(self._rule),
            columns_ahead=1,
        )
        return FunctionTracker(problem, *(() if begun is None else begun(self._seen)))

    def _is_like(self, other: "OutputPosterior") -> bool:
        """Say whether another output has the same variances, and so the same gains."""
        return (
            self.output.kernel is other.output.kernel
            and self._seen == other._seen
            and self.output.noise_of_targets(self._rule)
            == other.output.noise_of_targets(other._rule)
            and torch.equal(self.noise_variance, other.noise_variance)
        )

    def varies_as(self, other: "OutputPosterior") -> bool:
        """Say whether another output shares the tracker, because it has the same variances."""
        return self._tracker is other._tracker

    def part(self) -> None:
        """Have a tracker of its own from now on."""
        self._tracker = self.belief.tracker = self._tracker.fork()
        self._supposed = None

    def observe(self, value: OutputValue, step: Step | None = None) -> Step:
        """Take in a value; ``step`` is what the tracker said if it has done so already."""
        row, noise = value.row, value.noise_variance
        point = self.points[row : row + 1]
        step = self.belief.observe(point, value.y, noise, row, step)
        self._seen.append((row, noise))
        self.values.append(value.y)
        self._log_noise += log(noise)
        return step

    def observe_together(self, values: Sequence[OutputValue], *, is_first: bool) -> None:
        """Take in values together; the first output that has the tracker does so first."""
        if not values:
            return
        points = self.points[[one.row for one in values]]
        noise = [one.noise_variance for one in values]
        if is_first:
            self._tracker.observe_together(points, points.new_tensor(noise))
        self.belief.catch_up(points, points.new_tensor([one.y for one in values]))
        self._seen += [(one.row, one.noise_variance) for one in values]
        self.values += [one.y for one in values]
        self._log_noise += sum(map(log, noise))

    def mark(self) -> "Marked":
        """What is known now, to return to."""
        tracker = self._tracker
        believed = self.belief.mark()
        return Marked(tracker, tracker.mark(), believed, len(self._seen), self._log_noise)

    def return_to(self, mark: "Marked") -> None:
        """Forget what was observed since."""
        self._tracker = self.belief.tracker = mark.tracker
        if self._tracker.posterior.rank > mark.tracked[0].rank:  # no other has done it
            self._tracker.return_to(mark.tracked)
        self.belief.return_to(mark.believed)
        self._log_noise = mark.log_noise
        del self._seen[mark.count :], self.values[mark.count :]
        self._supposed = None

    # ---- what is believed

    def covariance(self, rows: Int[Tensor, " b"]) -> Float[Tensor, "b n"]:
        """The covariance of f / scale between some rows and all points, given what was told."""
        F = self._tracker.whitened_rows
        return self.output.kernel.block(self.points[rows], self.points) - F[:, rows].T @ F

    def prior_at(self, row: int) -> tuple[Float[Tensor, " 1"], Float[Tensor, " 1"]]:
        """Mean and standard deviation of f / scale at a row, before anything was observed."""
        point = self.points[row : row + 1]
        return self.output.mean_of(point), self.output.kernel.diagonal(point).sqrt()

    @property
    def learned(self) -> Learned:
        scales = self._tracker.posterior.log_scales
        information = float(scales.sum()) - 0.5 * self._log_noise
        return Learned(self.output.names, len(scales), information)

    @property
    def seen_rows(self) -> list[int]:
        return [row for row, _ in self._seen]

    # ---- what observations teach about targets

    def gains(
        self,
        rows: Int[Tensor, " b"],
        weights: Float[Tensor, " n"],
        pending: Sequence[int] = (),
        is_dense: bool = False,
    ) -> Float[Tensor, " b"]:
        """Compute what observing each of these rows would teach about the targets.

        The targets are the rows of positive weight. ``pending`` rows count as observed: variances
        do not depend on what comes out. ``is_dense`` makes covariances of the kernel itself.
        """
        tracker, is_target = self._after(pending), weights > 0
        targets = self._targets(tracker, weights)
        maker = Dense(tracker) if is_dense else self._maker(tracker, pending)
        gains = torch.empty(len(rows), dtype=torch.float64)
        noise_variance = tracker.problem.target_noise_variance
        asked = Question(rows, is_target, targets, self._rule.needs, noise_variance)
        for piece, fields in maker.fields(asked):
            gains[piece] = self._rule.gain(self._state(tracker, rows[piece], fields, targets))
        return gains

    def gain_bounds(
        self, rows: Int[Tensor, " b"], weights: Float[Tensor, " n"], pending: Sequence[int]
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, " b"]]:
        """Lower and upper bounds of gains of ITL about f, for which no target has to be seen.

        Once f_A is seen, nothing may be left of the variance of a row. Of a target's, nothing is
        left if rows are independent, and else no more than RANK_TOLERANCE of the largest
        eigenvalue, of which the trace is a bound.
        """
        tracker = self._after(pending)
        targets, variance = self._targets(tracker, weights), tracker.variance_of_rows[rows]
        knows = isinstance(self._features, IndependentRows) and self._features.are_proven
        left = 0.0 if knows else SEEN_UP_TO * float(targets.prior_variance.sum())
        most = torch.where(weights[rows] > 0, variance.clamp(max=left), variance)
        lower, upper = (
            self._rule.gain(self._state(tracker, rows, {"variance_given_targets": given}, targets))
            for given in (most, torch.zeros_like(most))
        )
        return lower, upper

    def _targets(self, tracker: FunctionTracker, weights: Float[Tensor, " n"]) -> TargetState:
        prior, is_target = tracker.problem.prior_variance, weights > 0
        own = weights[is_target]
        return TargetState(tracker.variance_of_rows[is_target], prior[is_target], own)

    def _state(
        self,
        tracker: FunctionTracker,
        rows: Int[Tensor, " b"],
        fields: dict[str, Tensor],
        targets: TargetState,
    ) -> State:
        problem, variance = tracker.problem, tracker.variance_of_rows[rows]
        known = {"variance": variance, "prior_variance": problem.prior_variance[rows]}
        noise = problem.noise_variance[rows]
        return State(rows, tracker.posterior.rank, noise, fields | known, targets)

    def _maker(
        self, tracker: FunctionTracker, pending: Sequence[int]
    ) -> Sketch | Seen | Interpolated | Dense:
        later = [(row, float(self.noise_variance[row])) for row in pending]
        if isinstance(self._features, Features):
            return Sketch(self._features, [*self._seen, *later])
        if isinstance(self._features, IndependentRows):
            return Seen(self._features, [*self._seen, *later], tracker)
        if self._features is not None:
            return Interpolated(self._features, tracker, self._is_candidate)
        return Dense(tracker)

    @property
    def is_interpolated(self) -> bool:
        """If true, gains are rough unless they are made densely."""
        return isinstance(self._features, Interpolation)

    def removed(
        self, point: Points, noise_variance: float, is_target: Bool[Tensor, " n"]
    ) -> Float[Tensor, " m"]:
        """The fall of the variance of each target if one point, a single row, is observed."""
        tracker = self._tracker
        F = tracker.posterior.whiten(point)[:, 0]
        s = float(tracker.kernel.diagonal(point)) - float(F.square().sum())
        covariance = tracker.kernel.column(self.points[is_target], point)
        covariance = covariance - (F @ tracker.whitened_rows)[is_target]
        return covariance.square_().div_(max(s, 0.0) + noise_variance)

    def about(self, weights: Float[Tensor, " n"], pending: Sequence[int]) -> FunctionTracker:
        """A tracker of its own that knows the targets, for gains between the points."""
        needs, is_target = self._rule.needs | {"variance"}, weights > 0
        return self._after(pending).elsewhere(is_target, needs, weights[is_target])

    def _after(self, pending: Sequence[int]) -> FunctionTracker:
        """The tracker, or a brief copy that takes the pending rows for observed."""
        if not pending:
            return self._tracker
        key = len(self._seen), tuple(pending)
        if self._supposed is None or self._supposed[0] != key:
            tracker = self._tracker.fork(briefly=True)
            for row in pending:
                noise = float(self.noise_variance[row])
                tracker.observe_point(self.points[row : row + 1], noise, row)
            self._supposed = key, tracker
        return self._supposed[1]
