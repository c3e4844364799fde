"""A file holds what was told as plain values, and says to which optimizer a state belongs."""

import hashlib
import inspect
import json
import os
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tellmost
from tellmost.learner.arguments import Asked
from tellmost.learner.record import check_same
from tellmost.posterior.gp import GP
from tellmost.rows.pool import Pool
from tellmost.running.reading import refusing_damage
from tellmost.running.writing import HOST, locked, written_whole
from tellmost.safebo.bounds import Confidence
from tellmost.safebo.choice import SafeTask
from tellmost.safebo.round_state import SafeModel

KIND, FORMAT = "tellmost-safe-optimizer", 2
"""What a file says that it is, and the version of its form. Format 1 was never released."""

CLOSURE = "closure:"
"""A description that begins so is of a function that cannot be told from others by its source."""

CHANGES = {
    "beta": ("confidence",),
    "confidence": ("confidence",),
    "limits": ("limits",),
    "seeds": ("safe_seed",),
    "domain": ("domain",),
}
"""What may be changed when a state is loaded, and what it changes about the identity."""


def write_state(state: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a state, if the file has nothing that the state has not.

    Two processes never write at once, and none overwrites what another one was told.
    """
    writer = {"pid": os.getpid(), "host": HOST, "version": tellmost.__version__}
    with locked(Path(path)):
        check_begins_with(state, path)
        with written_whole(Path(path)) as unfinished:
            unfinished.write_text(json.dumps({**state, "written_by": writer}, indent=1))


def check_begins_with(state: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Refuse to overwrite entries that the state does not know."""
    if not Path(path).exists():
        return
    there, mine = read_state(path), state["journal"]
    if mine[: len(there["journal"])] != there["journal"]:
        by = there["written_by"]
        raise FileExistsError(
            f"{os.fspath(path)!r} was written by process {by['pid']} on {by['host']}, and has "
            f"{len(there['journal'])} entries that this optimizer does not begin with, which has "
            f"{len(mine)}. Nothing was written. Load the file into a new optimizer and tell it "
            f"what is missing, or save to another file."
        )


def read_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    what = f"{os.fspath(path)!r} is no saved optimizer"
    with refusing_damage(what, "SafeOptimizer.save writes one."):
        state = json.loads(Path(path).read_bytes(), parse_constant=_refuse_constant)
        if state["kind"] != KIND or not isinstance(state["format"], int):
            raise ValueError(f"it is {state['kind']!r} of format {state['format']!r}")
        state = dict(state)
        made = state["written_by"]["version"]
    if state["format"] > FORMAT:
        raise ValueError(
            f"{os.fspath(path)!r} has format {state['format']}, written by Tellmost {made}; this "
            f"is Tellmost {tellmost.__version__}, which reads format {FORMAT}. Install a newer."
        )
    return state


def _refuse_constant(word: str) -> float:
    raise ValueError(f"a number must be finite; it has {word}")


def check_identity(
    state: Mapping[str, Any], mine: Mapping[str, Any], changed: Collection[str]
) -> dict[str, tuple[Any, Any]]:
    """What differs from the settings of a state, by name; refuse what was not said to change."""
    check_same(state, {}, "optimizer")  # it is a mapping
    unknown = sorted(set(changed) - CHANGES.keys())
    if unknown:
        raise ValueError(
            f"changed may name {', '.join(map(repr, CHANGES))}; got {', '.join(unknown)}."
        )
    allowed = {name for one in changed for name in CHANGES[one]}
    check_same(
        {name: _typed(value) for name, value in state.items() if name in mine},
        {name: _typed(value) for name, value in mine.items() if name not in allowed},
        "optimizer",
    )
    return {
        name: (state.get(name), mine[name])
        for name in sorted(allowed)
        if _typed(state.get(name)) != _typed(mine[name])
    }


def _typed(value: Any) -> str:
    """A value in writing, where 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True)


def refuse_closures(identity: Any, path: str = "") -> None:
    """Refuse settings that another process cannot tell from others."""
    if isinstance(identity, Mapping):
        for name, value in identity.items():
            refuse_closures(value, path or name)
    elif isinstance(identity, list):
        for value in identity:
            refuse_closures(value, path)
    elif isinstance(identity, str) and CLOSURE in identity:
        raise ValueError(
            f"{path} has a function that keeps values of its own, {identity.split(CLOSURE)[1]}, "
            f"so a saved state cannot say whether another one is the same. Use a function without "
            f"closure, or a frozen dataclass with __call__, which prints its values."
        )


# ---- what tells an optimizer from others


def digest(plain: Any) -> str:
    """A short name of plain values."""
    text = json.dumps(plain, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def describe_task(task: SafeTask) -> dict[str, Any]:
    """The places where the optimizer looks, and its aim, in plain values."""
    space, targets = task.space, task.targets
    function = targets.function if isinstance(targets, Asked) else None
    steps = None if task.max_step is None else [str(step) for step in task.max_step.tolist()]
    return {
        "kind": KIND,
        "domain": Pool.of(space.rows).fingerprint()
        if space.rows is not None and space.parameters is None
        else repr(space.parameters or space.box),
        "names": list(space.names),
        "contexts": list(space.contexts),
        "safe_seed": [point.tolist() for point in task.seeds.points],
        "search": repr(task.search),
        "targets": repr(targets) if function is None else describe_function(function),
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
            name: {**one.describe(), "prior": _describe_prior(one.gp)}
            for name, one in model.constraints.items()
        },
        "limits": {name: one.limits for name, one in model.constraints.items()},
        "outputs": [list(output.names) for output in model.outputs],
        "noise_std": [_describe_noise(one) for one in model.noise_std],
        "confidence": _describe_confidence(model.confidence),
        "rule": repr(model.rule),
        "strategy": None if model.strategy is None else _describe_object(model.strategy),
        "sets": model.sets,
        "suspect_z": model.suspect_z,
        "direction": "minimize" if model.is_minimized else "maximize",
    }


def describe_function(function: Any) -> str:
    """A function by its name and its source, or an object by what it prints."""
    if isinstance(function, partial):
        inner = describe_function(function.func)
        return f"{inner} with {function.args!r} {sorted(function.keywords.items())!r}"
    code = getattr(function, "__code__", None)
    if code is None:
        return _describe_object(function)
    name = f"{function.__module__}.{function.__qualname__}"
    if getattr(function, "__closure__", None) or getattr(function, "__self__", None) is not None:
        name = f"{CLOSURE}{name}"
    return f"{name} {digest([_source_of(function), repr(function.__defaults__)])}"


def _source_of(function: Any) -> str:
    """The source, or what it was compiled to where there is no source."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        code = function.__code__
        return f"{code.co_code!r} {code.co_consts!r} {code.co_names!r}"


def _describe_object(thing: object) -> str:
    """Give what it prints, or its class and source if that would only be an address."""
    kind = type(thing)
    if kind.__repr__ is not object.__repr__:
        return repr(thing)
    mark = CLOSURE if getattr(thing, "__dict__", None) else ""
    return f"{mark}{kind.__module__}.{kind.__qualname__}"


def _describe_confidence(confidence: Confidence) -> str:
    beta = getattr(confidence, "beta", None)
    return f"Width({describe_function(beta)})" if callable(beta) else repr(confidence)


def _describe_noise(noise_std: Any) -> Any:
    """The noise of one output, which is None, a number, one per row, or a function."""
    if callable(noise_std):
        return describe_function(noise_std)
    return Pool.of(noise_std[:, None]).fingerprint() if np.ndim(noise_std) else noise_std


def _describe_prior(gp: GP) -> str:
    """All that is printed of it, its mean if that is a function, and its data."""
    text = f"{gp!r} {describe_function(gp.mean)}" if callable(gp.mean) else repr(gp)
    if gp.data is None:
        return text
    arrays = (gp.data.points, gp.data.y[:, None], gp.data.noise_variance[:, None])
    return f"{text} {' '.join(Pool.of(array).fingerprint() for array in arrays)}"
