"""A tracker follows what is known about every row while rows are observed.

``track`` gives a problem the cheaper exact form. In weight space, here, an observation costs at
most one pass over the rows. All products are float64 whatever the pool's dtype; a block is
converted while it is in the cache, which on a CPU is faster than a plain float32 product over the
whole pool.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from tellmost.posterior.columns_ahead import ColumnsAhead, Draft, RowsAtHand, columns_ahead
from tellmost.posterior.function_tracker import FunctionTracker
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
    nonnegative,
    prior_correlation,
)
from tellmost.posterior.weight_space import (
    Change,
    Predictable,
    Running,
    RunningSquaredCovariance,
    RunningStandardizedCovariance,
    RunningVariance,
    Step,
    WeightPosterior,
    in_terms_of_features,
    root_of_rows,
    root_of_targets,
    weight_form,
)
from tellmost.shapes import Float, Int

KEPT_TARGETS = 24
"""Features per target from which keeping rows x targets covariances costs CTL less than a pass for
every pick: 768 features and 30 targets take the same time either way."""


WIDE = frozenset({"covariance", "correlation"})
"""Fields that are made of rows x targets values."""

FIXED = NEAR_TARGETS | {"prior_variance"}
"""Fields that no observation changes, with an entry per row."""

ROOTS = {"squared_covariance": root_of_targets, AMONG_CANDIDATES: root_of_rows}
"""Squared covariances with some points, and the root of the second moment of these points."""


@runtime_checkable
class Tracker(Protocol):
    """It knows about every row of a problem, and stays current while rows are observed.

    Rows to observe are named by their overall numbers; states are about the rows of this process.
    """

    form: str
    passes: int  # over the rows, so far
    width: int  # how many rows ``look_ahead`` prepares at most
    targets: TargetSummary

    @property
    def device(self) -> torch.device: ...

    def states(self) -> Iterator[tuple[int, int, State]]:
        """The state of all rows, in pieces: (first row, one past the last, state)."""

    def state(self, rows: Int[Tensor, " b"]) -> State:
        """The state of some rows of this process, by their numbers here."""

    def observe(self, row: int, *, update_rows: bool = True) -> None:
        """Condition on an observation of a row.

        Without ``update_rows`` the pass over the rows waits until ``states`` is asked for; only
        the plain variance can wait.
        """

    def is_at_hand(self, row: int) -> bool:
        """Say whether observing the row takes no pass, or one that ``look_ahead`` cannot spare."""

    def look_ahead(self, rows: list[int]) -> None:
        """Prepare the observation of these rows in one pass; they may be observed soon."""

    def shortlisted(self, rows: Int[Tensor, " b"]) -> Int[Tensor, " _"]:
        """The rows that a draft can use without a pass. The next pass keeps all of them."""

    def draft(self, rows: Int[Tensor, " b"]) -> Draft:
        """A small dense copy of what is known about some rows, to try observations on."""

    def refresh(self) -> bool:
        """Rebuild the running values that lose digits over many updates; whether there are any."""

    def mean_variance(self) -> float:
        """The mean over the rows: the uncertainty where there are no targets."""


def track(problem: Problem) -> Tracker:
    """The tracker that is cheaper: weights for inner products, functions for other kernels."""
    problem = in_terms_of_features(problem)
    form = weight_form(problem)
    return FunctionTracker(problem) if form is None else WeightTracker(*form)


class WeightTracker:
    """The posterior of the weights, and the running values that the rule needs, for all rows."""

    form = "weight space"

    def __init__(self, problem: Problem, prior: Float[Tensor, "d d"] | None) -> None:
        self.passes = 0
        self.problem = problem
        self._rows = problem.rows
        self._at_hand = RowsAtHand(problem)
        self.step = 0
        self._pending: list[Step] = []
        self._products: Tensor | None = None  # of all rows with a vector per running value
        self._prior = WeightPosterior.of(prior, problem.rows.dimension, problem.device)
        self.posterior = WeightPosterior.of(prior, problem.rows.dimension, problem.device)
        self.given_targets: WeightPosterior | None = None
        if problem.sees_targets:
            self.given_targets = self.posterior.given_targets(
                problem.known_targets, problem.target_noise_variance
            )
        for observation in problem.observed:
            for posterior in self._posteriors().values():
                posterior.condition(observation.point.reshape(-1), observation.noise_variance)
        known = None
        if problem.targets is not None:
            known = nonnegative(self.posterior.variance(problem.targets))
        self.targets = TargetSummary(problem, known)
        self._covariance = self._keep_covariance()
        self._chosen = Chosen(problem) if problem.needs & CHOSEN_FIELDS else None
        self.running = self._set_up_running()
        self._ahead = self._set_up_columns_ahead()
        self.width = 1
        if self._ahead is not None:
            self.width = columns_ahead(problem, len(self.running), self._covariance)
        self._first_pass()

    # ---- what the loop asks

    @property
    def device(self) -> torch.device:
        return self.problem.device

    def states(self) -> Iterator[tuple[int, int, State]]:
        self._catch_up()
        kept = {name: run.values for name, run in self.running.items()} | self._fixed
        from_covariance = frozenset() if self._covariance is None else FROM_COVARIANCE
        self.passes += self.problem.reads_rows(WIDE, kept.keys() | from_covariance)
        for start, stop, block in self.problem.pieces(WIDE, kept.keys() | from_covariance):
            fields = {name: values[start:stop] for name, values in kept.items()}
            if self._covariance is not None:
                fields |= self._of_covariance(self._covariance[start:stop])
            if block is not None:
                fields |= self._from_covariance(block) | self._correlations(block)
            yield start, stop, self._state(slice(start, stop), fields)

    def state(self, rows: Int[Tensor, " b"]) -> State:
        """Computed afresh from the posterior."""
        block = self._rows.rows(rows)
        fields = {name: run.fresh(block) for name, run in self.running.items()}
        fields |= self._fixed_fields(block, self.problem.prior_variance[rows])
        return self._state(rows, fields | self._from_covariance(block))

    def observe(self, row: int, *, update_rows: bool = True) -> None:
        few = self._at_hand.get([row])
        phi, noise_variance = few.points[0], float(few.noise_variance[0])
        posteriors = self._posteriors()
        steps = {name: one.step(phi, noise_variance) for name, one in posteriors.items()}
        running, changes = self.running.items(), dict[str, Change]()
        for name, run in running:
            if isinstance(run, Predictable):
                changes[name] = run.change_ahead(steps)
        for name, posterior in posteriors.items():
            posterior.observe(steps[name])
        covariance = self._observe_targets(steps["variance"])
        if self._chosen is not None:
            self._chosen.add(few.points)
        self.step += 1
        if not update_rows:
            self._pending.append(steps["variance"])
            return self._forget_columns()
        for name, run in running:
            if isinstance(run, RunningStandardizedCovariance):
                changes[name] = run.change_afterwards(steps)
        self._update_rows(row, changes, steps["variance"], covariance)

    def took(self, count: int) -> None:
        """Note that so many observations were written to the tracker's values directly."""
        self.step += count
        self.passes += 1
        self._forget_columns()

    def is_at_hand(self, row: int) -> bool:
        return self._ahead is None or self._ahead.has(row)

    def look_ahead(self, rows: list[int]) -> None:
        if self._ahead is None:
            return
        block = self._at_hand.keep(rows).points
        vectors = torch.cat([run.vectors(block) for run in self._ahead.running.values()])
        self._multiply(vectors, self._ahead.room(rows, block))

    def shortlisted(self, rows: Int[Tensor, " b"]) -> Int[Tensor, " _"]:
        self._rows.remember(rows)
        return rows[self._rows.at_hand(rows)]

    def draft(self, rows: Int[Tensor, " b"]) -> Draft:
        few, seen = self._at_hand.keep(rows.tolist()), self.given_targets
        block = few.points
        against = block @ self.posterior.covariance
        needs = self.problem.needs - {"squared_covariance"}  # made of projected rows
        near = {name: self.running[name].fresh(block) for name in needs & CHOSEN_FIELDS}
        fields = near | self._fixed_fields(block, few.prior_variance)
        is_wide = bool(needs & FROM_COVARIANCE)
        return Draft(
            state=State(rows, self.step, few.noise_variance, fields, self.targets.state),
            needs=needs,
            variance=against @ block.T,
            given_targets=None if seen is None else block @ seen.covariance @ block.T,
            covariance=against @ self.problem.known_targets.T if is_wide else None,
            projected={run.name: against @ run.root for run in self._all_squares},
            prior=self.problem.kernel.block(block, block) if near else None,
        )

    def refresh(self) -> bool:
        left = [run for run in self._all_squares if not self._fill_at_once(run)]
        if left:
            self._fill_by_blocks(left)
        return bool(self._all_squares)

    def mean_variance(self) -> float:
        self._catch_up()
        return self.problem.mean(self.running["variance"].values)

    # ---- set-up

    def _posteriors(self) -> dict[str, WeightPosterior]:
        """The posteriors by the names of their variances."""
        posteriors = {"variance": self.posterior}
        if self.given_targets is not None:
            posteriors["variance_given_targets"] = self.given_targets
        return posteriors

    def _set_up_running(self) -> dict[str, Running]:
        problem, posterior, running = self.problem, self.posterior, dict[str, Running]()
        if problem.conditions_rows:
            for name, one in self._posteriors().items():
                running[name] = RunningVariance(name, one, self._empty())
        for name, root_of in ROOTS.items():
            if name in problem.needs:
                self.passes += root_of is root_of_rows
                running[name] = RunningSquaredCovariance(
                    name, posterior, root_of(problem), self._empty()
                )
        if "standardized_covariance" in problem.needs and self._covariance is None:
            running["standardized_covariance"] = RunningStandardizedCovariance(
                problem, posterior, self.targets, self._empty()
            )
        if self._chosen is not None:
            for name in sorted(problem.needs & CHOSEN_FIELDS):
                running[name] = RunningNearness(
                    name, problem, self._chosen, self._prior, self._empty()
                )
        return running

    @property
    def squares(self) -> RunningSquaredCovariance | None:
        """The squared covariances with the targets, if the rule reads them."""
        return next((run for run in self._all_squares if run.name == "squared_covariance"), None)

    @property
    def _all_squares(self) -> list[RunningSquaredCovariance]:
        runs = self.running.values()
        return [run for run in runs if isinstance(run, RunningSquaredCovariance)]

    def _empty(self) -> Tensor:
        return torch.empty(len(self._rows), dtype=torch.float64, device=self.problem.device)

    def _keep_covariance(self) -> Tensor | None:
        needs = self.problem.needs
        is_needed = "covariance" in needs
        may_help = "standardized_covariance" in needs and self._pays_to_keep()
        if not (is_needed or may_help) or not self.problem.keeps_covariance:
            return None
        size = len(self._rows), len(self.problem.known_targets)
        return torch.empty(size, dtype=torch.float64, device=self.problem.device)

    def _pays_to_keep(self) -> bool:
        """Say whether an update of all rows' covariances costs less than a pass over the rows.

        An update reads, writes and reads them; a pass reads the rows once, perhaps from a file.
        """
        is_cheap = KEPT_TARGETS * self.problem.target_count <= self._rows.dimension
        here = self.problem.keeps_covariance and (is_cheap or self._rows.held is None)
        return bool(self.problem.least(int(here)))  # all processes alike

    def _set_up_columns_ahead(self) -> ColumnsAhead | None:
        running = self.running.items()
        predictable = {name: run for name, run in running if isinstance(run, Predictable)}
        if len(predictable) < len(self.running) or not predictable:
            return None
        return ColumnsAhead(predictable, len(self._rows), self.problem.device)

    def _first_pass(self) -> None:
        """Fill the running values: the only pass whose cost depends on the number of targets."""
        self._fixed = fixed_fields_of_all(self.problem) if self.problem.needs & FIXED else {}
        self.passes += bool(self.problem.needs & NEAR_TARGETS)
        if not self.running:
            return
        left = [run for run in self.running.values() if not self._fill_at_once(run)]
        if left or self._covariance is not None:
            self._fill_by_blocks(left)

    def _fill_at_once(self, run: Running) -> bool:
        """Fill values without a pass, or on a GPU in a pass of their own; whether that works."""
        start = run.start()
        if start is None or (start.has_products and not self._rows.is_fused):
            return False
        if start.constant is None:
            run.values.copy_(self.problem.prior_variance)
        else:
            run.values.fill_(start.constant)
        for vectors, sign in ((start.plus, 1.0), (start.minus, -1.0)):
            if vectors is not None and len(vectors):
                self.passes += 1
                squares = self._empty()
                self._rows.squared_products(vectors, squares)
                nonnegative(run.values.add_(squares, alpha=sign))
        return True

    def _fill_by_blocks(self, left: Sequence[Running]) -> None:
        self.passes += 1
        starts = [(run, run.start()) for run in left]
        for start, stop, block in self._rows.blocks():
            prior = self.problem.prior_variance[start:stop]
            for run, of_run in starts:
                values = run.fresh(block) if of_run is None else of_run.of(block, prior)
                run.values[start:stop] = values
            if self._covariance is not None:
                self._covariance[start:stop] = block @ self._against_targets(self.posterior)

    # ---- one observation

    def _observe_targets(self, step: Step) -> Tensor | None:
        if self.problem.targets is None:
            return None
        covariance = self.problem.targets @ step.u
        self.targets.observe(covariance, step.s)
        return covariance

    def _update_rows(
        self, row: int, changes: Mapping[str, Change], step: Step, covariance: Tensor | None
    ) -> None:
        if not self.running:
            return
        columns = self._columns_of(row, changes)
        for name, run in self.running.items():
            run.update(changes[name], columns)
        if self._covariance is not None and covariance is not None:
            self._covariance.addr_(columns["variance"], covariance, alpha=-1.0 / step.s)

    def _columns_of(
        self, row: int, changes: Mapping[str, Change]
    ) -> dict[str, Float[Tensor, " n"]]:
        """The products of all rows that the changes need; good until the next pass."""
        if self._ahead is not None and self._ahead.has(row):
            columns = self._ahead.take(row)
            self._ahead.keep(columns, changes)
            return columns
        self._forget_columns()
        vectors = torch.stack([changes[name].vector for name in self.running])
        if self._products is None:
            self._products = vectors.new_empty(len(vectors), len(self._rows))
        self._multiply(vectors, self._products)
        return dict(zip(self.running, self._products, strict=True))

    def _forget_columns(self) -> None:
        if self._ahead is not None:
            self._ahead.forget()

    def _multiply(self, vectors: Float[Tensor, "r d"], out: Float[Tensor, "r n"]) -> None:
        """Inner products with all rows, in one pass."""
        self.passes += 1
        if len(vectors) > 1:
            self._rows.products(vectors, out)
        else:  # a product of a single row takes a path that is several times slower
            pair = out.new_empty(2, len(self._rows))
            self._rows.products(vectors.expand(2, -1), pair)
            out.copy_(pair[:1])

    def _catch_up(self) -> None:
        """Take the postponed observations into the rows' variances, all in one pass."""
        if not self._pending or "variance" not in self.running:
            return
        self.passes += 1
        vectors = torch.stack([step.u / step.s**0.5 for step in self._pending])
        variance = self.running["variance"].values
        for start, stop, block in self._rows.blocks():
            change = (vectors @ block.T).square_().sum(dim=0)
            nonnegative(variance[start:stop].sub_(change))
        self._pending.clear()

    # ---- fields of a state

    def _against_targets(self, posterior: WeightPosterior) -> Float[Tensor, "d m"]:
        return posterior.covariance @ self.problem.known_targets.T

    def _of_covariance(self, covariance: Float[Tensor, "b m"]) -> dict[str, Tensor]:
        needs = self.problem.needs - self.running.keys()
        return covariance_fields(covariance, self.targets.known, needs)

    def _from_covariance(self, block: Float[Tensor, "b d"]) -> dict[str, Tensor]:
        if not self.problem.needs & FROM_COVARIANCE - self.running.keys():
            return {}
        return self._of_covariance(block @ self._against_targets(self.posterior))

    def _fixed_fields(
        self, block: Float[Tensor, "b d"], variance: Float[Tensor, " b"]
    ) -> dict[str, Tensor]:
        """The fields of some rows that no observation changes."""
        fields = self._correlations(block)
        return fields | fixed_fields(self.problem, block, variance) if self._fixed else fields

    def _correlations(self, block: Float[Tensor, "b d"]) -> dict[str, Tensor]:
        if "correlation" not in self.problem.needs:
            return {}
        correlation = prior_correlation(
            block @ self._against_targets(self._prior),
            self.problem.kernel.diagonal(block),
            self.targets.known.prior_variance,
        )
        return {"correlation": correlation}

    def _state(self, rows: Int[Tensor, " b"] | slice, fields: dict[str, Tensor]) -> State:
        return self.problem.state(rows, self.step, fields, self.targets.state)
