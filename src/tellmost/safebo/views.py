"""What is believed about one output at the points of a round, and what observing them teaches."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.posterior.function_tracker import FunctionTracker
from tellmost.posterior.gp import Belief
from tellmost.posterior.problem import Observation, Problem, State, TargetState
from tellmost.posterior.sketch import SKETCHED, Dense, Moments, Sketch
from tellmost.rows.pool import Pool
from tellmost.rules import Rule
from tellmost.running.processes import Alone, Place
from tellmost.safebo.confidence import Learned
from tellmost.safebo.outputs import Output
from tellmost.shapes import Bool, Float, Int

READABLE = SKETCHED | {"variance", "prior_variance"}
"""What a rule may read here."""


@dataclass(frozen=True)
class Seen:
    """An observation of one output, in units of its prior standard deviation."""

    row: int  # of the points of the round
    y: float
    noise_variance: float


class View:
    """Mean and variance of f / scale at all points, and gains of some of them."""

    def __init__(
        self,
        output: Output,
        points: Points,
        noise_variance: Float[Tensor, " n"],
        seen: Sequence[Seen],
        moments: Moments | None,
        rule: Rule,
    ) -> None:
        self.output = output
        self._rule = rule
        problem = Problem(
            kernel=output.kernel,
            rows=Pool.of(points),
            noise_variance=noise_variance,
            prior_variance=output.kernel.diagonal(points),
            place=Place.of(len(points), Alone()),
            observed=tuple(
                Observation(points[one.row : one.row + 1], one.noise_variance) for one in seen
            ),
            needs=frozenset({"variance"}),
            target_noise_variance=noise_of_targets(rule, output),
            columns_ahead=1,
        )
        y = torch.tensor([one.y for one in seen], dtype=torch.float64)
        self.belief = Belief(FunctionTracker(problem), output.mean_of, y)
        self._seen = [(one.row, one.noise_variance) for one in seen]
        self._log_noise = sum(log(one.noise_variance) for one in seen)
        self._sketch = None
        if moments is not None:
            self._sketch = Sketch(moments)
            for one in seen:
                self._sketch.observe(one.row, one.noise_variance)

    def observe(self, seen: Seen) -> None:
        point = self.points[seen.row : seen.row + 1]
        self.belief.observe(point, seen.y, seen.noise_variance)
        self._seen.append((seen.row, seen.noise_variance))
        self._log_noise += log(seen.noise_variance)
        if self._sketch is not None:
            self._sketch.observe(seen.row, seen.noise_variance)

    @property
    def points(self) -> Points:
        return self._tracker.points

    @property
    def learned(self) -> Learned:
        scales = self._tracker.posterior.log_scales
        return Learned(self.output.names, len(scales), float(scales.sum()) - 0.5 * self._log_noise)

    def varies_as(self, other: "View") -> bool:
        """Whether its variances, and so its gains, are those of another: values do not count."""
        mine, its = self._tracker.problem, other._tracker.problem
        return (
            self.output.kernel is other.output.kernel
            and self._seen == other._seen
            and mine.target_noise_variance == its.target_noise_variance
            and torch.equal(mine.noise_variance, its.noise_variance)
        )

    @property
    def seen_rows(self) -> list[int]:
        """Where it was observed, among the points of the round."""
        return [row for row, _ in self._seen]

    def covariance(self, rows: Int[Tensor, " b"]) -> Float[Tensor, "b n"]:
        """Of f / scale between some rows and all points, given what was told."""
        F = self._tracker.whitened_rows
        return self.output.kernel.block(self.points[rows], self.points) - F[:, rows].T @ F

    def noise_of(self, row: int) -> float:
        """Variance of an observation of a row, in units of the prior's."""
        return float(self.noise_variance[row])

    @property
    def noise_variance(self) -> Float[Tensor, " n"]:
        """The same of all rows."""
        return self._tracker.problem.noise_variance

    def moments(self) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
        """Mean and standard deviation at all points."""
        mean, variance = self.belief.of_rows()
        return mean, variance.sqrt()

    def gains(
        self,
        rows: Int[Tensor, " b"],
        is_target: Bool[Tensor, " n"],
        pending: Sequence[int] = (),
        is_dense: bool = False,
    ) -> Float[Tensor, " b"]:
        """What observing each of these rows would teach about the targets; dense: without sketch.

        As if ``pending`` rows had been observed: variances do not depend on what comes out.
        """
        tracker, sketch = self._after(pending)
        variance, problem = tracker.variance_of_rows, tracker.problem
        m = int(is_target.sum())
        weights = torch.full((m,), 1.0 / m, dtype=torch.float64)
        targets = TargetState(variance[is_target], problem.prior_variance[is_target], weights)
        maker = Dense(tracker) if sketch is None or is_dense else sketch
        gains = torch.empty(len(rows), dtype=torch.float64)
        seen = problem.target_noise_variance
        for piece, fields in maker.fields(rows, is_target, targets, self._rule.needs, seen):
            some = rows[piece]
            known = {"variance": variance[some], "prior_variance": problem.prior_variance[some]}
            noise = problem.noise_variance[some]
            state = State(some, tracker.posterior.rank, noise, fields | known, targets)
            gains[piece] = self._rule.gain(state)
        return gains

    @property
    def can_be_confirmed(self) -> bool:
        """Whether gains are sketched, and those of a few rows cost little without."""
        return self._sketch is not None and "variance_given_targets" not in self._rule.needs

    def removed(
        self, point: Points, noise_variance: float, is_target: Bool[Tensor, " n"]
    ) -> Float[Tensor, " m"]:
        """By how much an observation at a point, a single row, lowers each target's variance."""
        tracker = self._tracker
        F = tracker.posterior.whiten(point)[:, 0]
        s = float(tracker.kernel.diagonal(point)) - float(F.square().sum())
        covariance = tracker.kernel.column(self.points[is_target], point)
        covariance = covariance - (F @ tracker.whitened_rows)[is_target]
        return covariance.square_().div_(max(s, 0.0) + noise_variance)

    def _after(self, pending: Sequence[int]) -> tuple[FunctionTracker, Sketch | None]:
        if not pending:
            return self._tracker, self._sketch
        tracker = self._tracker.fork()
        sketch = None if self._sketch is None else self._sketch.copy()
        for row in pending:
            noise = float(tracker.problem.noise_variance[row])
            tracker.observe_point(self.points[row : row + 1], noise)
            if sketch is not None:
                sketch.observe(row, noise)
        return tracker, sketch

    def about(self, is_target: Bool[Tensor, " n"], pending: Sequence[int]) -> FunctionTracker:
        """A tracker of its own that knows the targets, for gains between the points."""
        tracker = self._after(pending)[0] if pending else self._tracker.fork()
        return tracker.with_targets(self.points[is_target], self._rule.needs | {"variance"})

    @property
    def _tracker(self) -> FunctionTracker:
        return self.belief.tracker


def noise_of_targets(rule: Rule, output: Output) -> float:
    """With which a rule about y_A sees the targets; 0: it sees f."""
    of = getattr(rule, "target_noise_variance", None)
    return 0.0 if of is None else of(output.gp.noise_std**2) / output.scale**2
