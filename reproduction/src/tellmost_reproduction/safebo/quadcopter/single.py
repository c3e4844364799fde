"""One flight in plain numbers: tensors of a single row take ten times as long.

Equations and signs are those of ``dynamics``, ``costs`` and ``task``; a flight that leaves the
numbers is handed to these. Flights that tumble amplify the last digits: the least height of one in
a hundred points of [0, 2]^4 differs from theirs, by up to 0.3; whether they crash does not.
"""

from functools import lru_cache
from math import cos, isfinite, sin, sqrt, tanh

import numpy as np

from tellmost_reproduction.safebo.quadcopter.costs import (
    CONTROL_WEIGHTS,
    GOAL,
    HOVER,
    STATE_WEIGHTS,
    TERMINAL_WEIGHT,
)
from tellmost_reproduction.safebo.quadcopter.dynamics import (
    GRAVITY,
    INERTIA,
    INERTIA_INVERSE,
    MASS,
    START,
    STEP_SECONDS,
    UNITS,
)
from tellmost_reproduction.safebo.quadcopter.task import ERROR_RATES, ERRORS, Quadcopter

State = list[float]

UNIT = UNITS.tolist()
(IXX, _, IXZ), (_, IYY, _), (_, _, IZZ) = INERTIA.tolist()
(JXX, _, JXZ), (_, JYY, _), (_, _, JZZ) = INERTIA_INVERSE.tolist()
GOAL_STATE, WEIGHTS = GOAL.tolist(), STATE_WEIGHTS.tolist()


@lru_cache(maxsize=4_096)
def fly_once(task: Quadcopter, x: tuple[float, ...]) -> tuple[float, float]:
    """f and g, as ``task.evaluate`` has them; most points are asked about several times."""
    cost, lowest = total(task, x)
    if not isfinite(cost):
        f, g = task.evaluate(np.array([x]))
        return float(f[0]), float(g[0])
    return -tanh((cost - 100) / 100), lowest - 0.5


def total(task: Quadcopter, x: tuple[float, ...]) -> tuple[float, float]:
    """J, and the least height above ground; J is not finite where a state is not."""
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
