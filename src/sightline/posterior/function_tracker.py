"""What is known about every row, in function space: a column of the kernel per observation.

Each observation costs O(n (d + t)) for the column, and O(n m) more for rules that read the
covariances with the targets; memory is O(n t), and O(n m) where those are kept.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from sightline.kernels.kernel import Points
from sightline.numerics import nonnegative
from sightline.posterior import among_rows
from sightline.posterior.draft import Draft
from sightline.posterior.few_rows import RowsAtHand
from sightline.posterior.functions import FunctionPosterior, GrowingMatrix
from sightline.posterior.nearness import (
    Chosen,
    RunningNearness,
    fixed_fields,
    fixed_fields_of_all,
)
from sightline.posterior.problem import (
    CHOSEN_FIELDS,
    NEAR_TARGETS,
    Problem,
    State,
    prior_correlation,
)
from sightline.posterior.reach import columns_ahead
from sightline.posterior.targets import FROM_COVARIANCE, TargetSummary, covariance_fields
from sightline.shapes import Float, Int
from sightline.sources import spans

WIDE = FROM_COVARIANCE | {"correlation"}
"""Fields that are made of rows x targets values."""


class RunningRows:
    """Variance and whitened vectors of all rows under one posterior."""

    def __init__(self, problem: Problem, posterior: FunctionPosterior) -> None:
        n, device = len(problem.rows), problem.device
        self.posterior = posterior
        self.variance = torch.empty(n, dtype=torch.float64, device=device)
        self.whitened = GrowingMatrix(n, device, posterior.rank + (problem.picks or 0))
        self._fill(problem)

    def _fill(self, problem: Problem) -> None:
        whitened = self.whitened.extend(self.posterior.rank)
        for start, stop, block in problem.rows.blocks():
            F = whitened[:, start:stop] = self.posterior.whiten(block)
            prior = problem.prior_variance[start:stop]
            self.variance[start:stop] = nonnegative(prior - F.square().sum(dim=0))

    def update(
        self, prior_column: Float[Tensor, " n"], F: Float[Tensor, " t"], s: float
    ) -> Float[Tensor, " n"]:
        """Take in an observation; returns its posterior column."""
        column = prior_column - F @ self.whitened.rows
        self.whitened.append(column[None] / s**0.5)
        nonnegative(self.variance.addcmul_(column, column, value=-1.0 / s))
        return column


class FunctionTracker:
    """Posterior of the function, and the running values that the rule needs, for all rows."""

    form = "function space"

    def __init__(self, problem: Problem) -> None:
        self.passes = 0
        self._problem = problem
        self._rows = problem.rows
        self._row_numbers = problem.row_numbers()
        self._at_hand = RowsAtHand(problem)
        self._step = 0
        self._pending: list[tuple[int, Tensor, float]] = []
        self._prior_columns: dict[int, Tensor] = {}  # of rows that may be observed soon
        self._posterior = FunctionPosterior(problem.kernel, problem.device)
        self._given_targets = self._see_targets()
        self._condition_on_observed()
        self.targets = TargetSummary(problem, self._variance_of_targets())
        self._whitened_targets = self._set_up_targets()
        self._running = self._set_up_running()
        self._chosen = Chosen(problem)
        self._near = self._set_up_nearness()
        self._fixed = fixed_fields_of_all(problem)
        self.passes += bool(problem.needs & NEAR_TARGETS)
        self._covariance = self._keep_covariance()
        self._among = self._keep_all_pairs()
        self.width = 1  # beside an update of all pairs a pass over the rows is little
        if self._among is None:
            self.width = columns_ahead(problem, 1, self._covariance)

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
        fields = {}
        if self._running:
            fields["variance"] = self._posterior.variance(points)
        if self._given_targets is not None:
            fields["variance_given_targets"] = self._given_targets.variance(points)
        if self._problem.needs & FROM_COVARIANCE:
            fields |= self._summaries(self._fresh_covariance(points))
        if self._among is not None:
            fields[among_rows.NAME] = self._among.fresh_mean_square(points)
        fields |= {name: near.fresh(points) for name, near in self._near.items()}
        return self._state(rows, fields | self._fixed_of(rows) | self._correlations(rows, points))

    def observe(self, row: int, *, update_rows: bool = True) -> None:
        """Condition on an observation of a row; see WeightTracker.observe."""
        few = self._at_hand.get([row])
        point, noise_variance = few.points, float(few.noise_variance[0])
        steps = {
            name: posterior.observe(point, noise_variance)
            for name, posterior in self._posteriors().items()
        }
        covariance = self._observe_targets(point, *steps["variance"])
        self._chosen.add(point)
        self._step += 1
        if not update_rows:
            self._pending.append((row, *steps["variance"]))
        elif self._reads_columns:
            self._update_rows(row, point, steps, covariance)

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
        *whitened, covariance = self._problem.place.collect(rows, self._running_values)
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
        return self._problem.place.mean(self._running["variance"].variance)

    # ---- set-up

    def _see_targets(self) -> FunctionPosterior | None:
        if not self._problem.sees_targets:
            return None
        posterior = FunctionPosterior(self._problem.kernel, self._problem.device)
        posterior.see_targets(self._problem.known_targets, self._problem.target_noise_variance)
        return posterior

    def _posteriors(self) -> dict[str, FunctionPosterior]:
        posteriors = {"variance": self._posterior}
        if self._given_targets is not None:
            posteriors["variance_given_targets"] = self._given_targets
        return posteriors

    def _condition_on_observed(self) -> None:
        for observation in self._problem.observed:
            for posterior in self._posteriors().values():
                posterior.observe(observation.point, observation.noise_variance)

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
        return {
            name: RunningRows(self._problem, posterior)
            for name, posterior in self._posteriors().items()
        }

    def _set_up_nearness(self) -> dict[str, RunningNearness]:
        n, device = len(self._rows), self._problem.device
        near = {
            name: RunningNearness(
                name, self._chosen, None, torch.empty(n, dtype=torch.float64, device=device)
            )
            for name in sorted(self._problem.needs & CHOSEN_FIELDS)
        }
        left = [run for run in near.values() if not run.fill_without_rows()]
        if left:
            self.passes += 1
            for start, stop, block in self._rows.blocks():
                for run in left:
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
            covariance[start:stop] = self._fresh_covariance(block)
        return covariance

    def _keep_all_pairs(self) -> among_rows.CovarianceAmongRows | None:
        if among_rows.NAME not in self._problem.needs:
            return None
        self.passes += 1
        return among_rows.CovarianceAmongRows(self._problem, self._posterior)

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
        row: int,
        point: Points,
        steps: dict[str, tuple[Tensor, float]],
        covariance: Tensor | None,
    ) -> None:
        prior_column = self._prior_columns.get(row)
        if prior_column is None:
            prior_column = self._prior_column(point)
        columns = {
            name: rows.update(prior_column, *steps[name]) for name, rows in self._running.items()
        }
        for near in self._near.values():
            near.update(prior_column, prior_column)
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
            fields[among_rows.NAME] = self._among.mean_square(rows)
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
