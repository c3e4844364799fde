"""A tracker follows what is known about every row while rows are observed.

``track`` gives a problem the cheaper exact form. In weight space, here, an observation costs at
most one pass over the rows. All products are float64 whatever the pool's dtype; a block is
converted while it is in the cache, which on a CPU is faster than a plain float32 product over the
whole pool.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.posterior.columns_ahead import (
    ColumnsAhead,
    Draft,
    RowsAtHand,
    WeightDraft,
    columns_ahead,
    shortlist_length,
    update_rows_by,
    width_to_take,
)
from tellmost.posterior.function_tracker import FunctionTracker
from tellmost.posterior.nearness import RunningNearness, fixed_fields, fixed_fields_of_all
from tellmost.posterior.problem import (
    AMONG_CANDIDATES,
    CHOSEN_FIELDS,
    NEAR_TARGETS,
    Problem,
    State,
    TargetSummary,
    nonnegative,
    prior_correlation,
)
from tellmost.posterior.weight_space import (
    Beliefs,
    Effect,
    Projection,
    Running,
    RunningSquaredCovariance,
    RunningStandardizedCovariance,
    RunningVariance,
    Start,
    WeightPosterior,
    in_terms_of_features,
    root_of_rows,
    root_of_targets,
    weight_form,
)
from tellmost.running.workers import ALL, cut
from tellmost.shapes import Float, Int

Gain = Callable[[State], Float[Tensor, " _n"]]
"""What a rule gives for every row of a state."""

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
    problem: Problem
    passes: int  # over the rows, so far
    width: int  # how many rows ``look_ahead`` prepares at most
    shortlist: int  # how many rows a draft looks at, to find them
    has_drafts: bool  # false: to prepare the whole shortlist costs less than to draft on it
    is_exact: bool  # running values lose no digits, so that nothing has to be computed afresh

    @property
    def targets(self) -> TargetSummary: ...

    def score(self, gain: Gain) -> Float[Tensor, " n"]:
        """The gain of every row, from the running values. Several threads may call ``gain``."""

    def state(self, rows: Int[Tensor, " b"]) -> State:
        """The state of some rows of this process, by their numbers here."""

    def observe(self, row: int, *, update_rows: bool = True) -> None:
        """Condition on an observation of a row.

        Without ``update_rows`` the running values stay as they are, and nobody asks for them
        again: only ``state`` is current from then on.
        """

    def width_for(self, reach: float) -> int:
        """So many rows are best prepared together, if forecasts reach so far."""

    def is_at_hand(self, row: int) -> bool:
        """Say whether observing the row takes no pass, or one that ``look_ahead`` cannot spare."""

    def look_ahead(self, rows: list[int]) -> None:
        """Prepare the observation of these rows, in this order, in one pass."""

    def draft(self, rows: Int[Tensor, " b"]) -> Draft:
        """A small copy of what is known about some rows, to try observations on."""

    def refresh(self) -> bool:
        """Rebuild the running values that lose digits over many updates; whether there are any."""

    def mean_variance(self) -> float:
        """The mean over the rows: the uncertainty where there are no targets."""


def track(problem: Problem) -> Tracker:
    """The tracker that is cheaper: weights for inner products, functions for other kernels."""
    problem = in_terms_of_features(problem)
    form = weight_form(problem)
    if form is None:
        return FunctionTracker(problem.with_all_points(keeps_covariance=True))
    if problem.needs & {"covariance", "standardized_covariance"}:  # more than a moment tells
        whole = problem.with_all_points(keeps_covariance="covariance" in problem.needs)
        return WeightTracker(whole, form[1])
    return WeightTracker(*form)


class WeightTracker:
    """The posterior of the weights, and the running values that the rule needs, for all rows."""

    form = "weight space"
    is_exact = False
    has_drafts = True

    def __init__(self, problem: Problem, prior: Float[Tensor, "d d"] | None) -> None:
        self.passes = 0
        self.problem = problem
        self._rows = problem.rows
        self._at_hand = RowsAtHand(problem)
        self.step = 0
        self._prior = WeightPosterior.of(prior, problem.rows.dimension, problem.device)
        self.known = self._set_up_beliefs(prior)
        self._covariance = self._keep_covariance()
        self._chosen = [observation.point for observation in problem.observed]
        self.running = self._set_up_running()
        if problem.measure is not None and self.squares is not None:
            self.passes += 1
            self.targets.follow(self.squares.root, self.known.posterior.covariance)
        self._draft: WeightDraft | None = None
        self._ahead = ColumnsAhead(torch.empty(0, len(self._rows)).to(problem.prior_variance))
        self.width = 1
        if self.running:
            self.width = columns_ahead(problem, len(self.running), self._covariance)
        self.shortlist = shortlist_length(problem, self.width)
        self._first_pass()

    # ---- what the loop asks

    def score(self, gain: Gain) -> Float[Tensor, " n"]:
        kept = {name: run.values for name, run in self.running.items()} | self._fixed
        if self._covariance is not None:
            kept["covariance"] = self._covariance
        self.passes += self.problem.reads_rows(WIDE, kept.keys())
        gains = self._empty()

        def score(piece: slice, block: Points | None) -> None:
            fields = {name: cut(values, piece) for name, values in kept.items()}
            if block is not None:
                fields = self._wide_fields(block) | fields
            gains[piece] = gain(self._state(piece, fields))

        self.problem.each_piece(WIDE, kept.keys(), score)
        return gains

    def state(self, rows: Int[Tensor, " b"]) -> State:
        """Computed afresh from the posterior, or from what was foreseen of the next row."""
        effect = self._ahead.effect_of(rows) if self.problem.shard is None else None
        if effect is None:
            U = Projection(self._rows.rows(rows), self.known)
        else:
            U = Projection(effect.steps["variance"].phi[None], self.known)
            U.update({name: step.u[None] for name, step in effect.steps.items()})
        fields = {name: run.fresh(U) for name, run in self.running.items()}
        fields |= self._fixed_fields(U.block, self.problem.prior_variance[rows])
        return self._state(rows, fields | self._wide_fields(U.block))

    def observe(self, row: int, *, update_rows: bool = True) -> None:
        if update_rows and self.running and not self._ahead.has(row):
            self.look_ahead([row])
        if self._ahead.has(row):
            effect, columns = self._ahead.take()
        else:
            few = self._at_hand.get([row])
            effect = self.known.effect_of(few.points[0], float(few.noise_variance[0]))
            columns = few.points.new_empty(0, len(self._rows))
            self._ahead.forget()
        self.known.take(effect)
        if self.problem.needs & CHOSEN_FIELDS:
            self._chosen.append(effect.steps["variance"].phi[None])
        self.step += 1
        if update_rows:
            self._update_rows(columns, effect)

    def _update_rows(self, columns: Float[Tensor, "q n"], effect: Effect) -> None:
        prior, covariance = self.problem.prior_variance, self._covariance

        own = dict(zip(self.running, columns, strict=True))

        def update(piece: slice) -> None:
            if piece is ALL:
                return update_rows_by(self.running, covariance, own, effect)
            running = {
                name: run.about(run.values[piece], prior[piece])
                for name, run in self.running.items()
            }
            some = {name: column[piece] for name, column in own.items()}
            kept = None if covariance is None else covariance[piece]
            update_rows_by(running, kept, some, effect)

        wide = WIDE if covariance is not None else frozenset[str]()
        self.problem.each_slice(self.problem.rows_per_chunk(wide), update)

    def took(self, count: int) -> None:
        """Note that so many observations were written to the tracker's values directly."""
        self.step += count
        self.passes += 1
        self._ahead.forget()

    def width_for(self, reach: float) -> int:
        return width_to_take(self.problem, max(len(self.running), 1), self.width, reach)

    def is_at_hand(self, row: int) -> bool:
        return not self.running or self._ahead.has(row)

    def look_ahead(self, rows: list[int]) -> None:
        if not self.running:
            return
        effects = self._foresee(rows)
        vectors = [effect.vectors[name] for name in self.running for effect in effects]
        if (
            len(vectors) == 1
        ):  # a product of a single row takes a path that is several times slower
            vectors *= 2
        self.passes += 1
        out = self._ahead.room(len(self.running), rows, effects)
        self._rows.products(torch.stack(vectors), out)

    def _foresee(self, rows: list[int]) -> list[Effect]:
        """The effects of observing these rows in this order; what a draft has tried is kept."""
        few, draft, self._draft = self._at_hand.get(rows), self._draft, None
        if draft is None or draft.observed != rows[: len(draft.observed)]:
            known, effects = self.known.fork(), []
        else:
            known, effects = draft.known, draft.effects
        for place in range(len(effects), len(rows)):
            noise = float(few.noise_variance[place])
            effects.append(known.observe(few.points[place], noise, self.running))
        return effects

    def draft(self, rows: Int[Tensor, " b"]) -> Draft:
        few = self._at_hand.keep(rows.tolist())
        running = self.running.values()
        values = self.problem.collect(rows, lambda own: tuple(run.values[own] for run in running))
        pairs = zip(self.running.items(), values, strict=True)
        fields = self._wide_fields(few.points)
        self._draft = WeightDraft(
            rows=rows,
            step=self.step,
            few=few,
            known=self.known.fork(),
            running={name: run.about(own, few.prior_variance) for (name, run), own in pairs},
            covariance=fields.pop("covariance", None),
            fixed=fields | self._fixed_fields(few.points, few.prior_variance),
        )
        return self._draft

    def refresh(self) -> bool:
        self._fill(self._all_squares)
        return bool(self._all_squares)

    def mean_variance(self) -> float:
        return self.problem.mean(self.running["variance"].values)

    # ---- set-up

    def _set_up_beliefs(self, prior: Float[Tensor, "d d"] | None) -> Beliefs:
        problem = self.problem
        posterior = WeightPosterior.of(prior, problem.rows.dimension, problem.device)
        posteriors = {"variance": posterior}
        if problem.sees_targets:
            posteriors["variance_given_targets"] = posterior.given_targets(
                problem.known_targets, problem.target_noise_variance
            )
        for observation in problem.observed:
            for one in posteriors.values():
                one.condition(observation.point.reshape(-1), observation.noise_variance)
        variance = None
        if problem.targets is not None:
            variance = nonnegative(posterior.variance(problem.targets))
        return Beliefs(posteriors, problem.targets, TargetSummary(problem, variance))

    def _set_up_running(self) -> dict[str, Running]:
        problem, running = self.problem, dict[str, Running]()
        if problem.conditions_rows:
            for name in self.known.posteriors:
                running[name] = RunningVariance(name, self._empty())
        for name, root_of in ROOTS.items():
            if name in problem.needs:
                self.passes += root_of is root_of_rows
                running[name] = RunningSquaredCovariance(name, self._empty(), root_of(problem))
        if (name := "standardized_covariance") in problem.needs:
            running[name] = RunningStandardizedCovariance(name, self._empty())
        for name in sorted(problem.needs & CHOSEN_FIELDS):
            near = RunningNearness(name, problem, self._chosen, self._prior, self._empty())
            running[name] = near
        return running

    @property
    def targets(self) -> TargetSummary:
        return self.known.targets

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
        if "covariance" not in self.problem.needs or not self.problem.keeps_covariance:
            return None
        size = len(self._rows), len(self.problem.known_targets)
        return torch.empty(size, dtype=torch.float64, device=self.problem.device)

    def _first_pass(self) -> None:
        """Fill the running values: the only pass whose cost depends on the number of targets."""
        self._fixed = fixed_fields_of_all(self.problem) if self.problem.needs & FIXED else {}
        self.passes += bool(self.problem.needs & NEAR_TARGETS)
        if not self.running:
            return
        # the second moment of a measure has most of its weight along few directions
        is_rough = self.problem.measure is not None and self._rows.normalization.to_unit_length
        self._fill(self.running.values(), self._covariance, is_rough=is_rough)

    def _fill(
        self, runs: Iterable[Running], covariance: Tensor | None = None, *, is_rough: bool = False
    ) -> None:
        """Make running values, and covariances with the targets, from the posterior.

        What is rough is repaired if the gains of the best rows drift by it.
        """
        starts = [(run, run.start(self.known)) for run in runs]
        left = [pair for pair in starts if not self._fill_at_once(*pair)]
        if left or covariance is not None:
            some = [(run, start and start.by_triangle(is_rough=is_rough)) for run, start in left]
            self._fill_by_blocks(some, covariance)

    def _fill_at_once(self, run: Running, start: Start | None) -> bool:
        """Fill values without a pass, or on a GPU in a pass of their own; whether that works."""
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

    def _fill_by_blocks(
        self, starts: Sequence[tuple[Running, Start | None]], covariance: Tensor | None
    ) -> None:
        self.passes += 1
        against = None
        if covariance is not None:
            against = self._against_targets(self.known.posterior)

        def fill(start: int, stop: int, block: Tensor) -> None:
            prior = self.problem.prior_variance[start:stop]
            U = Projection(block, self.known)
            for run, of_run in starts:
                values = run.fresh(U) if of_run is None else of_run.of(block, prior)
                run.values[start:stop] = values
            if covariance is not None and against is not None:
                torch.mm(block, against, out=covariance[start:stop])

        self._rows.each(fill)

    # ---- fields of a state

    def _against_targets(self, posterior: WeightPosterior) -> Float[Tensor, "d m"]:
        return posterior.covariance @ self.problem.known_targets.T

    def _fixed_fields(
        self, block: Float[Tensor, "b d"], variance: Float[Tensor, " b"]
    ) -> dict[str, Tensor]:
        """The fields of some rows that no observation changes."""
        return fixed_fields(self.problem, block, variance) if self._fixed else {}

    def _wide_fields(self, block: Float[Tensor, "b d"]) -> dict[str, Tensor]:
        """The fields of some rows with a value per target, from the posterior itself."""
        fields, needs = {}, self.problem.needs
        if "covariance" in needs:
            fields["covariance"] = block @ self._against_targets(self.known.posterior)
        if "correlation" in needs:
            fields["correlation"] = prior_correlation(
                block @ self._against_targets(self._prior),
                self.problem.kernel.diagonal(block),
                self.targets.known.prior_variance,
            )
        return fields

    def _state(self, rows: Int[Tensor, " b"] | slice, fields: dict[str, Tensor]) -> State:
        return self.problem.state(rows, self.step, fields, self.targets.state)
