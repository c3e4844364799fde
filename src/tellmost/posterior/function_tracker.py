"""This tracker follows every row in function space, by a column of the kernel per observation.

Each observation costs O(n (d + t)) for the column, and O(n m) more for rules that read the
covariances with the targets; memory is O(n t), and O(n m) where those are kept.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tellmost.kernels import Kernel
from tellmost.kernels.kernel import Points
from tellmost.kernels.linear import Linear
from tellmost.posterior.columns_ahead import (
    Draft,
    JointDraft,
    RowsAtHand,
    columns_ahead,
    shortlist_length,
    width_to_take,
)
from tellmost.posterior.function_space import (
    CovarianceAmongRows,
    FunctionPosterior,
    GrowingMatrix,
    RunningRows,
    given_observed,
)
from tellmost.posterior.nearness import RunningNearness, fixed_fields, fixed_fields_of_all
from tellmost.posterior.problem import (
    AMONG_CANDIDATES,
    CHOSEN_FIELDS,
    FROM_COVARIANCE,
    NEAR_TARGETS,
    Problem,
    State,
    TargetSummary,
    covariance_fields,
    nonnegative,
    prior_correlation,
)
from tellmost.rows.pool import Pool
from tellmost.running.workers import cut
from tellmost.shapes import Bool, Float, Int

SMALL = 2**18
"""Rows of so few values have products with a whole shortlist in the time of a few steps of a
draft. In function space such rows are few, as they have more features than there are rows."""

Mark = tuple[FunctionPosterior, Tensor, int]  # with the variances of rows, and the steps so far

WIDE = FROM_COVARIANCE | {"correlation"}
"""Fields that are made of rows x targets values."""


class FunctionTracker:
    """The posterior of the function, and the running values that the rule needs, for all rows.

    It is a Tracker, and can be aimed at other targets, forked, and asked about points elsewhere.
    """

    form = "function space"
    is_exact = True  # they are sums of squares; covariances are kept, not their squares

    def __init__(
        self,
        problem: Problem,
        posterior: FunctionPosterior | None = None,
        rows: RunningRows | None = None,
    ) -> None:
        """A ``posterior`` that is given contains what the problem observed, as do ``rows``."""
        self.passes = 0
        self.problem = problem
        if posterior is None:
            posterior = given_observed(FunctionPosterior(problem.kernel, problem.device), problem)
        self.posterior = posterior
        self._rows = problem.rows
        self._step = 0
        self._is_current = True  # the running values contain all observations
        self._prior_columns: dict[int, Tensor] = {}  # of rows that may be observed soon
        self._running: dict[str, RunningRows] = {} if rows is None else {"variance": rows}
        self._chosen = [observation.point for observation in problem.observed]
        self._near = self._set_up_nearness()
        self._among = self._keep_all_pairs()
        given_targets = None
        if problem.sees_targets:  # the targets come first, so that no observation is lost on them
            given_targets = FunctionPosterior(problem.kernel, problem.device)
            given_targets.see_targets(problem.known_targets, problem.target_noise_variance)
            given_observed(given_targets, problem)
        self._set_targets(given_targets)

    def aim_at(
        self,
        targets: Points,
        needs: frozenset[str],
        weights: Float[Tensor, " m"] | None = None,
        whitened: Float[Tensor, "t m"] | None = None,
    ) -> None:
        """Be about other targets from now on, of equal weight unless their weights are given.

        What is known of the rows stays. F of the targets need not be ``whitened`` if it is known.
        """
        if weights is None:
            m = len(targets)
            weights = torch.full((m,), 1.0 / m, dtype=torch.float64, device=self.problem.device)
        problem = replace(self.problem, targets=targets, target_weights=weights, needs=needs)
        given_targets = None
        if problem.sees_targets:
            given_targets = self.posterior.copy()
            given_targets.see_targets(targets, problem.target_noise_variance)
        self.problem = problem
        self._set_targets(given_targets, whitened)

    def elsewhere(
        self, is_target: Bool[Tensor, " n"], needs: frozenset[str], weights: Float[Tensor, " m"]
    ) -> "FunctionTracker":
        """A tracker with a single row, for states of points anywhere about some of the rows."""
        problem = replace(
            self.problem,
            rows=Pool.of(self.points[:1]),
            noise_variance=self.problem.noise_variance[:1],
            prior_variance=self.problem.prior_variance[:1],
        )
        other = FunctionTracker(problem, self.posterior.copy())
        other.aim_at(self.points[is_target], needs, weights, self.whitened_rows.T[is_target].T)
        return other

    def fork(self, *, briefly: bool = False) -> "FunctionTracker":
        """An independent tracker, to try observations on.

        One that is needed ``briefly`` shares the memory of F, so it must not be used any more
        once this tracker observes something.
        """
        problem = self.problem
        shared: list[Any] = [problem, self._rows, problem.kernel, problem.prior_variance]
        if briefly:
            shared += [running.whitened.memory for running in self._running.values()]
        copied = {id(part): part for part in shared}
        return deepcopy(self, copied | {id(self.posterior): self.posterior.copy()})

    @property
    def kernel(self) -> Kernel:
        return self.problem.kernel

    @property
    def points(self) -> Points:
        """All rows."""
        return self._rows.whole()

    @property
    def whitened_rows(self) -> Float[Tensor, "t n"]:
        """F of all rows, a column each."""
        return self._running["variance"].whitened.rows

    @property
    def variance_of_rows(self) -> Float[Tensor, " n"]:
        return self._running["variance"].variance

    # ---- what the loop asks

    def score(self, gain: Callable[[State], Tensor]) -> Float[Tensor, " n"]:
        self.passes += self.problem.reads_rows(WIDE, self._kept)
        gains = torch.empty(len(self._rows), dtype=torch.float64, device=self.problem.device)

        def score(piece: slice, points: Points | None) -> None:
            gains[piece] = gain(self._running_state(piece, points))

        self.problem.each_piece(WIDE, self._kept, score)
        return gains

    def state(self, rows: Int[Tensor, " b"]) -> State:
        """Computed afresh only where the running values are not current."""
        if self._is_current and self._reads_columns:
            reads_rows = self.problem.reads_rows(WIDE, self._kept)
            return self._running_state(rows, self._rows.rows(rows) if reads_rows else None)
        points = self._rows.rows(rows)
        fields = self._fresh_fields(points) | self._fixed_of(rows)
        prior = self.problem.prior_variance[rows]
        return self._state(rows, fields | self._correlations(points, prior))

    def state_at(self, points: Points, noise_variance: Float[Tensor, " b"]) -> State:
        """The state of points that need not be rows; differentiable in the points."""
        prior = self.kernel.diagonal(points)
        fields = self._fresh_fields(points) | fixed_fields(self.problem, points, prior)
        fields |= self._correlations(points, prior)
        nobody = torch.full((len(points),), -1, device=self.problem.device)
        return State(nobody, self._step, noise_variance, fields, self.targets.state)

    def observe(self, row: int, *, update_rows: bool = True) -> None:
        few = self._at_hand.get([row])
        is_kept = self._running and self._is_current and self.problem.shard is None
        noise_variance = float(few.noise_variance[0])
        steps, covariance = self._condition(few.points, noise_variance, row if is_kept else None)
        self._is_current &= update_rows
        if self._is_current and self._reads_columns:
            self._update_rows(few.points, self._prior_columns.get(row), steps, covariance)

    def observe_point(
        self, point: Points, noise_variance: float, row: int | None = None
    ) -> tuple[Float[Tensor, " t"], float]:
        """Condition on an observation at any point, given as a single row, or known as a ``row``.

        Returns F at the point before the observation, and the observation's variance.
        """
        steps, covariance = self._condition(point, noise_variance, row)
        if self._reads_columns:
            self._update_rows(point, None, steps, covariance)
        return steps["variance"]

    def observe_together(self, points: Points, noise_variance: Float[Tensor, " b"]) -> None:
        """Condition on observations at several points, where only variances are kept of rows."""
        self.posterior.observe_in_turn(points, noise_variance)
        self._running["variance"].catch_up(self.problem, self.posterior)
        self._step += len(points)

    def mark(self) -> Mark:
        """What is known now, to return to."""
        return self.posterior.copy(), self.variance_of_rows.clone(), self._step

    def return_to(self, mark: Mark) -> None:
        """Forget what was observed since, where only variances are kept of rows."""
        self.posterior, self._step = mark[0].copy(), mark[2]
        self.variance_of_rows.copy_(mark[1])
        self._running["variance"].whitened.shorten(self.posterior.rank)

    def width_for(self, reach: float) -> int:
        return width_to_take(self.problem, 1, self.width, reach)

    def is_at_hand(self, row: int) -> bool:
        return row in self._prior_columns or not self._reads_columns

    def look_ahead(self, rows: list[int]) -> None:
        """Make the kernel's columns of these rows, which no observation changes."""
        if not self._reads_columns:
            return
        self.passes += 1
        self._prior_columns.clear()
        points = self._at_hand.keep(rows).points
        size = len(rows), len(self._rows)
        columns = torch.empty(size, dtype=torch.float64, device=self.problem.device)

        def fill(start: int, stop: int, block: Points) -> None:
            columns[:, start:stop] = self.kernel.block(block, points).T

        self._rows.each(fill)
        self._prior_columns = dict(zip(rows, columns, strict=True))

    def draft(self, rows: Int[Tensor, " b"]) -> Draft:
        few = self._at_hand.keep(rows.tolist())
        prior = self.kernel.block(few.points, few.points)
        *whitened, covariance = self.problem.collect(rows, self._running_values)
        joint = {name: prior - F @ F.T for name, F in zip(self._running, whitened, strict=True)}
        fields = fixed_fields(self.problem, few.points, few.prior_variance)
        fields |= {name: near.of(few.points) for name, near in self._near.items()}
        fields |= self._correlations(few.points, few.prior_variance)
        return JointDraft(
            state=State(rows, self._step, few.noise_variance, fields, self.targets.state),
            needs=self.problem.needs,
            variance=joint["variance"] if self._running else prior.clone(),
            given_targets=joint.get("variance_given_targets"),
            covariance=covariance.clone() if self._reads_covariance else None,
            prior=prior if self._near else None,
        )

    def refresh(self) -> bool:
        return False

    def mean_variance(self) -> float:
        return self.problem.mean(self.variance_of_rows)

    # ---- set-up

    def _set_targets(
        self, given_targets: FunctionPosterior | None, whitened: Float[Tensor, "t m"] | None = None
    ) -> None:
        problem, targets = self.problem, self.problem.targets
        self._given_targets = given_targets
        variance = None
        self._whitened_targets = GrowingMatrix(problem.target_count, problem.device)
        if targets is not None:
            F = self.posterior.whiten(targets) if whitened is None else whitened
            variance = nonnegative(self.kernel.diagonal(targets) - F.square().sum(dim=0))
            self._whitened_targets.append(F)
        self.targets = TargetSummary(problem, variance)
        self._running = self._set_up_running()
        self._fixed = fixed_fields_of_all(problem)
        self.passes += bool(problem.needs & NEAR_TARGETS)
        self._covariance: Tensor | None = None
        self._covariance = self._keep_covariance()
        self._at_hand = RowsAtHand(problem)
        self._prior_columns.clear()
        self.width = 1  # beside an update of all pairs a pass over the rows is little
        if self._among is None:
            self.width = columns_ahead(problem, 1, self._covariance)
        self.shortlist = shortlist_length(problem, self.width, is_joint=True)
        values = problem.rows.shape[0] * problem.rows.dimension
        is_small = isinstance(problem.kernel, Linear) and values <= SMALL
        self.has_drafts = not is_small or problem.columns_ahead is not None

    def _set_up_running(self) -> dict[str, RunningRows]:
        """Variances of all rows; that without the targets is kept where it is there already."""
        if not self.problem.conditions_rows:
            return {}
        same = self._running.get("variance")
        self.passes += self.posterior.rank > 0 or self._given_targets is not None
        known = None if same is None else same.whitened.rows
        running = {"variance": same or RunningRows.of(self.problem, self.posterior)}
        if self._given_targets is not None:
            given = RunningRows.of(self.problem, self._given_targets, known)
            running["variance_given_targets"] = given
        return running

    def _set_up_nearness(self) -> dict[str, RunningNearness]:
        values = self.problem.prior_variance
        near = {
            name: RunningNearness(name, self.problem, self._chosen, None, torch.empty_like(values))
            for name in sorted(self.problem.needs & CHOSEN_FIELDS)
        }
        if near and self._chosen:
            self.passes += 1

            def fill(start: int, stop: int, block: Points) -> None:
                for run in near.values():
                    run.values[start:stop] = run.of(block)

            self._rows.each(fill)
        return near

    def _keep_covariance(self) -> Tensor | None:
        if not self._reads_covariance or not self.problem.keeps_covariance:
            return None
        size = len(self._rows), self.problem.target_count
        covariance = torch.empty(size, dtype=torch.float64, device=self.problem.device)

        def fill(start: int, stop: int, block: Points) -> None:
            covariance[start:stop] = self._covariance_of(slice(start, stop), block)

        self._rows.each(fill)
        return covariance

    def _keep_all_pairs(self) -> CovarianceAmongRows | None:
        if AMONG_CANDIDATES not in self.problem.needs:
            return None
        self.passes += 1
        return CovarianceAmongRows(self.problem, self.posterior)

    @property
    def _reads_columns(self) -> bool:
        """If true, an observation changes something that is kept for all rows."""
        return bool(self._running or self._near)

    @property
    def _reads_covariance(self) -> bool:
        """If true, the rule reads covariances of rows and targets."""
        return bool(self.problem.needs & FROM_COVARIANCE)

    @property
    def _kept(self) -> frozenset[str]:
        """Wide fields for which no rows have to be read."""
        return frozenset() if self._covariance is None else FROM_COVARIANCE

    # ---- one observation

    def _condition(
        self, point: Points, noise_variance: float, row: int | None = None
    ) -> tuple[dict[str, tuple[Tensor, float]], Tensor | None]:
        """The step of each posterior, and the observation's covariance with the targets."""
        posteriors = {"variance": self.posterior}
        if self._given_targets is not None:
            posteriors["variance_given_targets"] = self._given_targets
        steps = {}
        for name, posterior in posteriors.items():
            known = None
            if row is not None:
                known = self._running[name].whitened.rows[:, row : row + 1].clone()
            steps[name] = posterior.observe(point, noise_variance, known)
        covariance = self._observe_targets(point, *steps["variance"], row)
        self._chosen.append(point)
        self._step += 1
        return steps, covariance

    def _observe_targets(
        self, point: Points, F: Tensor, s: float, row: int | None
    ) -> Tensor | None:
        if self.problem.targets is None:
            return None
        if row is not None and self._covariance is not None:
            covariance = self._covariance[row].clone()
        else:
            covariance = self.kernel.column(self.problem.targets, point)
            covariance = covariance - F @ self._whitened_targets.rows
        self._whitened_targets.append(covariance[None] / s**0.5)
        self.targets.observe(covariance, s)
        return covariance

    def _update_rows(
        self,
        point: Points,
        prior_column: Tensor | None,
        steps: dict[str, tuple[Tensor, float]],
        covariance: Tensor | None,
    ) -> None:
        if prior_column is None:
            prior_column = self._prior_column(point)
        columns = {
            name: rows.update(prior_column, *steps[name]) for name, rows in self._running.items()
        }
        for near in self._near.values():
            near.take(point, prior_column)
        s = steps["variance"][1]
        if self._among is not None:
            self._among.update(columns["variance"], s)
        if self._covariance is not None and covariance is not None:
            kept, column = self._covariance, columns["variance"]
            self.problem.each_slice(
                self.problem.rows_per_chunk(WIDE),
                lambda piece: cut(kept, piece).addr_(
                    cut(column, piece), covariance, alpha=-1.0 / s
                ),
            )

    def _prior_column(self, point: Points) -> Float[Tensor, " n"]:
        self.passes += 1
        column = torch.empty(len(self._rows), dtype=torch.float64, device=self.problem.device)

        def fill(start: int, stop: int, block: Points) -> None:
            column[start:stop] = self.kernel.column(block, point)

        self._rows.each(fill)
        return column

    # ---- fields of a state

    def _running_state(self, rows: Int[Tensor, " b"] | slice, points: Points | None) -> State:
        """The state by the running values; ``points`` are the rows, where fields read them."""
        fields = {name: cut(running.variance, rows) for name, running in self._running.items()}
        fields |= {name: cut(near.values, rows) for name, near in self._near.items()}
        if self._among is not None:
            fields[AMONG_CANDIDATES] = self._among.mean_square(rows)
        if self._reads_covariance:
            fields |= self._summaries(self._covariance_of(rows, points))
        fields |= self._fixed_of(rows)
        if points is not None:
            fields |= self._correlations(points, self.problem.prior_variance[rows])
        return self._state(rows, fields)

    def _fresh_fields(self, points: Points) -> dict[str, Tensor]:
        """Make the fields that an observation changes from the posteriors themselves."""
        fields, F = {}, self.posterior.whiten(points)
        if self._running:
            prior_variance = self.kernel.diagonal(points)
            fields["variance"] = nonnegative(prior_variance - F.square().sum(dim=0))
        if self._given_targets is not None:
            fields["variance_given_targets"] = self._given_targets.variance(points)
        if self._reads_covariance:
            prior = self.kernel.block(points, self.problem.known_targets)
            fields |= self._summaries(prior - F.T @ self._whitened_targets.rows)
        if self._among is not None:
            fields[AMONG_CANDIDATES] = self._among.fresh_mean_square(points)
        return fields | {name: near.of(points) for name, near in self._near.items()}

    def _running_values(self, rows: Int[Tensor, " b"]) -> tuple[Tensor, ...]:
        """Whitened vectors of some rows here, and covariances with the targets if needed."""
        whitened = [running.whitened.rows[:, rows].T for running in self._running.values()]
        if not self._reads_covariance:
            return (
                *whitened,
                torch.empty(len(rows), 0, dtype=torch.float64, device=self.problem.device),
            )
        points = None if self._covariance is not None else self._rows.rows(rows)
        return (*whitened, self._covariance_of(rows, points))

    def _covariance_of(
        self, rows: Int[Tensor, " b"] | slice, points: Points | None
    ) -> Float[Tensor, "b m"]:
        if self._covariance is not None:
            return cut(self._covariance, rows)
        assert points is not None
        prior = self.kernel.block(points, self.problem.known_targets)
        return prior - self.whitened_rows[:, rows].T @ self._whitened_targets.rows

    def _summaries(self, covariance: Float[Tensor, "b m"]) -> dict[str, Tensor]:
        return covariance_fields(covariance, self.targets.known, self.problem.needs)

    def _fixed_of(self, rows: Int[Tensor, " b"] | slice) -> dict[str, Tensor]:
        return {name: values[rows] for name, values in self._fixed.items()}

    def _correlations(self, points: Points, variance: Float[Tensor, " b"]) -> dict[str, Tensor]:
        if "correlation" not in self.problem.needs:
            return {}
        covariance = self.kernel.block(points, self.problem.known_targets)
        of_targets = self.targets.known.prior_variance
        return {"correlation": prior_correlation(covariance, variance, of_targets)}

    def _state(self, rows: Int[Tensor, " b"] | slice, fields: dict[str, Tensor]) -> State:
        return self.problem.state(rows, self._step, fields, self.targets.state)
