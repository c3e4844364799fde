"""SafeSampler: safe Bayesian optimization in a study of Optuna, whose storage remembers all.

``study.ask()``, ``study.tell()`` and ``study.optimize()`` work as with other samplers. The value
of a constraint is an attribute of the trial with its name, set before the objective is told::

    trial = study.ask()
    trial.set_user_attr("temperature", 61.5)
    study.tell(trial, 0.83)

The functions here do the same with checks before anything is stored, and what Optuna has no word
for: several points at once, abandoned trials, halts that somebody acknowledges.
"""

import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.exceptions import StorageInternalError
from optuna.samplers import BaseSampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState

from tellmost.integrations.optuna_storage import RETRY, open_storage, retrying
from tellmost.integrations.optuna_trials import (
    CONSTRAINTS,
    DECISIONS,
    QUERY,
    REASON,
    RISK,
    SAFETY,
    UNDONE,
    Declared,
    Replay,
    Trials,
    box_of,
    distribution_of,
    known_safe,
    read_value,
)
from tellmost.posterior.gp import GP
from tellmost.rows.checks import check_word
from tellmost.rules import Rule
from tellmost.safebo import Constraint, Query, SafeOptimizer
from tellmost.safebo.arguments import check_values
from tellmost.safebo.outputs import OBJECTIVE
from tellmost.safebo.saving import check_identity

__all__ = [
    "SafeSampler",
    "UnsafePoint",
    "abandon",
    "acknowledge",
    "ask",
    "best_safe_trial",
    "decide",
    "open_storage",
    "status",
    "tell",
]

PATIENCE = 30.0
"""An ask that takes more seconds is taken for that of a dead worker. One takes less than a second
on small problems, and several where hundreds of trials are replayed."""


LONGEST_TEXT = 2_000
"""Reasons are cut to so many letters."""


class UnsafePoint(ValueError):  # noqa: N818 - a state of affairs, not a mistake
    """An enqueued point is not known to be safe, or is none of the space."""


