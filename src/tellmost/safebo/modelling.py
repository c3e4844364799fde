"""From what the user states to a model, and to the noise of a told value."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from tellmost.kernels.kernel import Points
from tellmost.numerics import SOBOL_POINTS
from tellmost.posterior.gp import GP
from tellmost.rules import Rule
from tellmost.safebo.arguments import check_output_noise
from tellmost.safebo.confidence import Confidence
from tellmost.safebo.constraints import Constraint
from tellmost.safebo.outputs import gather_outputs, gather_sides
from tellmost.safebo.spaces import Space, with_context
from tellmost.safebo.stages import Model
from tellmost.safebo.strategies import Strategy
from tellmost.safebo.telling import noise_of


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
