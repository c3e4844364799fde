"""From what the user tells to values of outputs, or an error before anything is changed."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from tellmost.rows.checks import NOT_NUMBERS, check_positive
from tellmost.safebo.constraints import Constraint
from tellmost.safebo.outputs import OBJECTIVE, Output
from tellmost.safebo.trials import Status, Trial


def check_values(
    objective: Any, constraints: Any, known: Mapping[str, Constraint], failed: bool
) -> dict[str, float]:
    """What was told of each name; a failed trial tells nothing."""
    told: dict[str, Any] = {} if objective is None else {OBJECTIVE: objective}
    if constraints is not None and not isinstance(constraints, Mapping):
        example = next(iter(known), "name")
        raise TypeError(
            f"constraints must be told by name, {{{example!r}: value}}; got "
            f"{type(constraints).__name__}."
        )
    for name, value in (constraints or {}).items():
        if name not in known:
            there = ", ".join(map(repr, known)) or "none"
            raise ValueError(f"there is no constraint {name!r}; those of the optimizer: {there}.")
        if value is not None:
            told[name] = value
    if failed and told:
        raise ValueError("a failed trial has no values: tell either failed=True or what came out.")
    if not failed and not told:
        raise ValueError(
            "tell must be given objective=..., constraints={...}, or failed=True; got nothing."
        )
    return {name: _check_number(value, name) for name, value in told.items()}


def _check_number(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a number; got {type(value).__name__}.") from error
    if isinstance(value, NOT_NUMBERS):
        raise TypeError(f"{name} must be a number; got {value!r}.")
    if not isfinite(number):
        raise ValueError(
            f"{name} must be finite; got {number}. A trial without a value is told with "
            f"failed=True, or without this name."
        )
    return number


def value_of(output: Output, told: Mapping[str, float]) -> float | None:
    """The value of an output that may serve several names; None: it was not told."""
    values = {name: told[name] for name in output.names if name in told}
    if len(set(values.values())) > 1:
        which = ", ".join(f"{name} {value:g}" for name, value in values.items())
        raise ValueError(f"one function serves as {which}: tell it once, or the same value.")
    return next(iter(values.values()), None)


def noise_of(output: Output, own: Mapping[str, float]) -> float | None:
    """The noise of a told value that has one of its own; None: it has the usual."""
    stds = {own[name] for name in output.names if name in own}
    if len(stds) > 1:
        names = ", ".join(map(repr, output.names))
        raise ValueError(f"noise_std differs between {names}, which are one function: tell one.")
    return next(iter(stds), None)


def check_noise(noise_std: Any, told: Mapping[str, float]) -> dict[str, float]:
    """The noise of told values that have one of their own, by name."""
    if noise_std is None:
        return {}
    if not isinstance(noise_std, Mapping):
        return dict.fromkeys(told, check_positive(noise_std, "noise_std"))
    for name in noise_std:
        if name not in told:
            raise ValueError(f"noise_std names {name!r}, of which no value was told.")
    return {name: check_positive(std, f"noise_std[{name!r}]") for name, std in noise_std.items()}


def judge(
    outputs: Sequence[Output],
    values: Mapping[int, float],
    noise_std: Mapping[int, float],
    constraints: Mapping[str, Constraint],
) -> tuple[Status, tuple[str, ...]]:
    """Whether told values satisfy the constraints, and which they break."""
    broken, is_violation = [], False
    for number, value in values.items():
        for name in outputs[number].names:
            constraint = constraints.get(name)
            if constraint is None or constraint.excess(value) <= 0:
                continue
            broken.append(name)
            is_violation |= constraint.is_violated(value, noise_std[number])
    if is_violation:
        return "violated", tuple(broken)
    return ("marginal" if broken else "safe"), tuple(broken)


def about_breach(trial: Trial, constraints: Mapping[str, Constraint]) -> str:
    """A trial that was not safe, in words."""
    where = ", ".join(f"{x:.4g}" for x in trial.x)
    if trial.status == "failed":
        return f"the trial at ({where}) failed"
    parts = []
    for name in trial.broken:
        value = trial.values[name]
        parts.append(f"{name} {value:.4g}, {constraints[name].excess(value):.3g} beyond its limit")
    return f"at ({where}): {'; '.join(parts)}"