class SafeSampler(BaseSampler):
    """Chooses points that satisfy all constraints with the stated confidence.

    What it knows is a function of its settings and of the trials in the study's storage, so any
    process with the storage goes on where the last one stopped. The settings are stored in the
    study, and a sampler with others is refused. Running trials are pending: the next point is
    chosen as if they were measured, but nothing that is safe rests on them.
    """

    def __init__(
        self,
        space: Any,
        *,
        objective: GP,
        constraints: Mapping[str, Constraint] | None = None,
        safe_seed: Any = None,
        confidence: float | None = None,
        horizon: int | float | None = None,
        rule: str | Rule = "vtl",
        targets: Any = None,
        max_step: Any = None,
        seed: int = 0,
        changed: Collection[str] = (),
        deadline: float | None = None,
        patience: float = PATIENCE,
    ) -> None:
        """The arguments of ``tm.SafeOptimizer``, and those of a study.

        Args:
            space: a ``tm.Box`` of parameters, or parameters or distributions of Optuna by name.
            objective: its prior, a ``tm.GP`` over the columns of the box.
            constraints: by name; their values are attributes of the trials.
            safe_seed: a list of settings, each by name, that you declare safe.
            confidence, rule, targets, max_step, seed: as in ``tm.SafeOptimizer``.
            horizon: likewise. Every point that was given out counts.
            changed: settings that may differ from those in the study, such as {"limits"}.
            deadline: a trial that was not told so many seconds after it was asked for is
                abandoned. None: it stays pending until somebody tells or abandons it.
            patience: a worker whose ask takes more seconds is taken for dead.
        """
        self.box = box_of(space)
        assert self.box.parameters is not None
        self.space = {name: distribution_of(one) for name, one in self.box.parameters.items()}
        self.constraints = dict(constraints or {})
        taken = {SAFETY, REASON, RISK, *self.space} & set(self.constraints)
        if taken:
            raise ValueError(
                f"constraints must not have the name of a parameter, {SAFETY!r}, {REASON!r} or "
                f"{RISK!r}; got {', '.join(sorted(taken))}."
            )
        self._changed, self._deadline, self._patience = tuple(changed), deadline, patience
        self._has_horizon = horizon is not None
        self._lock = threading.RLock()
        self._known: Replay | None = None
        self._left: list[FrozenTrial] = []
        self._make = partial(
            SafeOptimizer,
            self.box,
            objective=objective,
            constraints=self.constraints,
            safe_seed=safe_seed,
            confidence=confidence,
            horizon=horizon,
            rule=rule,
            targets=targets,
            max_step=max_step,
            seed=seed,
        )
        self._make()  # so that wrong arguments are refused here

    # ---- what Optuna calls

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Choose the point of a trial, or judge the one that was enqueued, and write it down."""
        trials = Trials(study, list(self.constraints))
        while self._left:  # the storage was away when they were refused
            trials.undo(self._left[-1], "refused: the storage was away")
            self._left.pop()
        try:
            query, statement = self._choose(study, trials, trial)
            trials.give(trial, query, statement, self.space)
        except BaseException as error:
            self._left.append(trial)
            with suppress(StorageInternalError, OSError):
                trials.undo(trial, f"refused: {error}"[:LONGEST_TEXT])
                self._left.remove(trial)
            raise

        def refuse(reason: str) -> None:  # what was not declared; ``optimize`` does so by itself
            if not study._thread_local.in_optimize_loop:
                trials.undo(trial, f"refused: {reason}"[:LONGEST_TEXT])

        declared = Declared(self.space)
        declared.refuse = refuse
        trial.distributions = declared
        trial.params = dict(query.parameters)
        trial.set_user_attr(SAFETY, statement)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return {}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: Any
    ) -> Any:
        """Refuse: all that was declared has its value before Optuna asks."""
        raise ValueError(
            f"{param_name!r} is not a parameter of the space; those are {', '.join(self.space)}."
        )

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Write how far the measured values lie beyond their limits, for optuna-dashboard."""
        read = {name: read_value(trial, name)[0] for name in self.constraints}
        excess = [self.constraints[n].excess(y) for n, y in read.items() if y is not None]
        if excess:
            Trials(study, list(self.constraints)).write(trial, CONSTRAINTS, excess)

    # ---- what follows from the study

    def replay(self, study: Study) -> Replay:
        """What an optimizer knows after all that the study has."""
        with self._lock:
            return self._replay(study, Trials(study, list(self.constraints)))

    def retrace(self, study: Study, most: int) -> tuple[list[int], list[float]]:
        """The share of points known to be safe after so many of the trials, from the start."""
        events = Trials(study, list(self.constraints)).events()
        known = Replay(study, self._fresh(study))
        steps, shares = [], []
        for stop in np.unique(np.linspace(0, len(events), most + 1).round().astype(int)).tolist():
            known.go_on(events[:stop])
            steps.append(len(known.numbers))
            shares.append(float(known.optimizer.safe_mask.mean()))
        return steps, shares

    def _fresh(self, study: Study) -> SafeOptimizer:
        is_minimized = study.direction == StudyDirection.MINIMIZE
        return self._make(direction="minimize" if is_minimized else "maximize")

    def _replay(self, study: Study, trials: Trials) -> Replay:
        if len(study.directions) != 1:
            raise ValueError(
                f"SafeSampler is for one objective; the study has {len(study.directions)}."
            )
        events = trials.events()
        known = self._known
        if known is None or known.study is not study or not known.begins(events):
            known = Replay(study, self._fresh(study))
            self._check_settings(trials, known.settings)
        known.go_on(events)
        self._known = None if self._has_horizon else known  # its asks are events, too
        return known

    def _check_settings(self, trials: Trials, mine: Mapping[str, Any]) -> None:
        stored = trials.settings()
        if stored is None:
            trials.write_settings(mine)
            return
        differing = check_identity(stored, mine, self._changed)
        if differing:
            trials.write_settings(mine)
            trials.decide("changed", None, texts=differing)

    def _choose(
        self, study: Study, trials: Trials, trial: FrozenTrial
    ) -> tuple[Query, dict[str, Any]]:
        trials.take_turn(trial, self._patience)
        if self._deadline is not None:
            trials.undo_overdue(self._deadline)
        with self._lock:
            try:
                known = self._replay(study, trials)
                stored = trials.settings()
                assert stored is not None
                check_identity(stored, known.settings, ())  # another worker may have changed them
                known.check_halted()
                waiting = [Query.from_json(one.system_attrs[QUERY]) for one in trials.pending()]
                wish = trial.system_attrs.get("fixed_params")
                if wish is None:
                    query = known.optimizer.ask(pending=waiting)
                else:
                    query = self._judge(known, wish, trial, waiting)
                return query, known.state_safety(query, waiting)
            except BaseException:
                self._known = None
                raise

    def _judge(
        self, known: Replay, wish: Any, trial: FrozenTrial, waiting: Sequence[Query]
    ) -> Query:
        try:
            query = known.optimizer.judge(wish, pending=waiting)
        except (ValueError, TypeError) as error:
            raise UnsafePoint(str(error)) from error
        if query.purpose == "risk" and trial.user_attrs.get(RISK) is not True:
            raise UnsafePoint(
                f"the enqueued point is not known to be safe: {query}. Enqueue it with "
                f"user_attrs={{'risk': True}} if you take the risk."
            )
        return query

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a SafeSampler cannot be pickled: make one in each process.")


