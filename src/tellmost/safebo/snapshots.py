"""What there is to show of an optimization, as values: a figure needs nothing else."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from tellmost.safebo.choice import Turn
from tellmost.safebo.constraints import Constraint
from tellmost.safebo.rounds import Rounds
from tellmost.safebo.trials import History, Recommendation
from tellmost.shapes import Bool, Float
from tellmost.targets import NoTargetsLeft

Kind = Literal["bands", "map", "history"]
KINDS = {"bands": 1, "map": 2, "history": None}
"""How many parameters a figure takes; None: any number."""


@dataclass(frozen=True, eq=False)
class Curve:
    """One output at the points, in its unit, and the limits that it has to keep."""

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
    """An optimizer as it stands."""

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
    """The one that was asked for, or what suits the number of parameters."""
    if kind is None:
        return {1: "bands", 2: "map"}.get(dimension, "history")  # type: ignore[return-value]
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}; got {kind!r}.")
    if KINDS[kind] not in (None, dimension):
        raise ValueError(
            f"kind={kind!r} needs {KINDS[kind]} parameter{'s' * (KINDS[kind] != 1)}, and there "
            f"are {dimension}; kind='history' is drawn for any number."
        )
    return kind


def take_snapshot(
    turn: Turn,
    history: History,
    constraints: Mapping[str, Constraint],
    kind: Any,
    restart: Callable[[], Rounds],
) -> Snapshot:
    """``restart`` gives rounds of the present priors in which nothing was told yet."""
    stage, space = turn.stage, turn.task.space
    shown = choose_kind(kind, space.dimension)
    rows, d = stage.is_candidate, space.dimension
    now = stage.points[rows][0, d:].tolist()
    return Snapshot(
        kind=shown,
        points=stage.points[rows, :d].numpy(),
        names=space.names,
        context=dict(zip(space.contexts, now, strict=True)),
        curves=tuple(_curve(turn, i, constraints) for i in range(len(stage.model.outputs))),
        is_safe=stage.sets.is_safe[rows].numpy(),
        may_be_safe=stage.sets.may_be_safe[rows].numpy(),
        is_target=_targets(turn),
        history=history,
        best=turn.recommend() if bool(turn.safe_rows.any()) else None,
        is_minimized=turn.task.is_minimized,
        best_bounds=_retrace(turn, restart()) if shown == "history" else (),
    )


def _curve(turn: Turn, number: int, constraints: Mapping[str, Constraint]) -> Curve:
    stage, rows, scale = turn.stage, turn.stage.is_candidate, turn.stage.scale(number)
    names = stage.model.outputs[number].names
    limits = [constraints[name] for name in names if name in constraints]
    return Curve(
        names,
        mean=stage.mean[number, rows].numpy() * scale,
        lower=stage.bounds.lower[number, rows].numpy() * scale,
        upper=stage.bounds.upper[number, rows].numpy() * scale,
        at_least=tuple(one.at_least for one in limits if one.at_least is not None),
        at_most=tuple(one.at_most for one in limits if one.at_most is not None),
    )


def _targets(turn: Turn) -> Bool[np.ndarray, " n"]:
    rows = turn.stage.is_candidate
    try:
        return turn.lesson().is_target[rows].numpy()
    except NoTargetsLeft:
        return torch.zeros_like(rows[rows]).numpy()


def _retrace(turn: Turn, rounds: Rounds) -> tuple[float, ...]:
    """The rounds again, from the start; under the present priors, where these were fitted."""
    bounds = []
    for trial in turn.trials:
        rounds.add(trial)
        stage, layout = rounds.present()
        now = Turn(turn.task, stage, layout, rounds.trials, rounds.last_point)
        is_open = bool(now.safe_rows.any())
        bounds.append(now.recommend().bound if is_open else float("nan"))
    return tuple(bounds)
