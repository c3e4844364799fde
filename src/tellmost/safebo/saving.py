"""A file holds what was told as plain values, and says to which optimizer a state belongs."""

import hashlib
import inspect
import json
import os
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from torch import Tensor

import tellmost
from tellmost.learner.arguments import Asked
from tellmost.learner.record import check_same
from tellmost.posterior.gp import GP
from tellmost.rows.pool import Pool
from tellmost.running.reading import refusing_damage
from tellmost.running.writing import HOST, locked, written_whole
from tellmost.safebo.bounds import Width
from tellmost.safebo.choice import SafeTask
from tellmost.safebo.constraints import Constraint
from tellmost.safebo.journal import AskedQuery, Entry, write_entry
from tellmost.safebo.round_state import SafeModel

KIND, FORMAT = "tellmost-safe-optimizer", 2
"""What a file says that it is, and the version of its form. Format 1 was never released."""

CLOSURE = "closure:"
"""A description that begins so is of a function that cannot be told from others by its source."""

CHANGES = {
    "beta": "confidence",
    "confidence": "confidence",
    "limits": "limits",
    "seeds": "safe_seed",
    "domain": "domain",
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
        made = state["written_by"]["version"]
    if state["format"] > FORMAT:
        raise ValueError(
            f"{os.fspath(path)!r} has format {state['format']}, written by Tellmost {made}; this "
            f"is Tellmost {tellmost.__version__}, which reads format {FORMAT}. Install a newer."
        )
    return dict(state)


def _refuse_constant(word: str) -> float:
    raise ValueError(f"a number must be finite; it has {word}")


def check_identity(
    state: Mapping[str, Any], mine: Mapping[str, Any], changed: Collection[str]
) -> dict[str, str]:
    """What differs from the settings of a state, in words; refuse what was not said to change."""
    check_same(state, {}, "optimizer")  # it is a mapping
    unknown = sorted(set(changed) - CHANGES.keys())
    if unknown:
        raise ValueError(
            f"changed may name {', '.join(map(repr, CHANGES))}; got {', '.join(unknown)}."
        )
    allowed = {CHANGES[one] for one in changed}
    old = {name: _typed(state.get(name)) for name in mine}
    new = {name: _typed(value) for name, value in mine.items()}
    check_same(old, {n: text for n, text in new.items() if n not in allowed}, "optimizer")
    return {n: f"{state.get(n)!r} -> {mine[n]!r}" for n in sorted(allowed) if old[n] != new[n]}


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
    return _name(hashlib.sha256(_text(plain)))


class EntriesDigest:
    """The digest of a list of entries and something else, read once while the list grows."""

    def __init__(self) -> None:
        self._entries: Sequence[Entry] | None = None
        self._known: tuple[int, bytes, Any] = 0, b"", None

    def of(self, entries: Sequence[Entry], *others: Any) -> str:
        """The digest of [entries, *others]. Queries that were given out do not count."""
        nothing = 0, b"", hashlib.sha256(b"[[")
        count, comma, read = self._known if entries is self._entries else nothing
        whole = read.copy()
        for entry in entries[count:]:
            if not isinstance(entry, AskedQuery):
                whole.update(comma + _text(write_entry(entry)))
                comma = b", "
        self._entries, self._known = entries, (len(entries), comma, whole.copy())
        whole.update(b"], " + _text(others)[1:])
        return _name(whole)


def _text(plain: Any) -> bytes:
    return json.dumps(plain, sort_keys=True).encode()


def _name(read: Any) -> str:
    return str(read.hexdigest()[:12])


def describe_settings(task: SafeTask, model: SafeModel) -> dict[str, Any]:
    """All arguments in plain values: where the optimizer looks, what it believes, its aim."""
    space = task.space
    settings = {
        "kind": KIND,
        "domain": space.box if space.rows is None else space.parameters or space.rows,
        "names": space.names,
        "contexts": space.contexts,
        "safe_seed": [point.tolist() for point in task.seeds.points],
        "search": task.search,
        "targets": task.targets,
        "max_step": None if task.max_step is None else task.max_step.tolist(),
        "seed": task.seed,
        "on_violation": "halt" if task.halts_on_violation else "continue",
        "on_miscalibration": "halt" if task.halts_on_miscalibration else "log",
        "objective": model.outputs[0].gp,
        "constraints": model.constraints,
        "limits": {n: one.limits for n, one in model.constraints.items()},
        "outputs": [output.names for output in model.outputs],
        "noise_std": model.noise_std,
        "confidence": model.confidence,
        "rule": model.rule,
        "strategy": model.strategy,
        "sets": model.sets,
        "suspect_z": model.suspect_z,
        "direction": "minimize" if model.is_minimized else "maximize",
    }
    return {name: describe(value) for name, value in settings.items()}


def describe(value: Any) -> Any:
    """A setting in plain values: arrays by what they hold, functions by name and source."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else repr(value)
    if isinstance(value, Mapping):
        return {name: describe(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [describe(one) for one in value]
    if isinstance(value, Tensor):
        return Pool.of(value if value.ndim == 2 else value[:, None]).fingerprint()
    if isinstance(value, GP):
        data = () if value.data is None else vars(value.data).values()
        mean = describe(value.mean) if callable(value.mean) else ""
        return [repr(value), mean, *map(describe, data)]
    if isinstance(value, Constraint):
        limits = {"at_least", "at_most"}  # they have an entry of their own
        return {name: describe(one) for name, one in vars(value).items() if name not in limits}
    if isinstance(value, Asked | Width):
        inner = value.function if isinstance(value, Asked) else value.beta
        return f"{type(value).__name__}({describe(inner)})"
    if isinstance(value, partial):
        return [describe(value.func), repr(value.args), repr(sorted(value.keywords.items()))]
    return _describe_function(value) if hasattr(value, "__code__") else _describe_object(value)


def _describe_function(function: Any) -> str:
    name = f"{function.__module__}.{function.__qualname__}"
    if function.__closure__ or getattr(function, "__self__", None) is not None:
        name = f"{CLOSURE}{name}"
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):  # what it was compiled to then
        code = function.__code__
        source = f"{code.co_code!r} {code.co_consts!r} {code.co_names!r}"
    return f"{name} {digest([source, repr(function.__defaults__)])}"


def _describe_object(thing: object) -> str:
    """Give what it prints, or its class if that would only be an address."""
    kind = type(thing)
    if kind.__repr__ is not object.__repr__:
        return repr(thing)
    mark = CLOSURE if getattr(thing, "__dict__", None) else ""
    return f"{mark}{kind.__module__}.{kind.__qualname__}"
