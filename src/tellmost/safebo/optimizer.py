"""SafeOptimizer: ask, tell, and never step outside."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from tellmost.learner.arguments import check_seed
from tellmost.learner.record import check_same, refusing_damaged_state
from tellmost.posterior.gp import GP
from tellmost.rules import Rule
from tellmost.running.workers import calculating
from tellmost.safebo import arguments
from tellmost.safebo.bounds import Learned, RKHSBound, Schedule, check_confidence
from tellmost.safebo.calibration import Calibration, Refit, calibrate, describe_refit, fit_again
from tellmost.safebo.choice import SafeTask
from tellmost.safebo.constraints import Constraint
from tellmost.safebo.mixture import SetRule, check_priors
from tellmost.safebo.outputs import OBJECTIVE, by_number, gather_outputs, gather_sides, number_of
from tellmost.safebo.round_state import RoundState, SafeModel, describe_betas
from tellmost.safebo.rounds import SafeRounds
from tellmost.safebo.saving import (
    describe_model,
    describe_task,
    read_event,
    read_state,
    read_trial,
    write_state,
    write_trial,
)
from tellmost.safebo.snapshots import Kind, take_snapshot
from tellmost.safebo.spaces import Search, check_space, with_context
from tellmost.safebo.strategies import QueryStrategy, check_strategy
from tellmost.safebo.trials import Event, Halted, History, Query, Recommendation, Seeds, Trial
from tellmost.shapes import Bool

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class SafeOptimizer:
    """Finds the best point of an unknown function without violating unknown constraints.

    Gaussian processes say what is believed about objective and constraints. ``ask`` names a point
    that satisfies all constraints with the stated confidence: the one that tells most about the
    targets, by default the points that may be the best. ``tell`` takes in what came out. Where
    nothing is known to be safe, ``ask`` repeats a declared seed or refuses; it never guesses.
    """

    @calculating()
    def __init__(
        self,
        domain: Any,
        *,
        objective: GP,
        constraints: Mapping[str, Constraint] | None = None,
        safe_seed: Any = None,
        direction: Literal["maximize", "minimize"] = "maximize",
        confidence: float | None = None,
        beta: float | Schedule | RKHSBound | None = None,
        rule: str | Rule = "vtl",
        targets: Any = None,
        strategy: QueryStrategy | None = None,
        sets: SetRule = "mixture",
        search: Search | None = None,
        noise_std: Mapping[str, Any] | None = None,
        contexts: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        max_step: Any = None,
        on_violation: Literal["halt", "continue"] = "halt",
        seed: int = 0,
    ) -> None:
        """The optimizer is told what may be set, what is believed, and what must hold.

        Args:
            domain: (n, d) points, all of which are searched, or a ``tm.Box``.
            objective: its prior, a ``tm.GP``. Data that a prior brings along count as told.
            constraints: by name. A constraint with the objective's own GP is the same function.
            safe_seed: points that you declare safe (whole numbers are rows of a finite domain),
                or (points, values) with values by name, {"objective": [...], "height": [...]}.
                Seeds that were not told yet are asked for first.
            direction: whether large or small values of the objective are good.
            confidence: the probability that a query satisfies all constraints, by the present
                bounds. It is 0.99 if neither this nor ``beta`` is given.
            beta: how many standard deviations make bounds that hold in all rounds at once, and
                are intersected over time on finite domains: a number, a function of the number
                of observations, or ``safebo.RKHSBound(norm, delta)``.
            rule: "vtl", "itl", "mm-itl", "ctl" or an object. Gains add over the outputs, each
                in units of its prior standard deviation.
            targets: ``PotentialMaximizers()`` (default), ``ThompsonMaximizers(K)``,
                ``PotentialExpanders()``, ``LevelSet(tau)``, or a function of ``targets.Known``
                that returns a mask over its points.
            strategy: a method of ``safebo.baselines`` that replaces rule and targets. One with
                ``keeps_safe = False``, such as ``EIC()``, asks for points that may be unsafe.
            sets: how a ``GP.unknown`` proves points safe. "mixture": by the probability under all
                its hyper-parameters. "hpd": under the worst of the likeliest ones, whose weights
                add up to the confidence; it expands less, and is for functions that may steepen.
            search: where a box is searched: ``SobolSet()`` (default), ``CoordinateLines()`` or
                ``RandomLines()``.
            noise_std: the noise of outputs by name, if it is not that of the GP: a number, one
                per row of the domain, or a function of the points.
            contexts: names of variables that are observed but not chosen. The GPs take them as
                their last inputs, and ``ask(context=...)`` takes their values.
            names: the names of the parameters of a finite domain. A box has its own.
            max_step: how far each parameter may move from the last point that was told.
            on_violation: whether a told violation stops further asks until ``acknowledge()``.
            seed: decides drawn targets, lines, and the points of a box.
        """
        space = check_space(domain, names, contexts)
        declared, values = arguments.read_seeds(safe_seed, space)
        words = arguments.check_word
        checked = arguments.check_constraints(
            objective, constraints, (*space.names, *space.contexts)
        )
        self._task = SafeTask(
            space=space,
            search=arguments.check_search(search, space),
            targets=arguments.check_safe_targets(targets),
            seeds=Seeds(tuple(declared)),
            max_step=arguments.check_max_step(max_step, space),
            seed=check_seed(seed),
        )
        inside = space.sample()
        outputs = gather_outputs(objective, checked, inside)
        self._given = SafeModel(
            domain=inside,
            outputs=outputs,
            constraints=checked,
            sides=gather_sides(outputs, checked),
            confidence=check_confidence(confidence, beta),
            rule=arguments.check_safe_rule(rule, self._task.seed),
            noise_std=arguments.check_output_noise(noise_std, outputs, space),
            is_minimized=words(direction, "direction", ("maximize", "minimize")) == "minimize",
            strategy=check_strategy(strategy, checked, is_alone=targets is None and rule == "vtl"),
            sets=words(sets, "sets", ("mixture", "hpd")),  # type: ignore[arg-type]
        )
        check_priors(self._given, self._task)
        self._halts = words(on_violation, "on_violation", ("halt", "continue")) == "halt"
        self._is_halted = False
        self._log: list[Event] = []
        self._refits: list[Refit] = []
        self._withdrawn: dict[int, str] = {}
        unlearned = [Learned(output.names, 0, 0.0) for output in outputs]
        self._given.confidence.betas(unlearned, len(self._given.sides))  # it may fail
        self._rounds = SafeRounds(self._task, self._given)
        for (row, point), told in zip(declared, values, strict=False):
            self.tell(point if row is None else row, told.pop(OBJECTIVE, None), told)

    # ---- the loop

    @calculating()
    def ask(self, context: Any = None, pending: Query | Sequence[Any] = ()) -> Query:
        """Say where to measure next, and why that is safe.

        ``pending`` are points that were asked for and not told yet. The next one is chosen as if
        they had been measured, but what is safe rests only on what was told.
        """
        if self._is_halted:
            told = next(event for event in reversed(self._log) if event.kind == "violation")
            raise Halted(
                f"a violation was told: {told.text}. Bring the system back, for example "
                f"to restore_point, then acknowledge(), or make the optimizer with "
                f"on_violation='continue'."
            )
        space = self._task.space
        context = space.read_context(context)
        waiting = space.read_pending(pending, context)
        now = self._rounds.at(context, [x for _, x in waiting])
        now.state.check()
        query = now.choose(waiting)
        if space.box is not None and bool(now.state.safe_rows.any()):
            best = torch.from_numpy(now.recommend().x)
            self._rounds.recommended[len(self._rounds.trials)] = best
        return query

    @calculating()
    def tell(
        self,
        x: Any,
        objective: Any = None,
        constraints: Mapping[str, Any] | None = None,
        *,
        failed: bool = False,
        noise_std: Any = None,
        context: Any = None,
    ) -> None:
        """Take in what came out at a point, whether it was asked for or not.

        Args:
            x: a Query, a row of a finite domain, a point, or a point by names.
            objective: its value, or None if it was not measured.
            constraints: values by name. A function that serves several names is told once.
            failed: nothing was measured. The point is passed over until a value is told.
            noise_std: the noise of these values if it is not the usual: a number, or by name.
            context: the context of the measurement. A Query brings its own.
        """
        space, model = self._task.space, self._model
        given = arguments.check_values(objective, constraints, model.constraints, failed)
        row, point = space.read_point(x, "x")
        if context is None and isinstance(x, Query):
            context = x.context
        where = with_context(point[None], space.read_context(context))
        outputs, told = model.outputs, by_number(model.outputs, given)
        values = {name: value for number, value in told.items() for name in outputs[number].names}
        own = arguments.check_told_noise(noise_std, outputs, told)
        noise = {
            number: own.get(number) or model.noise_std_at(number, row, where) for number in told
        }
        status, broken = arguments.judge(outputs, told, noise, model.constraints)
        trial = Trial(
            x=where[0].numpy().copy(),
            index=row,
            values=values,
            noise_std={outputs[number].names[0]: std for number, std in noise.items()},
            status="failed" if failed else status,
            broken=broken,
        )
        self._rounds.add(trial)
        if trial.status == "violated":
            self._is_halted = self._halts
        if trial.status != "safe":
            kind = "violation" if trial.status == "violated" else trial.status
            self._note(kind, arguments.about_breach(trial, model.constraints))
        self._note_withdrawn()

    @calculating()
    def acknowledge(self, at: Any = None) -> None:
        """Go on asking after a violation, from where the system stands now.

        ``at`` is that point, as ``tell`` takes it, and by default the ``restore_point``. Steps are
        counted from it until a trial is told.
        """
        if at is not None:
            self._rounds.move_to(self._task.space.read_point(at, "at")[1])
        elif self._is_halted and (restored := self.restore_point) is not None:
            self._rounds.move_to(torch.from_numpy(restored))
        if self._is_halted:
            self._is_halted = False
            self._note("acknowledged", "asking goes on after a violation")

    # ---- what is known

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
    def bounds(self, name: str = OBJECTIVE) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bound of an output at ``points``, in its unit."""
        state, number = self._state, number_of(self._model.outputs, name)
        both = state.shown_bounds(number)
        lower, upper = (b[state.is_candidate].numpy() for b in both)
        return lower, upper

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
        return History(tuple(self._rounds.trials), names, outputs)

    @property
    def log(self) -> tuple[Event, ...]:
        """It lists what else happened: violations, marginal breaches, failures, refits."""
        return tuple(self._log)

    @property
    def is_halted(self) -> bool:
        """If true, a violation waits to be acknowledged."""
        return self._is_halted

    @property
    @calculating()
    def restore_point(self) -> np.ndarray | None:
        """The trial that is farthest from every limit for sure, to return to, or else a seed."""
        return self._rounds.present().restore_point()

    @calculating()
    def calibration(self) -> Calibration:
        """Judge whether the priors fit what was told, also by z-scores of values left out."""
        return calibrate(self._model.outputs, self._rounds.trials)

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
        width = self._model.confidence.describe(self._rounds.is_kept)
        lines = [
            f"{self!r}",
            f"  {width}; beta: {describe_betas(self._state)}",
            f"  {safe:,} of {len(self.points):,} points are known to be safe, {perhaps:,} may be",
        ]
        lines += [f"  {name}: {now}" for name, now in self._rounds.describe_mixtures()]
        if safe:
            best = self.best
            lines.append(
                f"  best: {best}; a safe point can be better by at most {self.regret_bound():.3g}"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        box, rows = self._task.space.box, self._task.space.rows
        where = f"{0 if rows is None else len(rows):,} points" if box is None else repr(box)
        verb = "minimize" if self._model.is_minimized else "maximize"
        return f"SafeOptimizer: {verb} over {where}, {len(self._rounds.trials)} trials"

    # ---- hyper-parameters, save and resume

    def refit(self) -> None:
        """Fit kernels and noise to what was told, and log it (extra ``bo``).

        A ``GP.unknown`` stays, means stay too, and noise never shrinks. One noise is fitted to all
        values of an output. Bounds of earlier rounds rested on other priors, so they are
        forgotten, and the safe set may shrink.
        """
        outputs, trials = self._model.outputs, self._rounds.trials
        if all(output.gp.hyperprior is not None for output in outputs):
            raise ValueError("refit() has nothing to fit: GP.unknown is weighed at every tell.")
        found = {output.names[0]: fit_again(output, trials) for output in outputs}
        for output in outputs:
            name = output.names[0]
            self._note("refit", describe_refit(output.gp, found[name], name))
        self._refits.append(Refit(len(trials), found))
        self._rounds.change_model(self._model.with_priors(found))

    def state_dict(self) -> dict[str, Any]:
        """Return what was told, and what tells this optimizer from others, as plain values."""
        return {
            **self._identity(),
            "trials": [write_trial(trial) for trial in self._rounds.trials],
            "refits": [refit.state() for refit in self._refits],
            "recommended": {t: x.tolist() for t, x in self._rounds.recommended.items()},
            "log": [asdict(event) for event in self._log],
            "is_halted": self._is_halted,
            "moved_to": moved.tolist() if (moved := self._rounds.moved_to) is not None else None,
        }

    @calculating()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become the optimizer that the state was taken from. It must have the same arguments."""
        check_same(state, self._identity(), "optimizer")
        with refusing_damaged_state():
            rounds, refits = self._replay(state)
            log, is_halted = [read_event(one) for one in state["log"]], state["is_halted"]
            if not isinstance(is_halted, bool):
                raise ValueError(f"is_halted must be true or false; got {is_halted!r}")
        self._rounds, self._refits, self._log, self._is_halted = rounds, refits, log, is_halted

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was told to a JSON file, whole or not at all."""
        write_state(self.state_dict(), path)

    def load(self, path: str | os.PathLike[str]) -> "SafeOptimizer":
        """Read what was told from a file written by ``save``, and return the optimizer itself."""
        self.load_state_dict(read_state(path))
        return self

    # ---- inside

    def _identity(self) -> dict[str, Any]:
        """The arguments tell it from others, with the priors from before any refit."""
        return {**describe_task(self._task), **describe_model(self._given)}

    def _replay(self, state: Mapping[str, Any]) -> tuple[SafeRounds, list[Refit]]:
        """All trials from the start, with the refits between them."""
        rounds = SafeRounds(self._task, self._given)
        space, names = self._task.space, {n for one in self._given.outputs for n in one.names}
        trials = [read_trial(one, space, names) for one in state["trials"]]
        refits = [Refit.read(one, self._given.outputs, len(trials)) for one in state["refits"]]
        for number, trial in enumerate([*trials, None]):
            for refit in (refit for refit in refits if refit.trials == number):
                rounds.change_model(rounds.model.with_priors(refit.priors))
            if trial is not None:
                rounds.add(trial)
        for time, x in state["recommended"].items():
            rounds.recommended[int(time)] = space.read_point(x, "recommended")[1]
        if state["moved_to"] is not None:
            rounds.move_to(space.read_point(state["moved_to"], "moved_to")[1])
        return rounds, refits

    def _note_withdrawn(self) -> None:
        """Log the seeds against which what was told last speaks."""
        seeds, before = self._task.seeds, self._withdrawn
        self._withdrawn = self._rounds.present().withdrawn() if seeds.declared else {}
        for number, why in self._withdrawn.items():
            if number not in before:
                self._note("withdrawn", f"{seeds.describe(number)} is withdrawn: {why}")

    def _note(self, kind: Any, text: str) -> None:
        self._log.append(Event(len(self._rounds.trials), kind, text))

    @property
    def _state(self) -> RoundState:
        return self._rounds.present().state

    @property
    def _model(self) -> SafeModel:
        return self._rounds.model
