"""What was told, as plain values that a file can hold.

What tells an optimizer from others, in plain values: a state belongs to one alone.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.learner.arguments import Asked
from tellmost.posterior.gp import GP, name_of
from tellmost.rows.pool import Pool
from tellmost.running.writing import written_whole
from tellmost.safebo.choice import Task
from tellmost.safebo.constraints import Constraint
from tellmost.safebo.stages import Model
from tellmost.safebo.strategies import Strategy
from tellmost.safebo.trials import Event, Trial
from tellmost.shapes import Float

FORMAT = "tellmost-safe-optimizer-1"


def write_trial(trial: Trial) -> dict[str, Any]:
    return {
        "x": trial.x.tolist(),
        "index": trial.index,
        "values": dict(trial.values),
        "noise_std": dict(trial.noise_std),
        "status": trial.status,
        "broken": list(trial.broken),
    }


def write_events(log: Sequence[Event]) -> list[dict[str, Any]]:
    return [{"trials": one.trials, "kind": one.kind, "text": one.text} for one in log]


@dataclass(frozen=True)
class Saved:
    """A state that was read."""

    trials: tuple[Trial, ...]
    refits: tuple[Mapping[str, Any], ...]
    recommended: Mapping[int, Float[Tensor, " d"]]
    log: tuple[Event, ...]
    is_halted: bool
    moved_to: Float[Tensor, " d"] | None


def read_saved(state: Mapping[str, Any]) -> Saved:
    try:
        recommended = state["recommended"].items()
        return Saved(
            trials=tuple(read_trial(one) for one in state["trials"]),
            refits=tuple(state["refits"]),
            recommended={int(t): _point(x) for t, x in recommended},
            log=tuple(Event(one["trials"], one["kind"], one["text"]) for one in state["log"]),
            is_halted=bool(state["is_halted"]),
            moved_to=None if state["moved_to"] is None else _point(state["moved_to"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"the state is damaged, and nothing of it was taken over: {error!r}. Take one that "
            f"state_dict() returned."
        ) from error


def _point(x: Sequence[float]) -> Float[Tensor, " d"]:
    return torch.tensor(x, dtype=torch.float64)


def read_trial(state: Mapping[str, Any]) -> Trial:
    return Trial(
        x=np.array(state["x"], dtype=np.float64),
        index=state["index"],
        values=dict(state["values"]),
        noise_std=dict(state["noise_std"]),
        status=state["status"],
        broken=tuple(state["broken"]),
    )


def check_same(state: Mapping[str, Any], mine: Mapping[str, Any], names: Sequence[str]) -> None:
    """A state belongs to an optimizer made with the same arguments."""
    for name in names:
        if state.get(name) != mine[name]:
            raise ValueError(
                f"the state is of another optimizer: its {name} is {state.get(name)!r}, that of "
                f"this one {mine[name]!r}. Make the optimizer with the arguments it had."
            )


def write_state(state: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """A JSON file, written whole or not at all."""
    with written_whole(Path(path)) as unfinished:
        unfinished.write_text(json.dumps(state, indent=1))


def read_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        state = json.loads(Path(path).read_text())
        if state["format"] != FORMAT:
            raise KeyError("format")
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(
            f"{os.fspath(path)!r} is no saved optimizer: it was not written by "
            f"SafeOptimizer.save, or is damaged."
        ) from error
    return dict(state)


def describe_task(task: Task) -> dict[str, Any]:
    """Where it looks, for what, and how."""
    space = task.space
    steps = None if task.max_step is None else [str(step) for step in task.max_step.tolist()]
    aimed = task.targets
    targets = name_of(aimed.function) if isinstance(aimed, Asked) else repr(aimed)
    return {
        "format": FORMAT,
        "domain": repr(space.box) if space.rows is None else Pool.of(space.rows).fingerprint(),
        "names": list(space.names),
        "contexts": list(space.contexts),
        "safe_seed": [point.tolist() for point in task.seeds.points],
        "search": repr(task.search),
        "targets": targets,
        "strategy": None if task.strategy is None else describe_strategy(task.strategy),
        "max_step": steps,
        "direction": "minimize" if task.is_minimized else "maximize",
        "seed": task.seed,
    }


def describe_strategy(strategy: Strategy) -> str:
    """As it is printed; where that is an address, its class."""
    kind = type(strategy)
    is_address = kind.__repr__ is object.__repr__
    return f"{kind.__module__}.{kind.__qualname__}" if is_address else repr(strategy)


def describe_model(
    model: Model, objective: GP, constraints: Mapping[str, Constraint]
) -> dict[str, Any]:
    """What it believes and how it learns; with the priors as they were given, before any refit."""
    return {
        "objective": describe_prior(objective),
        "constraints": {
            name: f"{one.describe()} of {describe_prior(one.gp)}"
            for name, one in constraints.items()
        },
        "outputs": [list(output.names) for output in model.outputs],
        "noise_std": [describe_noise(one) for one in model.noise_std],
        "confidence": repr(model.confidence),
        "rule": repr(model.rule),
    }


def describe_noise(noise_std: Any) -> Any:
    """Of one output: None, a number, one per row, or a function."""
    if callable(noise_std):
        return name_of(noise_std)
    return Pool.of(noise_std[:, None]).fingerprint() if np.ndim(noise_std) else noise_std


def describe_prior(gp: GP) -> str:
    """All that is printed of it, and its data."""
    if gp.data is None:
        return repr(gp)
    data = gp.data
    arrays = (data.points, data.y[:, None], data.noise_variance[:, None])
    return f"{gp!r} {' '.join(Pool.of(array).fingerprint() for array in arrays)}"
