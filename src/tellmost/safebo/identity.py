"""What tells an optimizer from others, in plain values: a state belongs to one alone."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tellmost.learner.arguments import Asked
from tellmost.posterior.gp import GP, name_of
from tellmost.rows.pool import Pool
from tellmost.safebo.constraints import Constraint
from tellmost.safebo.saving import FORMAT
from tellmost.safebo.stages import Model
from tellmost.safebo.strategies import Strategy
from tellmost.safebo.turns import Task


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
