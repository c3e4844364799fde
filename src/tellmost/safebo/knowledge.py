"""What an optimizer knows now: the present safe set and bounds, the best point, what was told."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tellmost.running.workers import calculating
from tellmost.safebo.bounds import ForRun
from tellmost.safebo.calibration import Calibration, calibrate
from tellmost.safebo.choice import SafeTask
from tellmost.safebo.journal import Entry
from tellmost.safebo.outputs import OBJECTIVE, number_of
from tellmost.safebo.round_state import RoundState, SafeModel
from tellmost.safebo.rounds import SafeRounds
from tellmost.safebo.run import SafeRun
from tellmost.safebo.snapshots import Kind, take_snapshot
from tellmost.safebo.trials import Event, History, Query, Recommendation, Suspect
from tellmost.shapes import Bool

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tellmost.targets.box import Box


class SafeKnowledge:
    """What can be asked of a SafeOptimizer without changing it."""

    _task: SafeTask
    _given: SafeModel  # the settings, with the priors from before any refit
    _journal: list[Entry]
    _last_run: SafeRun

    @property
    @calculating()
    def best(self) -> Recommendation:
        """The point known to be safe whose objective is best by its pessimistic bound."""
        return self._rounds.present().recommend()

    @property
    @calculating()
    def points(self) -> np.ndarray:
        """The points of the present round, which are the rows of a finite domain."""
        state = self._state
        return state.points[state.is_candidate].numpy()

    @property
    @calculating()
    def safe_mask(self) -> Bool[np.ndarray, " n"]:
        """These ``points`` are in S_n: they satisfy all constraints for sure. Seeds may not."""
        state = self._state
        return state.sets.is_safe[state.is_candidate].numpy()

    @property
    @calculating()
    def optimistic_mask(self) -> Bool[np.ndarray, " n"]:
        """These ``points`` may satisfy all constraints."""
        state = self._state
        return state.sets.may_be_safe[state.is_candidate].numpy()

    @property
    @calculating()
    def target_mask(self) -> Bool[np.ndarray, " n"]:
        """These ``points`` are to be learned about now. A strategy does not use them."""
        now = self._rounds.present()
        return now.targets().is_target[now.state.is_candidate].numpy()

    @calculating()
    def bounds(self, name: str = OBJECTIVE, X: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bound of an output at (b, d) points, by default at ``points``."""
        state, number = self._state, number_of(self._model.outputs, name)
        if X is None:
            lower, upper = state.shown_bounds(number)
            return lower[state.is_candidate].numpy(), upper[state.is_candidate].numpy()
        beliefs = state.beliefs_at(self._task.space.read_inputs(X))
        lower, upper = state.shown_bounds(number, beliefs)
        return lower.numpy(), upper.numpy()

    @calculating()
    def predict(self, X: Any = None, name: str = OBJECTIVE) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of an output at (b, d) points, by default at ``points``.

        With contexts, X has them in its last columns.
        """
        state, number = self._state, number_of(self._model.outputs, name)
        points = self.points if X is None else X
        mean, variance = state.posteriors[number].belief.at(self._task.space.read_inputs(points))
        scale = state.scale(number)
        return mean.numpy() * scale, variance.sqrt().numpy() * scale

    @calculating()
    def regret_bound(self) -> float:
        """A safe point is better than ``best`` by at most this, while the bounds hold.

        Only ``points`` count: in a box, nothing between them is looked at.
        """
        return self._rounds.present().regret_bound()

    @property
    def history(self) -> History:
        """All trials, as a table."""
        names = (*self._task.space.names, *self._task.space.contexts)
        outputs = (OBJECTIVE, *self._model.constraints)
        return History(tuple(self._rounds.trials), names, outputs, self._task.space.parameters)

    @property
    def log(self) -> tuple[Event, ...]:
        """It lists what else happened: violations, marginal breaches, failures, refits."""
        self._run.warn()
        return tuple(self._run.log)

    @property
    def suspects(self) -> tuple[Suspect, ...]:
        """Told values that may be glitches: they only ever make the safe set smaller."""
        return tuple(self._run.suspects.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return self._task.space.names

    @property
    def contexts(self) -> tuple[str, ...]:
        """The names of the contexts."""
        return self._task.space.contexts

    @property
    def domain(self) -> "np.ndarray | Box":
        """The points that are searched, or the box."""
        box, rows = self._task.space.box, self._task.space.rows
        return box if rows is None else rows.numpy().copy()  # type: ignore[return-value]

    @property
    def journal(self) -> tuple[Entry, ...]:
        """All that was told and decided, in order. With the settings it decides the next query."""
        return tuple(self._journal)

    @property
    def pending(self) -> tuple[Query, ...]:
        """Under a horizon, the queries that were asked for and not told yet."""
        told = {trial.query for trial in self._rounds.trials}
        return tuple(one for id, (_, one) in self._rounds.asked.items() if id not in told)

    @property
    def risk_spent(self) -> float | None:
        """The sum of the risks of all queries so far; None without a horizon."""
        if not isinstance(self._given.confidence, ForRun):
            return None
        return sum(query.risk for _, query in self._rounds.asked.values())

    @property
    def is_halted(self) -> bool:
        """If true, a violation waits to be acknowledged."""
        return bool(self._run.halt)

    @property
    @calculating()
    def restore_point(self) -> np.ndarray | None:
        """The trial that is farthest from every limit for sure, to return to, or else a seed."""
        return self._rounds.restore_point()

    @calculating()
    def calibration(self) -> Calibration:
        """Judge whether the priors fit what was told, also by z-scores of values left out."""
        with self._rounds.whole() as rounds:
            return calibrate(rounds.model.outputs, rounds.trials, self._last_run.witnesses)

    @calculating()
    def reachable_safe_set(
        self,
        epsilon: float = 0.0,
        beta: float | None = None,
        *,
        truth: Mapping[str, Any] | None = None,
        by: Literal["kernel", "lipschitz"] = "kernel",
        start: Any = None,
    ) -> Bool[np.ndarray, " n"]:
        """Find which ``points`` could ever be known to be safe. The domain must be finite.

        Args:
            epsilon: what stays unknown at least, in prior standard deviations.
            beta: the width of bounds, by default the largest that the constraints have now.
            truth: values of each constraint by name at ``points``, by default posterior means.
            by: the models ("kernel"), or the constraints' Lipschitz constants as in SafeOpt.
            start: a mask or rows that are safe, by default S_n and the seeds that stand.
        """
        return self._rounds.present().reachable(epsilon, beta, truth, by, start)

    @calculating()
    def plot(self, kind: Kind | None = None) -> "Figure":
        """A figure: bands over one parameter, maps over two, or the history (extra ``plot``)."""
        from tellmost.report.safe_figures import plot_snapshot

        return plot_snapshot(take_snapshot(self._rounds.present(), self.history, kind))

    def __str__(self) -> str:
        safe, perhaps = int(self.safe_mask.sum()), int(self.optimistic_mask.sum())
        width = str(self._model.confidence)
        if self._model.confidence.is_intersected:  # if all rounds look at the same points
            kept = "bounds intersected over time" if self._rounds.is_kept else "present bounds"
            width = f"{width}, {kept}"
        lines = [
            f"{self!r}",
            f"  {width}; beta: {describe_betas(self._state)}",
            f"  {safe:,} of {len(self.points):,} points are known to be safe, {perhaps:,} may be",
        ]
        described = self._rounds.mixtures.describe()
        lines += [f"  {self._model.outputs[i].names[0]}: {now}" for i, now in described]
        if safe:
            best = self.best
            lines.append(
                f"  best: {best}; a safe point can be better by at most {self.regret_bound():.3g}"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        rows = self._task.space.rows
        where = repr(self._task.space.box) if rows is None else f"{len(rows):,} points"
        verb = "minimize" if self._model.is_minimized else "maximize"
        return f"SafeOptimizer: {verb} over {where}, {len(self._rounds.trials)} trials"

    # ---- inside

    @property
    def _run(self) -> SafeRun:
        """What follows from the journal. It is made anew if it was interrupted half-way."""
        if self._last_run.rounds.is_torn:
            self._last_run = SafeRun(self._task, self._given, self._journal)
        return self._last_run

    @property
    def _rounds(self) -> SafeRounds:
        return self._run.rounds

    @property
    def _state(self) -> RoundState:
        return self._rounds.present().state

    @property
    def _model(self) -> SafeModel:
        return self._rounds.model


def describe_betas(state: RoundState) -> str:
    """The beta of each output in words, or one for all of them if they are the same."""
    if len(set(state.betas)) == 1:
        return f"{state.betas[0]:.3g}"
    parts = zip(state.model.outputs, state.betas, strict=True)
    return ", ".join(f"{output.names[0]} {beta:.3g}" for output, beta in parts)