# ---- what people and scripts call


def sampler_of(study: Study) -> SafeSampler:
    if not isinstance(study.sampler, SafeSampler):
        raise TypeError(
            f"the study must have a SafeSampler; got {type(study.sampler).__name__}. Load it with "
            f"optuna.load_study(..., sampler=SafeSampler(...))."
        )
    return study.sampler


def ask(study: Study, n: int = 1, *, retry: float = RETRY) -> list[Trial]:
    """Points for n machines, each chosen as if the others were measured. All, or none.

    A database that went away is waited for, ``retry`` seconds.
    """
    sampler = sampler_of(study)
    given: list[Trial] = []

    def go_on() -> list[Trial]:
        sampler.replay(study).check_halted()
        while len(given) < n:
            given.append(study.ask())
        return given

    try:
        return retrying(go_on, retry)
    except BaseException:
        trials = Trials(study, ())
        for one in given:
            trials.undo(one._cached_frozen_trial, "refused: fewer points than machines")
        raise


def tell(
    study: Study,
    trial: Trial | int,
    objective: float | None = None,
    constraints: Mapping[str, float] | None = None,
    *,
    failed: str = "",
    retry: float = RETRY,
) -> None:
    """Store what was measured, after it was checked. To tell the same twice changes nothing.

    ``failed`` is the reason why nothing was measured.
    """
    sampler = sampler_of(study)
    number = trial if isinstance(trial, int) else trial.number
    told = check_values(objective, constraints, sampler.constraints, bool(failed))

    def once() -> None:
        found = _find(study, number)
        if found.state.is_finished():
            return _check_same(found, told, failed)
        for name, value in told.items():
            if name != OBJECTIVE:
                study._storage.set_trial_user_attr(found._trial_id, name, value)
        if OBJECTIVE in told:
            study.tell(number, told[OBJECTIVE])
            return None
        reason = failed or "the objective was not measured"
        study._storage.set_trial_user_attr(found._trial_id, REASON, reason[:LONGEST_TEXT])
        study.tell(number, state=TrialState.FAIL)
        return None

    retrying(once, retry)


def _find(study: Study, number: int) -> FrozenTrial:
    storage = study._storage
    try:
        id = storage.get_trial_id_from_study_id_trial_number(study._study_id, number)
    except KeyError as error:
        there = storage.get_n_trials(study._study_id)
        raise ValueError(
            f"trial must be one of the study, 0 to {there - 1}; got {number}."
        ) from error
    found = storage.get_trial(id)
    if found.state == TrialState.RUNNING and QUERY not in found.system_attrs:
        raise ValueError(
            f"trial {number} was not given a point yet, so nothing can be told of it."
        )
    return found


def _check_same(trial: FrozenTrial, told: Mapping[str, float], failed: str) -> None:
    """Refuse to tell something else of a trial that was told."""
    reason = trial.user_attrs.get(REASON, "")
    stored = {name: trial.user_attrs.get(name) for name in told if name != OBJECTIVE}
    if OBJECTIVE in told:
        stored[OBJECTIVE] = trial.value if trial.state == TrialState.COMPLETE else None
    if UNDONE in trial.system_attrs or stored != told or (failed and reason != failed):
        what = f"abandoned or refused ({reason})" if UNDONE in trial.system_attrs else "told"
        raise ValueError(
            f"trial {trial.number} was {what} already, and what is stored is not changed. If it "
            f"was told wrongly, decide(study, {trial.number}, 'retracted'), and enqueue its point."
        )


