"""The quadcopter as a run needs it: in one of its configurations, with Lipschitz constants."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tellmost.safebo import SafeOptimizer
from tellmost.safebo.strategies import Strategy
from tellmost.shapes import Float
from tellmost_reproduction.safebo.quadcopter.configurations import (
    LINE_POINTS,
    ROUNDS,
    Configuration,
    make_optimizer,
)
from tellmost_reproduction.safebo.quadcopter.single import fly_once
from tellmost_reproduction.safebo.quadcopter.slopes import ORACLE, estimate_slopes
from tellmost_reproduction.safebo.quadcopter.task import Quadcopter
from tellmost_reproduction.safebo.tasks import NOISE_STD, Constants

FALL = 2 * (LINE_POINTS - 1) / 20.0
"""The true constant of g on all lines: it falls by 1 at most, and no two points are nearer to each
other than half a step, which is how far the seed's 10 is from its neighbours."""


@dataclass(frozen=True, eq=False)
class Tuning:
    """Gains in [0, 20]^4, searched line by line."""

    configuration: Configuration
    task: Quadcopter
    rounds: int = ROUNDS

    @property
    def name(self) -> str:
        return f"quadcopter-{self.configuration.name}"

    def optimizer(
        self,
        rng: np.random.Generator,
        *,
        rule: Any = "vtl",
        targets: Any = None,
        strategy: Strategy | None = None,
        lipschitz: Constants | None = None,
        seed: int = 0,
    ) -> SafeOptimizer:
        slope = None if lipschitz is None else self.constant(lipschitz, seed)
        return make_optimizer(
            self.configuration,
            seed,
            rule,
            task=self.task,
            rng=rng,
            targets=targets,
            strategy=strategy,
            lipschitz=slope,
        )

    def constant(self, which: Constants, seed: int) -> float:
        """Of g; the estimate is that of one draw of the prior, for each seed its own."""
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
        """Of the points of the round, which are other ones each time; the truth is not flown."""
        return len(np.unique(optimizer.points[optimizer.safe_mask], axis=0)), 0
