r"""The tuning task: gains of a feedback that makes up for an unknown disturbance.

Hübotter et al. 2024, App. "Safe Controller Tuning for Quadcopter". The nominal controls are
replayed, and what the quadcopter gets is, with :math:`e = (z, \phi, \theta, \psi)` less its goal,
:math:`\dot e = (v_z, p, q, r)` and critical damping,

.. math:: u_t + (x^* - x)\, e + 2 (\sqrt{x^*} - \sqrt{x})\, \dot e.

This sign stabilizes; the paper prints the other. The cost J counts the nominal controls, not what
feedback adds to them. Objective and constraint are

.. math:: f(x) = -\tanh((J - 100) / 100), \qquad g(x) = \min_t \max(0, z_t) - 0.5 \ge 0.

A flight that ends in what is no number is on the ground, and f is -1. Flights start a metre up, so
g is 0.5 at most. Nearly all have 0.5 or -0.5, so this constraint is in effect binary. With gains
equal to the disturbance f is best, up to 5e-10, since feedback is not counted.

``fly_once`` computes one flight in plain numbers, since tensors of a single row take ten times as
long. A flight that leaves the numbers is handed to the tensors. Flights that tumble amplify the
last digits: the least height of one in a hundred points of [0, 2]^4 differs from the tensors' by
up to 0.3; whether they crash does not.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import cos, isfinite, sin, sqrt, tanh

import numpy as np
import torch
from torch import Tensor

from tellmost.shapes import Float
from tellmost_reproduction.safebo.quadcopter.flight import (
    CONTROL_WEIGHTS,
    GOAL,
    GRAVITY,
    HOVER,
    INERTIA,
    INERTIA_INVERSE,
    MASS,
    START,
    STATE_WEIGHTS,
    STEP_SECONDS,
    TERMINAL_WEIGHT,
    UNITS,
    fly,
    total_cost,
)

SAFE_SEED = (0.0, 0.0, 0.0, 10.0)
DISTURBANCE = (0.0065396, 0.1491868, 0.1411171, 2.7854750)
"""The disturbance of the published code, which has one for all seeds."""

ERRORS = [2, 6, 7, 8]  # of the states: what feedback reacts to
ERROR_RATES = [5, 9, 10, 11]


@dataclass(frozen=True, eq=False)
class Quadcopter:
    """What is to be tuned: nominal controls, from ``plan_controls()``, and a disturbance."""

    controls: Float[Tensor, "s 4"]
    disturbance: tuple[float, ...] = DISTURBANCE

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


State = list[float]

UNIT = UNITS.tolist()
(IXX, _, IXZ), (_, IYY, _), (_, _, IZZ) = INERTIA.tolist()
(JXX, _, JXZ), (_, JYY, _), (_, _, JZZ) = INERTIA_INVERSE.tolist()
GOAL_STATE, WEIGHTS = GOAL.tolist(), STATE_WEIGHTS.tolist()


@lru_cache(maxsize=4_096)
def fly_once(task: Quadcopter, x: tuple[float, ...]) -> tuple[float, float]:
    """f and g, as ``task.evaluate`` has them. Most points are asked about several times."""
    cost, lowest = total(task, x)
    if not isfinite(cost):
        f, g = task.evaluate(np.array([x]))
        return float(f[0]), float(g[0])
    return -tanh((cost - 100) / 100), lowest - 0.5


def total(task: Quadcopter, x: tuple[float, ...]) -> tuple[float, float]:
    """J and the least height above ground. J is not finite if a state is not."""
    parts = list(zip(x, task.disturbance, strict=True))
    gains = [ideal - own for own, ideal in parts]
    damping = [2 * (sqrt(ideal) - sqrt(own)) for own, ideal in parts]
    effort = (task.controls - HOVER).square() @ CONTROL_WEIGHTS
    running, state = STEP_SECONDS * float(effort.sum()), START.tolist()
    lowest = max(0.0, state[2])
    for nominal in task.controls.tolist():
        away = [s - goal for s, goal in zip(state, GOAL_STATE, strict=True)]
        running += STEP_SECONDS * sum(w * a * a for w, a in zip(WEIGHTS, away, strict=True))
        control = [
            u + gain * away[error] + damp * state[rate]
            for u, gain, damp, error, rate in zip(
                nominal, gains, damping, ERRORS, ERROR_RATES, strict=True
            )
        ]
        state = advance_once(state, control)
        lowest = min(lowest, max(0.0, state[2]))
        if not all(map(isfinite, state)):
            return float("inf"), 0.0
    last = [s - goal for s, goal in zip(state, GOAL_STATE, strict=True)]
    return running + TERMINAL_WEIGHT * sum(a * a for a in last), lowest


def advance_once(state: State, control: list[float]) -> State:
    """The state a step later."""
    _, _, _, vx, vy, vz, phi, theta, psi, p, q, r = state
    thrust, *moments = (u * unit for u, unit in zip(control, UNIT, strict=True))
    s_phi, s_theta, s_psi = sin(phi), sin(theta), sin(psi)
    c_phi, c_theta, c_psi = cos(phi), cos(theta), cos(psi)
    push = thrust / MASS
    psi_rate = (c_theta * r - s_theta * p) / c_phi
    hx, hy, hz = IXX * p + IXZ * r, IYY * q, IXZ * p + IZZ * r
    mx = moments[0] - (q * hz - r * hy)
    my = moments[1] - (r * hx - p * hz)
    mz = moments[2] - (p * hy - q * hx)
    change = (
        *(vx, vy, vz),
        push * (c_psi * s_theta + s_psi * s_phi * c_theta),
        push * (s_psi * s_theta - c_psi * s_phi * c_theta),
        push * (c_phi * c_theta) - GRAVITY,
        *(c_theta * p + s_theta * r, q - s_phi * psi_rate, psi_rate),
        *(JXX * mx + JXZ * mz, JYY * my, JXZ * mx + JZZ * mz),
    )
    return [s + STEP_SECONDS * rate for s, rate in zip(state, change, strict=True)]
