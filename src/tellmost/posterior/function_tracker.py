"""What is known about every row, in function space: a column of the kernel per observation.

Each observation costs O(n (d + t)) for the column, and O(n m) more for rules that read the
covariances with the targets; memory is O(n t), and O(n m) where those are kept.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor

from tellmost.kernels import Kernel
from tellmost.kernels.kernel import Points
from tellmost.posterior.columns_ahead import Draft, RowsAtHand, columns_ahead
from tellmost.posterior.function_space import (
    CovarianceAmongRows,
    FunctionPosterior,
    GrowingMatrix,
    RunningRows,
)
from tellmost.posterior.nearness import Chosen, RunningNearness, fixed_fields, fixed_fields_of_all
from tellmost.posterior.problem import (
    AMONG_CANDIDATES,
    CHOSEN_FIELDS,
    FROM_COVARIANCE,
    NEAR_TARGETS,
    Problem,
    State,
    TargetSummary,
    covariance_fields,
    prior_correlation,
)
from tellmost.rows.sources import spans
from tellmost.shapes import Float, Int

WIDE = FROM_COVARIANCE | {"correlation"}
"""Fields that are made of rows x targets values."""


class FunctionTracker:
    """Posterior of the function, and the running values that the rule needs, for all rows."""

    form = "function space"

    def __init__(self, problem: Problem, earlier: "FunctionTracker | None" = None) -> None:
        """From the problem's observations, or from all of an earlier tracker of the same rows.

        An earlier one is not to be used any more: what it kept for all rows is taken over.
        """
        self.passes = 0
        self._problem = problem
        self._rows = problem.rows
        self._row_numbers = problem.row_numbers()
        self._at_hand = RowsAtHand(problem)
        self._step: int = 0 if earlier is None else earlier._step
        self._earlier = earlier
        self._pending: list[tuple[int, Tensor, float]] = []
        self._prior_columns: dict[int, Tensor] = {}  # of rows that may be observed soon
        self._posterior = self._start()
        self._given_targets = self._see_targets()
        self.targets = TargetSummary(problem, self._variance_of_targets())
        self._whitened_targets = self._set_up_targets()
        self._running = self._set_up_running()
        self._chosen: Chosen = Chosen(problem) if earlier is None else earlier._chosen
        self._near = self._set_up_nearness()
        self._fixed = fixed_fields_of_all(problem)
        self.passes += bool(problem.needs & NEAR_TARGETS)
        self._covariance: Tensor | None = None
        self._covariance = self._keep_covariance()
        self._among = self._keep_all_pairs()
        self.width = 1  # beside an update of all pairs a pass over the rows is little
        if self._among is None:
            self.width = columns_ahead(problem, 1, self._covariance)
        self._earlier = None

    def with_targets(self, targets: Points, needs: frozenset[str]) -> "FunctionTracker":
        """One that knows the same of all rows and is about other targets; this one is used up."""
        m = len(targets)
        weights = torch.full((m,), 1.0 / m, dtype=torch.float64, device=self.device)
        problem = replace(self._problem, targets=targets, target_weights=weights, needs=needs)
        return FunctionTracker(problem, earlier=self)

    def fork(self) -> "FunctionTracker":
        """An independent one, to try observations on."""
        shared = (self._problem, self._rows, self._problem.kernel)
        return deepcopy(self, {id(part): part for part in shared})

    @property
    def problem(self) -> Problem:
        return self._problem

    @property
    def kernel(self) -> Kernel:
        return self._problem.kernel

    @property
    def points(self) -> Points:
        """All rows."""
        return self._rows.whole()

    @property
    def posterior(self) -> FunctionPosterior:
        """Of f anywhere, given what was observed."""
        return self._posterior

    @property
    def whitened_rows(self) -> Float[Tensor, "t n"]:
        """F of all rows, a column each."""
        return self._running["variance"].whitened.rows

    @property
    def variance_of_rows(self) -> Float[Tensor, " n"]:
        return self._running["variance"].variance

    # ---- what the loop asks

    @property
    def device(self) -> torch.device:
        return self._problem.device

    def states(self) -> Iterator[tuple[int, int, State]]:
        """The state of all rows from the running values, in as few pieces as memory allows."""
        self._catch_up()
        self.passes += self._problem.reads_rows(WIDE, self._kept)
        for start, stop, block in self._problem.pieces(WIDE, self._kept):
            yield start, stop, self._running_state(slice(start, stop), block)

    def state(self, rows: Int[Tensor, " b"]) -> State:
        """The state of some rows, current even where the running values are not."""
        if not self._pending and self._reads_columns:
            reads_rows = self._problem.reads_rows(WIDE, self._kept)
            return self._running_state(rows, self._rows.rows(rows) if reads_rows else None)
        points = self._rows.rows(rows)
        fields = self._fresh_fields(points) | self._fixed_of(rows)
        return self._state(rows, fields | self._correlations(rows, points))

    def state_at(self, points: Points, noise_variance: Float[Tensor, " b"]) -> State:
        """The state of points that need not be rows; differentiable in the points."""
        prior = self._problem.kernel.diagonal(points)
        fields = self._fresh_fields(points) | fixed_fields(self._problem, points, prior)
        fields |= self._correlations_of(points, prior)
        nobody = torch.full((len(points),), -1, device=self.device)
        return State(nobody, self._step, noise_variance, fields, self.targets.state)

    def _fresh_fields(self, points: Points) -> dict[str, Tensor]:
        """What an observation changes, made of the posteriors themselves."""
        fields = {}
        if self._running:
            fields["variance"] = self._posterior.variance(points)
        if self._given_targets is not None:
            fields["variance_given_targets"] = self._given_targets.variance(points)
        if self._problem.needs & FROM_COVARIANCE:
            fields |= self._summaries(self._fresh_covariance(points))
        if self._among is not None:
            fields[AMONG_CANDIDATES] = self._among.fresh_mean_square(points)
        return fields | {name: near.fresh(points) for name, near in self._near.items()}

    def observe(self, row: int, *, update_rows: bool = True) -> None:
        """Condition on an observation of a row; see WeightTracker.observe."""
        few = self._at_hand.get([row])
        steps, covariance = self._condition(few.points, float(few.noise_variance[0]))
        if not update_rows:
            self._pending.append((row, *steps["variance"]))
        elif self._reads_columns:
            prior_column = self._prior_columns.get(row)
            self._update_rows(few.points, prior_column, steps, covariance)

    def observe_point(
        self, point: Points, noise_variance: float
    ) -> tuple[Float[Tensor, " t"], float]:
        """Condition on an observation anywhere, by a point given as a single row.

        Returns F at the point before the observation, and the observation's variance.
        """
        steps, covariance = self._condition(point, noise_variance)
        if self._reads_columns:
            self._update_rows(point, None, steps, covariance)
        return steps["variance"]

    def _condition(
        self, point: Points, noise_variance: float
    ) -> tuple[dict[str, tuple[Tensor, float]], Tensor | None]:
        """The step of each posterior, and the observation's covariance with the targets."""
        steps = {
            name: posterior.observe(point, noise_variance)
            for name, posterior in self._posteriors().items()
        }
        covariance = self._observe_targets(point, *steps["variance"])
        self._chosen.add(point)
        self._step += 1
        return steps, covariance

    def is_at_hand(self, row: int) -> bool:
        """Whether observing the row next needs no ``look_ahead`` before it."""
        return row in self._prior_columns or not self._reads_columns

    def look_ahead(self, rows: list[int]) -> None:
        """Make the kernel's columns of these rows in one pass; no observation changes those."""
        if not self._reads_columns:
            return
        self.passes += 1
        self._prior_columns.clear()
        points = self._at_hand.keep(rows).points
        size = len(rows), len(self._rows)
        columns = torch.empty(size, dtype=torch.float64, device=self._problem.device)
        for start, stop, block in self._rows.blocks():
            columns[:, start:stop] = self._problem.kernel.block(block, points).T
        self._prior_columns = dict(zip(rows, columns, strict=True))

    def shortlisted(self, rows: Int[Tensor, " b"]) -> Int[Tensor, " _"]:
        """Those of the rows that can be drafted from without a pass; the next pass keeps all."""
        self._rows.remember(rows)
        return rows[self._rows.at_hand(rows)]

    def draft(self, rows: Int[Tensor, " b"]) -> Draft:
        """A small dense copy of what is known about some rows, to try observations on."""
        few = self._at_hand.keep(rows.tolist())
        prior = self._problem.kernel.block(few.points, few.points)
        *whitened, covariance = self._problem.collect(rows, self._running_values)
        joint = {name: prior - F @ F.T for name, F in zip(self._running, whitened, strict=True)}
        reads_targets = bool(self._problem.needs & FROM_COVARIANCE)
        fields = fixed_fields(self._problem, few.points, few.prior_variance)
        fields |= {name: near.fresh(few.points) for name, near in self._near.items()}
        fields |= self._correlations_of(few.points, few.prior_variance)
        return Draft(
            state=State(rows, self._step, few.noise_variance, fields, self.targets.state),
            needs=self._problem.needs,
            variance=joint["variance"] if self._running else prior.clone(),
            given_targets=joint.get("variance_given_targets"),
            covariance=covariance.clone() if reads_targets else None,
            prior=prior if self._near else None,
        )

    def _running_values(self, rows: Int[Tensor, " b"]) -> tuple[Tensor, ...]:
        """Whitened vectors of some rows here, and covariances with the targets if needed."""
        whitened = [running.whitened.rows[:, rows].T for running in self._running.values()]
        if not self._problem.needs & FROM_COVARIANCE:
            return (*whitened, torch.empty(len(rows), 0, dtype=torch.float64, device=self.device))
        points = None if self._covariance is not None else self._rows.rows(rows)
        return (*whitened, self._covariance_of(rows, points))

    def refresh(self) -> bool:
        return False  # nothing here is a long recursion: covariances are kept, not their squares

    def mean_variance(self) -> float:
        """The mean over the rows: the uncertainty where there are no targets."""
        self._catch_up()
        return self._problem.mean(self._running["variance"].variance)

    # ---- set-up

    def _start(self) -> FunctionPosterior:
        if self._earlier is not None:
            return self._earlier._posterior
        posterior = FunctionPosterior(self._problem.kernel, self._problem.device)
        self._condition_on_observed(posterior)
        return posterior

    def _see_targets(self) -> FunctionPosterior | None:
        """The posterior that saw the targets too: before all observations, or after those made."""
        if not self._problem.sees_targets:
            return None
        posterior = FunctionPosterior(self._problem.kernel, self._problem.device)
        if self._earlier is not None:
            posterior = self._earlier._posterior.copy()
        posterior.see_targets(self._problem.known_targets, self._problem.target_noise_variance)
        if self._earlier is None:
            self._condition_on_observed(posterior)
        return posterior

    def _posteriors(self) -> dict[str, FunctionPosterior]:
        posteriors = {"variance": self._posterior}
        if self._given_targets is not None:
            posteriors["variance_given_targets"] = self._given_targets
        return posteriors

    def _condition_on_observed(self, posterior: FunctionPosterior) -> None:
        observed = self._problem.observed
        if observed:
            noise = [observation.noise_variance for observation in observed]
            posterior.observe_in_turn(
                torch.cat([observation.point for observation in observed]),
                torch.tensor(noise, dtype=torch.float64, device=self._problem.device),
            )

    def _variance_of_targets(self) -> Tensor | None:
        targets = self._problem.targets
        return None if targets is None else self._posterior.variance(targets)

    def _set_up_targets(self) -> GrowingMatrix:
        whitened = GrowingMatrix(self._problem.target_count, self._problem.device)
        if self._problem.targets is not None:
            whitened.append(self._posterior.whiten(self._problem.known_targets))
        return whitened

    def _set_up_running(self) -> dict[str, RunningRows]:
        if not self._problem.conditions_rows:
            return {}
        self.passes += 1
        posteriors = self._posteriors()
        if self._earlier is None:
            return {name: RunningRows(self._problem, p) for name, p in posteriors.items()}
        same = self._earlier._running["variance"]
        running = {"variance": same}
        for name in posteriors.keys() - running:
            running[name] = RunningRows(self._problem, posteriors[name], same.whitened.rows)
        return running

    def _set_up_nearness(self) -> dict[str, RunningNearness]:
        if self._earlier is not None:
            return self._earlier._near
        n, device = len(self._rows), self._problem.device
        near = {
            name: RunningNearness(
                name,
                self._problem,
                self._chosen,
                None,
                torch.empty(n, dtype=torch.float64, device=device),
            )
            for name in sorted(self._problem.needs & CHOSEN_FIELDS)
        }
        if near and len(self._chosen):
            self.passes += 1
            for start, stop, block in self._rows.blocks():
                for run in near.values():
                    run.values[start:stop] = run.fresh(block)
        return near

    @property
    def _reads_columns(self) -> bool:
        """Whether an observation changes anything that is kept for all rows."""
        return bool(self._running or self._near)

    def _keep_covariance(self) -> Tensor | None:
        if not self._problem.needs & FROM_COVARIANCE or not self._problem.keeps_covariance:
            return None
        covariance = torch.empty(
            len(self._rows),
            self._problem.target_count,
            dtype=torch.float64,
            device=self._problem.device,
        )
        for start, stop, block in self._rows.blocks():
            covariance[start:stop] = self._covariance_of(slice(start, stop), block)
        return covariance

    def _keep_all_pairs(self) -> CovarianceAmongRows | None:
        if AMONG_CANDIDATES not in self._problem.needs:
            return None
        if self._earlier is not None:
            return self._earlier._among
        self.passes += 1
        return CovarianceAmongRows(self._problem, self._posterior)

    # ---- one observation

    def _observe_targets(self, point: Points, F: Tensor, s: float) -> Tensor | None:
        if self._problem.targets is None:
            return None
        covariance = self._problem.kernel.column(self._problem.known_targets, point)
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
        if self._among is not None:
            self._among.update(columns["variance"], steps["variance"][1])
        if self._covariance is not None and covariance is not None:
            s = steps["variance"][1]
            self._covariance.addr_(columns["variance"], covariance, alpha=-1.0 / s)

    def _prior_column(self, point: Points) -> Float[Tensor, " n"]:
        self.passes += 1
        column = torch.empty(len(self._rows), dtype=torch.float64, device=self._problem.device)
        for start, stop, block in self._rows.blocks():
            column[start:stop] = self._problem.kernel.column(block, point)
        return column

    def _catch_up(self) -> None:
        """Take the postponed observations into the rows' variances, several in one pass."""
        for start, stop in spans(len(self._pending) if self._running else 0, self.width):
            some = self._pending[start:stop]
            self.look_ahead([row for row, _, _ in some])
            for row, F, s in some:
                self._running["variance"].update(self._prior_columns[row], F, s)
        self._pending.clear()

    # ---- fields of a state

    @property
    def _kept(self) -> frozenset[str]:
        """Wide fields for which no rows have to be read."""
        return frozenset() if self._covariance is None else FROM_COVARIANCE

    def _running_state(self, rows: Int[Tensor, " b"] | slice, points: Points | None) -> State:
        """The points are those of the rows, where fields are made of them."""
        fields = {name: running.variance[rows] for name, running in self._running.items()}
        fields |= {name: near.values[rows] for name, near in self._near.items()}
        if self._among is not None:
            fields[AMONG_CANDIDATES] = self._among.mean_square(rows)
        if self._problem.needs & FROM_COVARIANCE:
            fields |= self._summaries(self._covariance_of(rows, points))
        return self._state(rows, fields | self._fixed_of(rows) | self._correlations(rows, points))

    def _covariance_of(
        self, rows: Int[Tensor, " b"] | slice, points: Points | None
    ) -> Float[Tensor, "b m"]:
        if self._covariance is not None:
            return self._covariance[rows]
        assert points is not None
        prior = self._problem.kernel.block(points, self._problem.known_targets)
        F = self._running["variance"].whitened.rows[:, rows]
        return prior - F.T @ self._whitened_targets.rows

    def _fresh_covariance(self, points: Points) -> Float[Tensor, "b m"]:
        prior = self._problem.kernel.block(points, self._problem.known_targets)
        return prior - self._posterior.whiten(points).T @ self._whitened_targets.rows

    def _summaries(self, covariance: Float[Tensor, "b m"]) -> dict[str, Tensor]:
        return covariance_fields(covariance, self.targets.known, self._problem.needs)

    def _fixed_of(self, rows: Int[Tensor, " b"] | slice) -> dict[str, Tensor]:
        return {name: values[rows] for name, values in self._fixed.items()}

    def _correlations(
        self, rows: Int[Tensor, " b"] | slice, points: Points | None
    ) -> dict[str, Tensor]:
        if "correlation" not in self._problem.needs:
            return {}
        assert points is not None
        return self._correlations_of(points, self._problem.prior_variance[rows])

    def _correlations_of(self, points: Points, variance: Float[Tensor, " b"]) -> dict[str, Tensor]:
        if "correlation" not in self._problem.needs:
            return {}
        correlation = prior_correlation(
            self._problem.kernel.block(points, self._problem.known_targets),
            variance,
            self.targets.known.prior_variance,
        )
        return {"correlation": correlation}

    def _state(self, rows: Int[Tensor, " b"] | slice, fields: dict[str, Tensor]) -> State:
        return State(
            self._row_numbers[rows],
            self._step,
            self._problem.noise_variance[rows],
            fields,
            self.targets.state,
        )
