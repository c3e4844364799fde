"""A file holds what was told as plain values, and says to which optimizer a state belongs."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tellmost.learner.arguments import Asked
from tellmost.posterior.gp import GP, name_of
from tellmost.rows.pool import Pool
from tellmost.running.reading import refusing_damage
from tellmost.running.writing import written_whole
from tellmost.safebo.choice import SafeTask
from tellmost.safebo.round_state import SafeModel

FORMAT = "tellmost-safe-optimizer-2"


def write_state(state: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    with written_whole(Path(path)) as unfinished:
        unfinished.write_text(json.dumps(state, indent=1))


def read_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    what = f"{os.fspath(path)!r} is no saved optimizer"
    with refusing_damage(what, "SafeOptimizer.save writes one."):
        state = json.loads(Path(path).read_bytes())
        if state["format"] != FORMAT:
            raise ValueError(f"its format is {state['format']!r}, and this one reads {FORMAT!r}")
        return dict(state)


# ---- what tells an optimizer from others


def digest(plain: Any) -> str:
    """A short name of plain values."""
    text = json.dumps(plain, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def describe_task(task: SafeTask) -> dict[str, Any]:
    """The places where the optimizer looks, and its aim, in plain values."""
    space, targets = task.space, task.targets
    steps = None if task.max_step is None else [str(step) for step in task.max_step.tolist()]
    return {
        "format": FORMAT,
        "domain": repr(space.box) if space.rows is None else Pool.of(space.rows).fingerprint(),
        "names": list(space.names),
        "contexts": list(space.contexts),
        "safe_seed": [point.tolist() for point in task.seeds.points],
        "search": repr(task.search),
        "targets": name_of(targets.function) if isinstance(targets, Asked) else repr(targets),
        "max_step": steps,
        "seed": task.seed,
        "on_violation": "halt" if task.halts_on_violation else "continue",
        "on_miscalibration": "halt" if task.halts_on_miscalibration else "log",
    }


def describe_model(model: SafeModel) -> dict[str, Any]:
    """Describe in plain values what it believes and how it chooses."""
    return {
        "objective": _describe_prior(model.outputs[0].gp),
        "constraints": {
            name: f"{one.describe()} of {_describe_prior(one.gp)}"
            for name, one in model.constraints.items()
        },
        "outputs": [list(output.names) for output in model.outputs],
        "noise_std": [_describe_noise(one) for one in model.noise_std],
        "confidence": repr(model.confidence),
        "rule": repr(model.rule),
        "strategy": None if model.strategy is None else _describe_strategy(model.strategy),
        "sets": model.sets,
        "suspect_z": model.suspect_z,
        "direction": "minimize" if model.is_minimized else "maximize",
    }


def _describe_strategy(strategy: object) -> str:
    """Give what it prints, or its class if that would only be an address."""
    kind = type(strategy)
    is_address = kind.__repr__ is object.__repr__
    return f"{kind.__module__}.{kind.__qualname__}" if is_address else repr(strategy)


def _describe_noise(noise_std: Any) -> Any:
    """The noise of one output, which is None, a number, one per row, or a function."""
    if callable(noise_std):
        return name_of(noise_std)
    return Pool.of(noise_std[:, None]).fingerprint() if np.ndim(noise_std) else noise_std


def _describe_prior(gp: GP) -> str:
    """All that is printed of it, and its data."""
    if gp.data is None:
        return repr(gp)
    arrays = (gp.data.points, gp.data.y[:, None], gp.data.noise_variance[:, None])
    return f"{gp!r} {' '.join(Pool.of(array).fingerprint() for array in arrays)}"
