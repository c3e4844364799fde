"""The quadcopter as a run needs it: its priors, its Lipschitz constants, and what is observed.

The paper tunes it in two ways, that of its text (beta 10) and that of its code (beta 1). They
differ in beta alone here. The text observes the safe seed once beforehand, after which no point is
known to be safe: 0.5 less ten standard deviations of 0.1 is negative. So both observe it ten
times, as in the code, and both have the code's disturbance and weights.

Under the text's beta of 10 the safe set of all who go by bounds stays the seed for ever. With a
lengthscale of 0.1 the next point of a line, at least 0.005 away, keeps a standard deviation of
0.064 however often the seed is observed, and 0.5 less ten of these is negative too. Sets that grow
by slopes do open if the slopes are as small as the paper's, which do not hold.

The paper's oracle constants are printed numbers. Its estimates come from one draw of the prior on
the segment from the origin to the safe seed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tellmost.kernels import Matern
from tellmost.posterior.gp import GP
from tellmost.safebo import Constraint, CoordinateLines, Lipschitz, SafeOptimizer
from tellmost.shapes import Float
from tellmost.targets.box import Box
from tellmost_reproduction.safebo.methods import BY_KEY, Constants, Method
from tellmost_reproduction.safebo.quadcopter.task import SAFE_SEED, Quadcopter, fly_once
from tellmost_reproduction.safebo.tasks import NOISE_STD

TEXT_BETA, CODE_BETA = 10.0, 1.0
LENGTHSCALE = 0.1  # in raw units, for gains from 0 to 20
LINE_POINTS = 2_000

ORACLE = (5.877, 5.514)
"""The paper's constants of f and g in the L1 norm. They are no bounds: on the lines of a round g
falls from 0.5 to -0.5 between two neighbours, 0.01 apart, and f has slopes above 100."""

SEGMENT_POINTS = 1_000
"""Points a tenth of a lengthscale apart, which is about as fine as the lines of a round."""


def estimate_slopes(rng: np.random.Generator) -> tuple[float, float]:
    """The steepest slopes on the segment of a drawn f and g, which have the same kernel."""
    shares = torch.linspace(0.0, 1.0, SEGMENT_POINTS, dtype=torch.float64)
    points = shares[:, None] * torch.tensor(SAFE_SEED, dtype=torch.float64)
    kernel = Matern(2.5, LENGTHSCALE)
    root = torch.linalg.cholesky(kernel.block(points, points))
    draws = root @ torch.from_numpy(rng.standard_normal((SEGMENT_POINTS, 2)))
    spacing = points.diff(dim=0).abs().sum(dim=1, keepdim=True)
    f, g = (draws.diff(dim=0).abs() / spacing).amax(dim=0).tolist()
    return f, g


FALL = 2 * (LINE_POINTS - 1) / 20.0
"""The true constant of g on all lines: it falls by 1 at most, and no two points are nearer to each
other than half a step, which is how far the seed's 10 is from its neighbours."""


@dataclass(frozen=True, eq=False)
class Tuning:
    """Gains in [0, 20]^4, searched line by line."""

    name: str
    beta: float
    task: Quadcopter
    prior_observations: int = 10  # of the safe seed
    rounds: int = 100

    def optimizer(
        self, rng: np.random.Generator, method: Method = BY_KEY["vtl"], *, seed: int = 0
    ) -> SafeOptimizer:
        """Make the method's optimizer with the paper's priors, and tell it the observations.

        Methods that grow a safe set by Lipschitz constants grow it from the seed, so it is
        declared safe to them.
        """
        kernel, which = Matern(2.5, LENGTHSCALE), method.lipschitz
        slope = None if which is None else Lipschitz(self.constant(which, seed), norm=1)
        height = GP(kernel, mean=-0.5, noise_std=NOISE_STD)
        optimizer = SafeOptimizer(
            Box(4 * [0.0], 20.0),
            objective=GP(kernel, noise_std=NOISE_STD),
            constraints={"g": Constraint(height, at_least=0.0, lipschitz=slope)},
            safe_seed=None if slope is None else np.array([SAFE_SEED]),
            beta=self.beta,
            rule=method.rule,
            targets=None if method.strategy else method.targets,
            strategy=method.strategy,
            search=CoordinateLines(LINE_POINTS),
            on_violation="continue",
            on_miscalibration="log",
            suspect_z=np.inf,
            seed=seed,
        )
        for _ in range(self.prior_observations):
            optimizer.tell(np.array(SAFE_SEED), **self.measure(np.array(SAFE_SEED), rng))
        return optimizer

    def constant(self, which: Constants, seed: int) -> float:
        """The constant of g. Each seed has an estimate of its own, from one draw of the prior."""
        if which == "estimated":
            return estimate_slopes(np.random.default_rng([seed, 1]))[1]
        return ORACLE[1] if which == "oracle" else FALL

    def measure(self, x: Float[np.ndarray, "4"], rng: np.random.Generator) -> dict[str, Any]:
        f, g = fly_once(self.task, tuple(x.tolist()))
        noise = NOISE_STD * rng.standard_normal(2)
        return {"objective": f + float(noise[0]), "constraints": {"g": g + float(noise[1])}}

    def regret(self, x: Float[np.ndarray, "4"]) -> float:
        best, _ = fly_once(self.task, self.task.disturbance)
        return best - fly_once(self.task, tuple(x.tolist()))[0]

    def violates(self, x: Float[np.ndarray, "4"]) -> bool:
        return fly_once(self.task, tuple(x.tolist()))[1] < 0

    def count_safe(self, optimizer: SafeOptimizer) -> tuple[int, int]:
        """Count among the points of the round, which change. The truth is not flown."""
        return len(np.unique(optimizer.points[optimizer.safe_mask], axis=0)), 0
