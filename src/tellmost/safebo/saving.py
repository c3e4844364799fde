"""What was told, as plain values that a file can hold."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.running.writing import written_whole
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
