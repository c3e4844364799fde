"""What a study in a storage says: which points were given out, what was told, what was decided.

Nothing else is remembered between processes. A trial with the attribute ``QUERY`` was given out,
and the attribute is the last that is written of it, so an ask that was cut short left a trial
without it. What is told becomes true with the state of the trial, which is written last too.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.exceptions import UpdateFinishedTrialError
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from tellmost.safebo import Constraint, Halted, Query, SafeOptimizer
from tellmost.safebo.outputs import OBJECTIVE
from tellmost.targets.box import Box
from tellmost.targets.parameter import Parameter

SETTINGS = "tellmost:settings"
QUERY = "tellmost:query"
TURN = "tellmost:turn"
UNDONE = "tellmost:undone"
DECISION = "tellmost:decision:"
"""Attributes of a study and its trials that belong to the sampler."""

SAFETY, REASON, RISK = "safety", "reason", "risk"
"""Attributes of trials that people read and write."""

CONSTRAINTS = "constraints"
"""The attribute where optuna-dashboard looks for constraints. Positive values are violations."""

CUT_SHORT = "its worker ended before it was given a point"

POLLING = 0.1
"""Seconds between looks at a storage for each worker whose turn comes before."""

DECISIONS = ("confirmed", "discarded", "retracted")
"""What people can decide about a trial: that suspect values are right or glitches, or that it was
told wrongly."""

Decided = Mapping[str, Any]


@dataclass(frozen=True)
class StudyEvent:
    """Something that happened to the optimizer: a query, what was told, or a decision."""

    trial: int
    query: str | None = None  # that was given out
    setting: tuple[tuple[str, Any], ...] | None = None  # of a trial that is told without a query
    values: tuple[tuple[str, float], ...] | None = None  # that were told; empty: it failed
    decision: str | None = None


def read_value(trial: FrozenTrial, name: str) -> tuple[float | None, str]:
    """The measured value of a constraint, or why there is none."""
    value = trial.user_attrs.get(name)
    if value is None:
        return None, ""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not isfinite(value):
        return None, f"{name} must be a finite number; got {value!r:.80}"
    return float(value), ""


class Trials:
    """The trials of a study, as its storage has them now."""

    def __init__(self, study: Study, names: Sequence[str]) -> None:
        """``names`` are those of the constraints."""
        self.study, self.names = study, names
        self.storage, self.study_id = study._storage, study._study_id

    @cached_property
    def all(self) -> list[FrozenTrial]:
        return self.storage.get_all_trials(self.study_id, deepcopy=False)

    def read(self) -> None:
        """Look at the storage again."""
        self.__dict__.pop("all", None)

    # ---- what happened

    def told(self) -> list[FrozenTrial]:
        """The trials that are finished, in the order in which they were."""
        found = [one for one in self.all if one.state.is_finished() and self._counts(one)]
        return sorted(found, key=lambda one: (one.datetime_complete or datetime.min, one.number))

    def _counts(self, trial: FrozenTrial) -> bool:
        if QUERY in trial.system_attrs:
            return True
        return UNDONE not in trial.system_attrs and bool(trial.params)

    def events(self) -> list[StudyEvent]:
        """All that an optimizer has to be told, in order."""
        events = list[StudyEvent]()
        decisions = self.decisions()
        events += [_decision(one) for one in decisions if one["after"] is None]
        for trial in self.told():
            events.append(self._event(trial))
            events += [_decision(one) for one in decisions if one["after"] == trial.number]
        return events

    def _event(self, trial: FrozenTrial) -> StudyEvent:
        query = trial.system_attrs.get(QUERY)
        setting = None if query else tuple(sorted(trial.params.items()))
        if UNDONE in trial.system_attrs:
            return StudyEvent(trial.number, query, setting)
        read = {name: read_value(trial, name)[0] for name in self.names}
        values = [(name, value) for name, value in read.items() if value is not None]
        if trial.state == TrialState.COMPLETE and trial.value is not None:
            values.append((OBJECTIVE, trial.value))
        return StudyEvent(trial.number, query, setting, tuple(values))

    def pending(self) -> list[FrozenTrial]:
        """The trials that were given out and are neither told nor abandoned."""
        running = [one for one in self.all if one.state == TrialState.RUNNING]
        return [one for one in running if QUERY in one.system_attrs]

    # ---- decisions of people

    def decisions(self) -> list[Decided]:
        """What people decided, each with the trial after which it counts."""
        attributes = self.storage.get_study_user_attrs(self.study_id)
        found = [one for key, one in attributes.items() if key.startswith(DECISION)]
        return sorted(found, key=lambda one: (one["time"], one["kind"], one["trial"] or 0))

    def decide(self, kind: str, trial: int | None, **more: Any) -> Decided:
        """Write down a decision. It counts after the trials that its author has seen."""
        told = self.told()
        after = told[-1].number if told else None
        made = {"kind": kind, "trial": trial, "after": after, "time": now(), **more}
        key = f"{DECISION}{kind}:{after if trial is None else trial}"
        self.storage.set_study_user_attr(self.study_id, key, made)
        return made

    def settings(self) -> dict[str, Any] | None:
        found = self.storage.get_study_system_attrs(self.study_id).get(SETTINGS)
        return None if found is None else json.loads(found)

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        text = json.dumps(settings)
        self.storage.set_study_system_attr(self.study_id, SETTINGS, text)

    # ---- one ask at a time

    def take_turn(self, trial: FrozenTrial, patience: float) -> None:
        """Wait until all asks that began before have given out their points.

        This is Lamport's bakery: a worker takes a number larger than all that it sees, and waits
        for the smaller ones. It needs no lock, so no database has to know one. A worker that
        has not given out its point ``patience`` seconds after its turn came is taken for dead, and
        its trial fails: if the worker lives, its ask raises.
        """
        self.write(trial, TURN, 0)
        self.read()
        others = [one.system_attrs[TURN] for one in self._asking(trial)]
        mine = 1 + max(others, default=0), trial.number
        self.write(trial, TURN, mine[0])
        head, since = -1, time.monotonic()
        while True:
            self.read()
            ahead = [
                one
                for one in self._asking(trial)
                if one.system_attrs[TURN] == 0 or (one.system_attrs[TURN], one.number) < mine
            ]
            if not ahead:
                break
            first = min(ahead, key=lambda one: (one.system_attrs[TURN], one.number))
            if first.number != head:
                head, since = first.number, time.monotonic()
            elif time.monotonic() - since > patience:
                self.undo(first, CUT_SHORT)
            time.sleep(min(POLLING * len(ahead), patience / 4))
        for one in self.all:  # that were begun and did not even take a number
            is_bare = not (one.params or one.system_attrs)
            if one.state == TrialState.RUNNING and is_bare and _age_of(one) > patience:
                self.undo(one, CUT_SHORT)

    def _asking(self, but: FrozenTrial) -> list[FrozenTrial]:
        return [
            one
            for one in self.all
            if one.state == TrialState.RUNNING
            and TURN in one.system_attrs
            and QUERY not in one.system_attrs
            and one.number != but.number
        ]

    def write(self, trial: FrozenTrial, key: str, value: Any) -> None:
        self.storage.set_trial_system_attr(trial._trial_id, key, value)

    def undo(self, trial: FrozenTrial, reason: str) -> bool:
        """Fail a trial that tells nothing. Say whether it was still running."""
        try:
            self.write(trial, UNDONE, reason)
            self.storage.set_trial_user_attr(trial._trial_id, REASON, reason)
            return self.storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
        except UpdateFinishedTrialError:
            return False

    def undo_overdue(self, deadline: float) -> None:
        """Abandon what was given out longer ago than a deadline, in seconds."""
        for one in self.pending():
            if _age_of(one) > deadline:
                self.undo(one, f"abandoned: not told within {deadline:g} seconds")
        self.read()

    def give(
        self,
        trial: FrozenTrial,
        query: Query,
        statement: Mapping[str, Any],
        space: Mapping[str, BaseDistribution],
    ) -> None:
        """Write a point into its trial, the query last."""
        for name, value in query.parameters.items():
            internal = space[name].to_internal_repr(value)
            self.storage.set_trial_param(trial._trial_id, name, internal, space[name])
        self.storage.set_trial_user_attr(trial._trial_id, SAFETY, statement)
        self.write(trial, QUERY, query.to_json())


def _decision(one: Decided) -> StudyEvent:
    return StudyEvent(-1, decision=json.dumps(one, sort_keys=True))


def _age_of(trial: FrozenTrial) -> float:
    """Seconds since a trial began. Optuna writes the local time of the worker."""
    return (datetime.now() - (trial.datetime_start or datetime.now())).total_seconds()


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


class Replay:
    """An optimizer that was told what a study has, and the numbers of its trials."""

    def __init__(self, study: Study, optimizer: SafeOptimizer) -> None:
        self.study, self.optimizer = study, optimizer
        self.settings = optimizer.state_dict()
        self.settings.pop("journal")
        self.settings.pop("known_as")
        self.numbers: list[int] = []  # of the trials that the optimizer was told
        self.notes: dict[int, str] = {}  # what was not taken as it stands
        self.acknowledged: set[int] = set()
        self._events: list[StudyEvent] = []

    def begins(self, events: Sequence[StudyEvent]) -> bool:
        return list(events[: len(self._events)]) == self._events

    def go_on(self, events: Sequence[StudyEvent]) -> None:
        for event in events[len(self._events) :]:
            if event.decision is not None:
                self._decide(event.decision)
            else:
                self._tell(event)
            self._events.append(event)

    def _tell(self, event: StudyEvent) -> None:
        query = None if event.query is None else Query.from_json(event.query)
        if query is not None:
            self.optimizer.count(query)
        if event.values is None:
            return
        told = dict(event.values)
        objective = told.pop(OBJECTIVE, None)
        x: Any = dict(event.setting or ()) if query is None else query.parameters
        if query is not None and query.id.startswith(self.optimizer.fingerprint):
            x = query.x  # with all its digits
        is_failed = objective is None and not told
        try:
            try:
                self.optimizer.tell(x, objective, told, failed=is_failed)
            except (ValueError, TypeError) as error:  # what is stored cannot be taken back
                self.optimizer.tell(x, failed=True)
                self.notes[event.trial] = f"counts as failed: {error}"
        except (ValueError, TypeError) as error:
            self.notes[event.trial] = f"does not count: {error}"
            return
        self.numbers.append(event.trial)

    def _decide(self, text: str) -> None:
        one, optimizer = json.loads(text), self.optimizer
        if one["kind"] == "acknowledged":
            self.acknowledged |= set(one["violations"])
            optimizer.acknowledge(one["at"])
        elif one["kind"] in DECISIONS:
            decide = {
                "confirmed": optimizer.confirm,
                "discarded": optimizer.discard,
                "retracted": optimizer.retract,
            }[one["kind"]]
            try:
                decide(self.numbers.index(one["trial"]))
            except ValueError as error:
                self.notes[one["trial"]] = f"was not {one['kind']}: {error}"

    @property
    def violated(self) -> list[int]:
        """The trials that broke a limit."""
        return [self.numbers[one.id] for one in self.optimizer.history if one.status == "violated"]

    def check_halted(self) -> None:
        """Refuse while a violation waits to be acknowledged, whatever the order of trials."""
        waiting = sorted(set(self.violated) - self.acknowledged)
        if waiting:
            which = ", ".join(map(str, waiting))
            raise Halted(
                f"a violation was told, by trial {which}. Bring the machine back to a safe point, "
                f"then acknowledge it: acknowledge(study), or tellmost study acknowledge."
            )

    def state_safety(self, query: Query, waiting: Sequence[Query]) -> dict[str, Any]:
        """What is known about the safety of a point, in plain values."""
        opt, names = self.optimizer, (OBJECTIVE, *query.lower)
        bounds = {name: opt.bounds(name, query.x[None]) for name in names}
        told = [one for one in opt.history if one.status != "failed"]
        return {
            "statement": str(query),
            "purpose": query.purpose,
            "probability_safe": query.probability_safe,
            "margins": dict(query.lower),
            "bounds": {n: [float(low[0]), float(up[0])] for n, (low, up) in bounds.items()},
            "rests_on": {"trials": len(told), "pending": len(waiting), "query": query.id},
        }


def known_safe(
    opt: SafeOptimizer, constraints: Mapping[str, Constraint], X: np.ndarray
) -> np.ndarray:
    """Which points satisfy all constraints by their bounds."""
    found = np.ones(len(X), dtype=bool)
    for name, one in constraints.items():
        lower, upper = opt.bounds(name, X)
        least, most = one.limits
        found &= (least is None or lower >= least) & (most is None or upper <= most)
    return found


# ---- parameters


def distribution_of(one: Parameter) -> BaseDistribution:
    """A parameter as Optuna writes it down."""
    if one.fixed is not None:
        if isinstance(one.fixed, str | bool):
            return CategoricalDistribution([one.fixed])
        kind = IntDistribution if isinstance(one.fixed, int) else FloatDistribution
        return kind(one.fixed, one.fixed)
    if one.choices:
        return CategoricalDistribution(one.choices)
    assert one.low is not None and one.high is not None
    if one.whole:
        return IntDistribution(int(one.low), int(one.high), one.log, int(one.step or 1))
    return FloatDistribution(float(one.low), float(one.high), one.log, one.step)


def parameter_of(one: Any, name: str) -> Parameter:
    """A parameter of Tellmost or a distribution of Optuna as a parameter."""
    if isinstance(one, Parameter):
        return one
    if not isinstance(one, BaseDistribution):
        raise TypeError(
            f"parameter {name!r} must be a tm.Parameter or a distribution of Optuna; got "
            f"{type(one).__name__}. What exists only under a condition cannot be searched safely: "
            f"make a study for each case."
        )
    if isinstance(one, CategoricalDistribution):
        single = len(one.choices) == 1
        return Parameter(fixed=one.choices[0]) if single else Parameter(choices=one.choices)
    assert isinstance(one, FloatDistribution | IntDistribution)
    if one.single():
        return Parameter(fixed=one.low)
    is_whole = isinstance(one, IntDistribution)
    return Parameter(one.low, one.high, step=one.step, log=one.log, whole=is_whole)


def box_of(space: Any) -> Box:
    """The space as a box of parameters."""
    if isinstance(space, Box):
        if space.parameters is None:
            raise TypeError(
                "space must have parameters with names: tm.Box({'power': tm.Parameter(0, 10)})."
            )
        return space
    if not isinstance(space, Mapping):
        raise TypeError(f"space must be a tm.Box or parameters by name; got {space!r:.80}.")
    return Box({name: parameter_of(one, name) for name, one in space.items()})


class Declared(dict[str, BaseDistribution]):
    """The distributions of a trial, which refuse to be asked for others.

    Optuna looks here before it asks a sampler, so nothing that is fixed or has a single value
    gets past it. ``refuse`` is called with the reason first.
    """

    refuse: Callable[[str], None]

    def __contains__(self, name: object) -> bool:
        if not super().__contains__(name):
            self._refuse(f"{name!r} is not a parameter of the space; those are {', '.join(self)}.")
        return True

    def get(self, name: str, given: Any = None) -> Any:
        """The declared distribution. Optuna passes the one that it was asked for."""
        if name in self and isinstance(given, BaseDistribution) and given != self[name]:
            self._refuse(
                f"{name!r} was declared as {self[name]}; got {given}. Suggest what was declared."
            )
        return self[name]

    def _refuse(self, reason: str) -> None:
        self.refuse(reason)
        raise ValueError(reason)

    def __deepcopy__(self, memo: Any) -> dict[str, BaseDistribution]:
        return dict(self)
