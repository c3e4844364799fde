"""A snapshot has as values what a figure of an optimization shows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from tellmost.rows.checks import check_word
from tellmost.safebo.choice import SafeRound
from tellmost.safebo.journal import ToldTrial
from tellmost.safebo.round_state import RoundState
from tellmost.safebo.run import SafeRun
from tellmost.safebo.trials import History, Recommendation
from tellmost.shapes import Bool, Float
from tellmost.targets import NoTargetsLeft

Kind = Literal["bands", "map", "history"]
KINDS: dict[Kind, int | None] = {"bands": 1, "map": 2, "history": None}
"""A figure takes so many parameters; None stands for any number."""


@dataclass(frozen=True, eq=False)
class Curve:
    """Mean and bounds of one output at the points, in its unit, and the limits it has to keep."""

    names: tuple[str, ...]
    mean: Float[np.ndarray, " n"]
    lower: Float[np.ndarray, " n"]
    upper: Float[np.ndarray, " n"]
    at_least: tuple[float, ...]
    at_most: tuple[float, ...]

    @property
    def label(self) -> str:
        return " = ".join(self.names)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A snapshot has what an optimizer knows now."""

    kind: Kind
    points: Float[np.ndarray, "n d"]  # without the context
    names: tuple[str, ...]
    context: Mapping[str, float]
    curves: tuple[Curve, ...]  # the objective's first
    is_safe: Bool[np.ndarray, " n"]
    may_be_safe: Bool[np.ndarray, " n"]
    is_target: Bool[np.ndarray, " n"]
    history: History
    best: Recommendation | None
    is_minimized: bool
    best_bounds: tuple[float, ...]  # of a history: best pessimistic value after each trial, or NaN


def choose_kind(kind: Any, dimension: int) -> Kind:
    """The kind that was asked for, or the one that suits the number of parameters."""
    if kind is None:
        kind = next(one for one, count in KINDS.items() if count in (dimension, None))
    check_word(kind, "kind", tuple(KINDS))
    if KINDS[kind] not in (None, dimension):
        raise ValueError(
            f"kind={kind!r} needs {KINDS[kind]} parameter{'s' * (KINDS[kind] != 1)}, and there "
            f"are {dimension}; kind='history' is drawn for any number."
        )
    return kind


def take_snapshot(now: SafeRound, history: History, kind: Any) -> Snapshot:
    """Take what there is to show of the present round."""
    state, space = now.state, now.task.space
    shown = choose_kind(kind, space.dimension)
    rows = state.is_candidate
    try:
        is_target = now.targets().is_target
    except NoTargetsLeft:
        is_target = torch.zeros_like(rows)
    return Snapshot(
        kind=shown,
        points=state.points[rows, : space.dimension].numpy(),
        names=space.names,
        context=dict(zip(space.contexts, now.context.tolist(), strict=True)),
        curves=tuple(_curve(state, number) for number in range(len(state.model.outputs))),
        is_safe=state.sets.is_safe[rows].numpy(),
        may_be_safe=state.sets.may_be_safe[rows].numpy(),
        is_target=is_target[rows].numpy(),
        history=history,
        best=now.recommend() if bool(state.safe_rows.any()) else None,
        is_minimized=state.model.is_minimized,
        best_bounds=_retrace(now) if shown == "history" else (),
    )


def _curve(state: RoundState, number: int) -> Curve:
    rows, scale, constraints = state.is_candidate, state.scale(number), state.model.constraints
    names = state.model.outputs[number].names
    limits = [constraints[name] for name in names if name in constraints]
    lower, upper = state.shown_bounds(number)
    return Curve(
        names,
        mean=state.mean[number, rows].numpy() * scale,
        lower=lower[rows].numpy(),
        upper=upper[rows].numpy(),
        at_least=tuple(one.at_least for one in limits if one.at_least is not None),
        at_most=tuple(one.at_most for one in limits if one.at_most is not None),
    )


def _retrace(now: SafeRound) -> tuple[float, ...]:
    """The best bound after each trial, from the start and under the present priors."""
    run, bounds = SafeRun(now.task, now.state.model), []
    for trial in now.trials:
        is_failed = trial.status == "failed"
        run.apply(ToldTrial(trial.id, trial.x, trial.values, trial.noise_std, is_failed))
        then = run.rounds.present()
        is_open = bool(then.state.safe_rows.any())
        bounds.append(then.recommend().bound if is_open else float("nan"))
    return tuple(bounds)