def abandon(study: Study, trial: Trial | int, reason: str) -> None:
    """Nobody will tell this trial. It does not wait any more, and nothing is learned from it."""
    sampler_of(study)
    found = _find(study, trial if isinstance(trial, int) else trial.number)
    if not Trials(study, ()).undo(found, f"abandoned: {reason}"[:LONGEST_TEXT]):
        raise ValueError(f"trial {found.number} is finished already, so it cannot be abandoned.")


def acknowledge(study: Study, at: Mapping[str, Any] | None = None, by: str = "") -> list[int]:
    """Let asking go on after a halt. Returns the trials whose violations were acknowledged.

    ``at`` is where the machine stands now, by default the point that is farthest from all limits.
    """
    sampler = sampler_of(study)
    known = sampler.replay(study)
    if at is not None:
        sampler.box.encode(at, "at")
    waiting = sorted(set(known.violated) - known.acknowledged)
    trials = Trials(study, list(sampler.constraints))
    trials.decide("acknowledged", None, violations=waiting, at=at, by=by[:LONGEST_TEXT])
    return waiting


def decide(study: Study, trial: int, kind: str) -> None:
    """Say that suspect values of a trial are "confirmed" or "discarded", or it is "retracted"."""
    sampler = sampler_of(study)
    check_word(kind, "kind", DECISIONS)
    known = sampler.replay(study)
    if trial not in known.numbers:
        raise ValueError(f"trial must be one that was told; got {trial!r}.")
    if kind != "retracted" and not any(
        known.numbers[one.id] == trial for one in known.optimizer.suspects
    ):
        raise ValueError(f"trial {trial} has no suspect values.")
    Trials(study, list(sampler.constraints)).decide(kind, trial)


def best_safe_trial(study: Study) -> FrozenTrial | None:
    """The trial with the best objective for sure, at a point that is known to be safe.

    Both are judged by bounds, so neither a lucky value nor a lucky measurement near a limit
    decides. None if no trial is known to be safe.
    """
    known = sampler_of(study).replay(study)
    opt = known.optimizer
    told = [one for one in opt.history if one.status in ("safe", "marginal")]
    if not told:
        return None
    X = np.stack([one.x for one in told])
    lower, upper = opt.bounds(OBJECTIVE, X)
    worth = -upper if study.direction == StudyDirection.MINIMIZE else lower
    worth = np.where(known_safe(opt, sampler_of(study).constraints, X), worth, -np.inf)
    best = int(worth.argmax())
    number = known.numbers[told[best].id]
    return study.trials[number] if np.isfinite(worth[best]) else None


def status(study: Study) -> dict[str, Any]:
    """What waits for people, and what is known, in plain values."""
    sampler = sampler_of(study)
    known, trials = sampler.replay(study), Trials(study, list(sampler.constraints))
    opt, best = known.optimizer, best_safe_trial(study)
    undone = {
        one.number: one.system_attrs[UNDONE] for one in trials.all if UNDONE in one.system_attrs
    }
    told = {known.numbers[one.id]: one for one in opt.history}
    failed = [number for number, one in told.items() if one.status == "failed"]
    reasons = {one.number: one.user_attrs.get(REASON, "") for one in trials.all}
    return {
        "study": study.study_name,
        "halted_by": sorted(set(known.violated) - known.acknowledged),
        "pending": [
            {"trial": one.number, "parameters": one.params, "since": str(one.datetime_start)}
            for one in trials.pending()
        ],
        "told": len(told),
        "violated": known.violated,
        "failed": {number: reasons[number] for number in failed},
        "abandoned": undone,
        "suspect": {known.numbers[one.id]: str(one) for one in opt.suspects},
        "notes": known.notes,
        "best_safe_trial": None if best is None else best.number,
        "best": str(opt.best) if bool(opt.safe_mask.any()) else None,
        "known_safe": [int(opt.safe_mask.sum()), len(opt.points)],
        "risk_spent": opt.risk_spent,
    }
