"""The two ways in which the paper tunes the quadcopter: that of its text, that of its code.

They differ in beta alone here. The text observes the safe seed once beforehand, after which no
point is known to be safe: 0.5 less ten standard deviations of 0.1 is negative. Ten observations,
as in the code, are the default of both; so are the code's disturbance and its weights.

Under the text's beta of 10 the safe set of all who go by bounds stays the seed for ever. With a
lengthscale of 0.1 the next point of a line, at least 0.005 away, keeps a standard deviation of
0.064 however often the seed is observed, and 0.5 less ten of these is negative too. Sets that grow
by slopes do open, if the slopes are as small as the paper's, which do not hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellmost.kernels import Matern
from tellmost.posterior.gp import GP
from tellmost.safebo import Constraint, CoordinateLines, Lipschitz, SafeOptimizer
from tellmost.safebo.strategies import Strategy
from tellmost.targets.box import Box
from tellmost_reproduction.safebo.quadcopter.task import SAFE_SEED, Quadcopter
from tellmost_reproduction.safebo.tasks import NOISE_STD

LENGTHSCALE = 0.1  # in raw units, for gains from 0 to 20
LINE_POINTS = 2_000
ROUNDS = 100


@dataclass(frozen=True)
class Configuration:
    """How confident the bounds are, and what is known beforehand."""

    name: str
    beta: float
    prior_observations: int = 10  # of the safe seed


TEXT = Configuration("text", beta=10.0)
CODE = Configuration("code", beta=1.0)
BY_NAME: Mapping[str, Configuration] = {one.name: one for one in (TEXT, CODE)}


def make_optimizer(
    configuration: Configuration,
    seed: int,
    rule: Any = "vtl",
    *,
    task: Quadcopter,
    rng: np.random.Generator,
    targets: Any = None,
    strategy: Strategy | None = None,
    lipschitz: float | None = None,
) -> SafeOptimizer:
    """With the paper's priors on lines through a box, told the safe seed's observations.

    ``lipschitz`` of the constraint, in the L1 norm: with it the seed is declared safe, from which
    methods that need the constant grow their safe set.
    """
    kernel = Matern(2.5, LENGTHSCALE)
    slope = None if lipschitz is None else Lipschitz(lipschitz, norm=1)
    height = GP(kernel, mean=-0.5, noise_std=NOISE_STD)
    optimizer = SafeOptimizer(
        Box(4 * [0.0], 20.0),
        objective=GP(kernel, noise_std=NOISE_STD),
        constraints={"g": Constraint(height, at_least=0.0, lipschitz=slope)},
        safe_seed=None if lipschitz is None else np.array([SAFE_SEED]),
        beta=configuration.beta,
        rule=rule,
        targets=targets,
        strategy=strategy,
        search=CoordinateLines(LINE_POINTS),
        on_violation="continue",
        seed=seed,
    )
    for _ in range(configuration.prior_observations):
        optimizer.tell(np.array(SAFE_SEED), **task.measure(np.array(SAFE_SEED), rng))
    return optimizer
