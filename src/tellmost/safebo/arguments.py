"""Here is checked what the user states and tells. An error says what came and the way out."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf, isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.learner.arguments import check_targets, seeded
from tellmost.posterior.gp import GP
from tellmost.rows.checks import check_object, check_positive, check_positives, converted
from tellmost.rules import VTL, Rule
from tellmost.safebo.constraints import Constraint
from tellmost.safebo.outputs import OBJECTIVE, READABLE, Output, by_number
from tellmost.safebo.spaces import Search, SobolSet, Space
from tellmost.safebo.trials import STATUS, Located, Query, Status, Trial
from tellmost.selecting.arguments import check_rule
from tellmost.shapes import Float
from tellmost.targets import PotentialMaximizers, ProbableMaximizers, Targets

MOST_DEVIATIONS = 1e100
"""A larger value has a square, or a sum of squares, that float64 cannot hold."""


def check_word(value: Any, name: str, words: tuple[str, str]) -> bool:
    """Whether it is the first of two words."""
    if value not in words:
        raise ValueError(f"{name} must be {' or '.join(map(repr, words))}; got {value!r}.")
    return bool(value == words[0])


def check_constraints(objective: Any, constraints: Any, space: Space) -> dict[str, Constraint]:
    """The constraints by name. Names are columns of the history, so some of them are taken."""
    taken = OBJECTIVE, STATUS, *space.names, *space.contexts
    example = "a tm.GP, such as tm.GP(tm.kernels.Matern(2.5), noise_std=0.1)"
    check_object(objective, "objective", GP, example)
    given = {} if constraints is None else constraints
    if not isinstance(given, Mapping):
        raise TypeError(
            f"constraints must be given by name, {{'height': tm.Constraint(...)}}; got "
            f"{type(given).__name__}."
        )
    for name, constraint in given.items():
        if not isinstance(name, str) or name in taken:
            raise ValueError(
                f"a constraint must have a name of its own, which is not {OBJECTIVE!r}, "
                f"{STATUS!r} or that of a parameter or context; got {name!r}."
            )
        example = "a tm.Constraint(gp, at_least=...)"
        check_object(constraint, f"constraints[{name!r}]", Constraint, example)
    return {name: constraint.believing(objective) for name, constraint in given.items()}


def check_safe_rule(rule: Any, seed: int) -> Rule:
    """A rule that reads nothing but what is kept here."""
    checked = seeded(check_rule(rule), rule, seed)
    unknown = sorted(checked.needs - READABLE)
    if unknown:
        raise ValueError(
            f"rule {checked.name!r} reads {', '.join(unknown)}, which is not kept where targets "
            f"and safe set change each round; use 'vtl', 'itl', 'mm-itl', 'ctl', 'uncertainty' or "
            f"'random'."
        )
    return checked


def check_suspect_z(suspect_z: Any) -> float:
    """A positive number, or infinity."""
    return inf if suspect_z == inf else check_positive(suspect_z, "suspect_z")


def check_safe_targets(targets: Any, rule: Any) -> Targets:
    """The targets. By default VTL weighs potential maximizers, and other rules do not."""
    if targets is None:
        return (
            ProbableMaximizers()
            if rule == "vtl" or isinstance(rule, VTL)
            else PotentialMaximizers()
        )
    checked = check_targets(targets)
    where = getattr(checked, "where", None)
    if checked is None or (where is not None and not callable(where) and np.ndim(where) == 0):
        raise TypeError(
            f"targets must be an object of tm.targets, such as PotentialMaximizers(), or a "
            f"function of the model that returns a mask; got {targets!r}."
        )
    return checked


def check_search(search: Any, space: Space) -> Search | None:
    if space.box is None:
        if search is not None:
            raise ValueError("search is for a Box: points that are given are searched whole.")
        return None
    if search is None:
        return SobolSet()
    example = "SobolSet(), CoordinateLines() or RandomLines() of tellmost.safebo"
    return check_object(search, "search", Search, example)


def check_max_step(max_step: Any, space: Space) -> Float[Tensor, " d"] | None:
    """Read how far each parameter may move: one number for all, one each, or by name."""
    if max_step is None:
        return None
    if isinstance(max_step, Mapping):
        check_named(max_step, "max_step", space.names, "the parameters are")
        steps = [max_step.get(name, inf) for name in space.names]
        given = [check_positive(step, "max_step") if step != inf else step for step in steps]
        return torch.tensor(given, dtype=torch.float64)
    return check_positives(max_step, "max_step", space.dimension, "parameter")


def check_output_noise(noise_std: Any, outputs: Sequence[Output], space: Space) -> list[Any]:
    """The noise of each output: None, a number, one per row of the domain, or a function."""
    given = {} if noise_std is None else noise_std
    if not isinstance(given, Mapping):
        raise TypeError(
            "noise_std must be given by name, {'objective': ...}; one number for an output is "
            "the noise_std of its GP."
        )
    check_named(given, "noise_std", [name for one in outputs for name in one.names])
    return [_check_noise(output.value_in(given), output, space) for output in outputs]


def check_named(
    given: Iterable[str], what: str, known: Sequence[str], are: str = "the outputs are"
) -> None:
    """Refuse names of what does not exist."""
    for name in given:
        if name not in known:
            raise ValueError(f"{what} names {name!r}; {are} {', '.join(known)}.")


def _check_noise(noise_std: Any, output: Output, space: Space | None = None) -> Any:
    """The noise of an output in a space, or else of a single value."""
    if noise_std is None:
        return None
    name = output.names[0]
    if output.is_bounded:
        raise ValueError(f"noise_std of {name!r} must be left out: its noise_bound always holds.")
    if not output.gp.knows_noise:
        raise ValueError(
            f"noise_std of {name!r} was left open by its GP.unknown, so its values have no noise "
            f"of their own. State GP.unknown(noise_std=...)."
        )
    if callable(noise_std) and space is not None:
        return noise_std
    argument = f"noise_std[{name!r}]"
    if space is None or np.ndim(noise_std) == 0:
        number = check_positive(noise_std, argument)
        output.check_noise(number, argument)
        return number
    if space.rows is None:
        raise ValueError(f"{argument} in a Box must be a number or a function of points.")
    each = check_positives(noise_std, argument, len(space.rows), "domain row")
    output.check_noise(float(each.min()), argument)
    return each


def read_seeds(safe_seed: Any, space: Space) -> tuple[list[Located], list[dict[str, Any]]]:
    """The declared points, and the values that are told of them."""
    if safe_seed is None:
        return [], []
    values: Mapping[str, Any] = {}
    is_pair = isinstance(safe_seed, tuple) and len(safe_seed) == 2
    if is_pair and isinstance(safe_seed[1], Mapping) and set(safe_seed[1]) != set(space.names):
        safe_seed, values = safe_seed
    elif is_pair and not any(
        isinstance(one, Mapping | Query) or not np.ndim(one) for one in safe_seed
    ):
        raise TypeError(  # a value must never be taken for a point that is safe
            "safe_seed with values is (points, {'objective': [...], 'height': [...]}), values by "
            "name; several points alone are a list, [point, point]. Got a pair of arrays."
        )
    space.check_plain(safe_seed, "safe_seed")
    seeds = space.read_points(safe_seed, "safe_seed")
    if not seeds:
        raise ValueError("safe_seed must name at least one point, or be left out; got none.")
    columns = {name: np.atleast_1d(column).tolist() for name, column in values.items()}
    for name, column in columns.items():
        if len(column) != len(seeds):
            raise ValueError(
                f"safe_seed: {name!r} must have a value per seed, {len(seeds)}; got {len(column)}."
            )
    rows = zip(*columns.values(), strict=True)
    return seeds, [dict(zip(columns, row, strict=True)) for row in rows]


# ---- what is told


def check_values(
    objective: Any, constraints: Any, known: Mapping[str, Constraint], failed: bool
) -> dict[str, float]:
    """The value that was told of each name; a failed trial tells nothing."""
    told: dict[str, Any] = {} if objective is None else {OBJECTIVE: objective}
    if constraints is not None and not isinstance(constraints, Mapping):
        example = next(iter(known), "name")
        raise TypeError(
            f"constraints must be told by name, {{{example!r}: value}}; got "
            f"{type(constraints).__name__}."
        )
    given = {name: y for name, y in (constraints or {}).items() if y is not None}
    for name in constraints or {}:
        if name not in known:
            there = ", ".join(map(repr, known)) or "none"
            raise ValueError(f"there is no constraint {name!r}; those of the optimizer: {there}.")
    told |= given
    if failed and told:
        raise ValueError("a failed trial has no values: tell either failed=True or what came out.")
    if not failed and not told:
        raise ValueError(
            "tell must be given objective=..., constraints={...}, or failed=True; got nothing."
        )
    numbers = {name: converted(y, float, name, "a number") for name, y in told.items()}
    for name, number in numbers.items():
        if not isfinite(number):
            raise ValueError(
                f"{name} must be finite; got {number}. A trial without a value is told with "
                f"failed=True, or without this name."
            )
    return numbers


def check_size(told: Mapping[int, float], outputs: Sequence[Output]) -> None:
    """Refuse values so large that float64 cannot hold their squares."""
    for number, value in told.items():
        one = outputs[number]
        if abs(value) > MOST_DEVIATIONS * one.scale:
            raise ValueError(
                f"{one.names[0]} must be at most {MOST_DEVIATIONS:g} prior deviations from 0, "
                f"which are {one.scale:.3g} each; got {value:g}. A trial without a value is told "
                f"with failed=True."
            )


def check_told_noise(
    noise_std: Any, outputs: Sequence[Output], told: Mapping[int, float]
) -> dict[int, float]:
    """The noise of told values that have a noise of their own, by the number of the output."""
    own = dict.fromkeys(told, noise_std)
    if isinstance(noise_std, Mapping):
        names = [name for number in told for name in outputs[number].names]
        check_named(noise_std, "noise_std", names, "values were told of")
        own = by_number(outputs, noise_std)
    checked = {number: _check_noise(std, outputs[number]) for number, std in own.items()}
    return {number: std for number, std in checked.items() if std is not None}


def check_query(
    query: Query, known: Collection[str], trials: Sequence[Trial], *, is_repeat: bool
) -> None:
    """Refuse a query of another optimizer than the known, and one that was told already."""
    if not query.id:
        return
    if query.id.partition("-")[0] not in known:
        raise ValueError(
            f"query {query.id} is of another optimizer. Tell its point, tell(x=query.x, ...)."
        )
    told = [one.id for one in trials if one.query == query.id]
    if told and not is_repeat:
        raise ValueError(
            f"query {query.id} was told already, as trial {told[0]}. If it was measured again, "
            f"tell it with repeat=True; if it was told wrongly, retract({told[0]}) first."
        )


def judge(
    outputs: Sequence[Output],
    values: Mapping[str, float],
    noise_std: Mapping[str, float],
    constraints: Mapping[str, Constraint],
    suspects: Collection[int],
) -> tuple[Status, tuple[str, ...]]:
    """Say whether told values satisfy the constraints, and which they break.

    A suspect value beyond a limit is a violation, however little it lies beyond.
    """
    broken, is_violation = [], False
    for number, value in by_number(outputs, values).items():
        noise = noise_std[outputs[number].names[0]]
        for name in outputs[number].names:
            if name in constraints and constraints[name].excess(value) > 0:
                broken.append(name)
                is_violation |= constraints[name].is_violated(value, noise) or number in suspects
    if is_violation:
        return "violated", tuple(broken)
    return ("marginal" if broken else "safe"), tuple(broken)


def about_breach(trial: Trial, constraints: Mapping[str, Constraint]) -> str:
    """A trial that was not safe, in words."""
    where = ", ".join(f"{x:.4g}" for x in trial.x)
    if trial.status == "failed":
        return f"the trial at ({where}) failed"
    broken = {name: trial.values[name] for name in trial.broken}
    parts = [
        f"{name} {value:.4g}, {constraints[name].excess(value):.3g} beyond its limit"
        for name, value in broken.items()
    ]
    return f"at ({where}): {'; '.join(parts)}"
