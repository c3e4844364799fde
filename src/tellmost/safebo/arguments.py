"""Arguments of the optimizer, checked: each error says what came and the way out.

From what the user states to a model, and to the noise of a told value.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.learner.arguments import check_targets, seeded
from tellmost.numerics import SOBOL_POINTS
from tellmost.posterior.gp import GP
from tellmost.rows.checks import check_all_positive, check_positive, check_vector
from tellmost.rules import Rule
from tellmost.safebo.confidence import Confidence
from tellmost.safebo.constraints import Constraint
from tellmost.safebo.outputs import OBJECTIVE, Output, gather_outputs, gather_sides
from tellmost.safebo.spaces import Search, SobolSet, Space, with_context
from tellmost.safebo.stages import Model, Seed
from tellmost.safebo.strategies import Strategy
from tellmost.safebo.telling import noise_of
from tellmost.safebo.trials import STATUS, Query
from tellmost.safebo.views import READABLE
from tellmost.selecting.arguments import check_rule
from tellmost.shapes import Float
from tellmost.targets import PotentialMaximizers, Targets


def check_word(value: Any, name: str, words: Sequence[str]) -> str:
    if value not in words:
        raise ValueError(f"{name} must be {' or '.join(map(repr, words))}; got {value!r}.")
    return str(value)


def check_constraints(
    objective: Any, constraints: Any, taken: Sequence[str]
) -> dict[str, Constraint]:
    """By name; names are columns of the history, so those of parameters are taken."""
    if not isinstance(objective, GP):
        raise TypeError(
            f"objective must be a tm.GP, such as tm.GP(tm.kernels.Matern(2.5), noise_std=0.1); "
            f"got {type(objective).__name__}."
        )
    if constraints is None:
        return {}
    if not isinstance(constraints, Mapping):
        raise TypeError(
            f"constraints must be given by name, {{'height': tm.Constraint(...)}}; got "
            f"{type(constraints).__name__}."
        )
    for name, constraint in constraints.items():
        if not isinstance(name, str) or name in (OBJECTIVE, STATUS, *taken):
            raise ValueError(
                f"a constraint must have a name of its own, which is not {OBJECTIVE!r}, "
                f"{STATUS!r} or that of a parameter or context; got {name!r}."
            )
        if not isinstance(constraint, Constraint):
            raise TypeError(
                f"constraints[{name!r}] must be a tm.Constraint(gp, at_least=...); got "
                f"{type(constraint).__name__}."
            )
    return dict(constraints)


def check_safe_rule(rule: Any, seed: int) -> Rule:
    """One that reads nothing but what is kept here."""
    checked = seeded(check_rule(rule), rule, seed)
    unknown = sorted(checked.needs - READABLE)
    if unknown:
        raise ValueError(
            f"rule {checked.name!r} reads {', '.join(unknown)}, which is not kept where targets "
            f"and safe set change each round; use 'vtl', 'itl', 'mm-itl', 'ctl', 'uncertainty' or "
            f"'random'."
        )
    return checked


def check_safe_targets(targets: Any) -> Targets:
    if targets is None:
        return PotentialMaximizers()
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
    if isinstance(search, type) or not isinstance(search, Search):
        raise TypeError(
            f"search must be SobolSet(), CoordinateLines() or RandomLines() of tellmost.safebo; "
            f"got {search!r}."
        )
    return search


def check_max_step(max_step: Any, space: Space) -> Float[Tensor, " d"] | None:
    """How far each parameter may move: one number for all, one each, or by name."""
    if max_step is None:
        return None
    if isinstance(max_step, Mapping):
        unknown = [name for name in max_step if name not in space.names]
        if unknown:
            raise ValueError(
                f"max_step names {unknown[0]!r}; the parameters are {', '.join(space.names)}."
            )
        steps = [max_step.get(name, float("inf")) for name in space.names]
        given = [check_positive(s, "max_step") if s != float("inf") else s for s in steps]
        return torch.tensor(given, dtype=torch.float64)
    if np.ndim(max_step) == 0:
        step = check_positive(max_step, "max_step")
        return torch.full((space.dimension,), step, dtype=torch.float64)
    values = check_vector(max_step, "max_step", space.dimension, "parameter")
    check_all_positive(values, "max_step")
    return values


def check_output_noise(noise_std: Any, outputs: Sequence[Output], space: Space) -> list[Any]:
    """For each output None, a number, one per row of the domain, or a function."""
    given = {} if noise_std is None else noise_std
    if not isinstance(given, Mapping):
        raise TypeError(
            "noise_std must be given by name, {'objective': ...}; one number for an output is "
            "the noise_std of its GP."
        )
    names = [name for output in outputs for name in output.names]
    for name in given:
        if name not in names:
            raise ValueError(f"noise_std names {name!r}; the outputs are {', '.join(names)}.")
    found = []
    for output in outputs:
        mine = [given[name] for name in output.names if name in given]
        if len(mine) > 1:
            words = ", ".join(map(repr, output.names))
            raise ValueError(f"noise_std: {words} are one function; name its noise once.")
        found.append(_check_noise(mine[0], output.names[0], space) if mine else None)
    return found


def _check_noise(noise_std: Any, name: str, space: Space) -> Any:
    if callable(noise_std):
        return noise_std
    if np.ndim(noise_std) == 0:
        return check_positive(noise_std, f"noise_std[{name!r}]")
    if space.rows is None:
        raise ValueError(f"noise_std[{name!r}] in a Box must be a number or a function of points.")
    values = check_vector(noise_std, f"noise_std[{name!r}]", len(space.rows), "domain row")
    check_all_positive(values, f"noise_std[{name!r}]")
    return values


def _refuse_unnamed(pair: tuple[Any, Any]) -> None:
    """(points, values) without names: a value must never be taken for a point that is safe."""
    if all(not isinstance(part, Mapping | Query) and np.ndim(part) > 0 for part in pair):
        raise TypeError(
            "safe_seed with values is (points, {'objective': [...], 'height': [...]}), values by "
            "name; several points alone are a list, [point, point]. Got a pair of arrays."
        )


def read_seeds(safe_seed: Any, space: Space) -> tuple[list[Seed], list[dict[str, Any]]]:
    """Declared points, and what is told of them."""
    if safe_seed is None:
        return [], []
    values: Mapping[str, Any] = {}
    is_pair = isinstance(safe_seed, tuple) and len(safe_seed) == 2
    if is_pair and isinstance(safe_seed[1], Mapping) and set(safe_seed[1]) != set(space.names):
        safe_seed, values = safe_seed
    elif is_pair:
        _refuse_unnamed(safe_seed)
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
    told = [{name: column[i] for name, column in columns.items()} for i in range(len(seeds))]
    return seeds, told if columns else []


def make_model(
    space: Space,
    objective: GP,
    constraints: Mapping[str, Constraint],
    *,
    confidence: Confidence,
    rule: Rule,
    noise_std: Any,
    is_minimized: bool,
    strategy: Strategy | None,
) -> Model:
    """All priors in units of their standard deviation over the domain, and all limits."""
    inside = space.rows if space.box is None else space.box.sobol(SOBOL_POINTS, 0)
    assert inside is not None
    inputs = with_context(inside, torch.zeros(len(space.contexts), dtype=torch.float64))
    outputs = gather_outputs(objective, constraints, inputs)
    return Model(
        outputs=tuple(outputs),
        sides=tuple(gather_sides(outputs, constraints)),
        lipschitz={name: one.slope for name, one in constraints.items()},
        confidence=confidence,
        rule=rule,
        noise_std=check_output_noise(noise_std, outputs, space),
        is_minimized=is_minimized,
        strategy=strategy,
    )


def noise_told(
    model: Model, number: int, row: int | None, where: Points, own: Mapping[str, float]
) -> float:
    """Standard deviation of a told value of an output, in its unit."""
    given = noise_of(model.outputs[number], own)
    if given is not None:
        return given
    stated = model.noise_std[number]
    if row is not None and not callable(stated) and np.ndim(stated) == 1:
        return float(stated[row])
    return float(model.noise_at(number, where)) ** 0.5
