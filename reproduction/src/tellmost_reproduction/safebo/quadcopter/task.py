r"""The tuning task: gains of a feedback that makes up for an unknown disturbance.

Hübotter et al. 2024, App. "Safe Controller Tuning for Quadcopter". The nominal controls are
replayed, and what the quadcopter gets is, with :math:`e = (z, \phi, \theta, \psi)` less its goal,
:math:`\dot e = (v_z, p, q, r)` and critical damping,

.. math:: u_t + (x^* - x)\, e + 2 (\sqrt{x^*} - \sqrt{x})\, \dot e.

This sign stabilizes; the paper prints the other. The cost J counts the nominal controls, not what
feedback adds to them. Objective and constraint are

.. math:: f(x) = -\tanh((J - 100) / 100), \qquad g(x) = \min_t \max(0, z_t) - 0.5 \ge 0.

A flight that ends in what is no number is on the ground, and f is -1. Flights start a metre up, so
g is 0.5 at most; nearly all have 0.5 or -0.5, so this constraint is in effect binary.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.shapes import Float
from tellmost_reproduction.safebo.quadcopter.costs import GOAL, total_cost
from tellmost_reproduction.safebo.quadcopter.dynamics import fly
from tellmost_reproduction.safebo.tasks import NOISE_STD

SAFE_SEED = (0.0, 0.0, 0.0, 10.0)
DISTURBANCE = (0.0065396, 0.1491868, 0.1411171, 2.7854750)
"""That of the published code, which has one for all seeds."""

ERRORS = [2, 6, 7, 8]  # of the states: what feedback reacts to
ERROR_RATES = [5, 9, 10, 11]


@dataclass(frozen=True, eq=False)
class Quadcopter:
    """What is to be tuned: nominal controls, from ``plan_controls()``, and a disturbance."""

    controls: Float[Tensor, "s 4"]
    disturbance: tuple[float, ...] = DISTURBANCE

    @staticmethod
    def draw(controls: Float[Tensor, "s 4"], rng: np.random.Generator) -> "Quadcopter":
        """With a disturbance from chi-squared(1), drawn until the safe seed is safe."""
        while True:
            task = Quadcopter(controls, tuple(rng.chisquare(1.0, size=4).tolist()))
            if task.evaluate(np.array([SAFE_SEED]))[1][0] >= 0:
                return task

    @torch.no_grad()
    def evaluate(
        self, x: Float[np.ndarray, "n 4"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """f and g without noise, of many gains at once."""
        states = self.fly(torch.as_tensor(x, dtype=torch.float64))
        f = -torch.tanh((total_cost(states, self.controls) - 100) / 100)
        height = torch.nan_to_num(states[..., 2].clamp_min(0), nan=0.0, posinf=torch.inf)
        g = height.amin(dim=1) - 0.5
        return torch.nan_to_num(f, nan=-1.0).numpy(), g.numpy()

    def fly(self, x: Float[Tensor, "n 4"]) -> Float[Tensor, "n t 12"]:
        """The states of the disturbed quadcopter under each feedback."""
        ideal = torch.tensor(self.disturbance, dtype=torch.float64)
        gain, damping = ideal - x, 2 * (ideal.sqrt() - x.sqrt())

        def policy(step: int, state: Tensor) -> Tensor:
            error, rate = (state - GOAL)[:, ERRORS], state[:, ERROR_RATES]
            return self.controls[step] + gain * error + damping * rate

        return fly(policy, len(x))[0]

    def measure(self, x: Float[np.ndarray, "4"], rng: np.random.Generator) -> dict[str, Any]:
        """Noisy values of a point, as the optimizer is told them."""
        f, g = self.evaluate(np.asarray(x)[None])
        noise = NOISE_STD * rng.standard_normal(2)
        return {"objective": float(f[0] + noise[0]), "constraints": {"g": float(g[0] + noise[1])}}

    def regret(self, x: Float[np.ndarray, "4"]) -> float:
        """Against gains equal to the disturbance, which cancel it.

        Since feedback is not counted, these have a slope: near them f is larger by up to 5e-10.
        """
        f, _ = self.evaluate(np.array([self.disturbance, np.asarray(x)]))
        return float(f[0] - f[1])
