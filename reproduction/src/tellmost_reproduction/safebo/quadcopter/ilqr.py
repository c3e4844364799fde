r"""Nominal controls: the cheapest flight without disturbance, by iLQR.

Each iteration makes the dynamics linear along a flight, :math:`\delta s_{t+1} = A_t \delta s_t +
B_t \delta u_t`, solves the quadratic problem that remains backwards in time (Li & Todorov 2004),

.. math:: \delta u_t = \alpha k_t + K_t \delta s_t,

and flies it for :math:`\alpha = 1, 1/2, 1/4, \dots`: the first that is cheaper is kept. The costs
are quadratic and convex, so no matrix needs regularization.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from tellmost.shapes import Float
from tellmost_reproduction.safebo.quadcopter.flight import (
    CONTROL_WEIGHTS,
    GOAL,
    HOVER,
    STATE_WEIGHTS,
    STEP_SECONDS,
    STEPS,
    TERMINAL_WEIGHT,
    advance,
    fly,
    total_cost,
)

GRADIENT_SETTLED = 1e-4
"""Norm of the cost's gradient at which iLQR takes its last step. Chosen because the first control
then has all published digits; a longer search lowers the cost by 2e-9, moves it by 1e-3."""


ITERATIONS = 100
SHORTENINGS = 0.5 ** torch.arange(16, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Plan:
    """A flight and what it costs."""

    states: Float[Tensor, "t 12"]
    controls: Float[Tensor, "s 4"]
    cost: float


@dataclass(frozen=True, eq=False)
class Correction:
    """How the controls should change: k, and K for where the flight then is."""

    ahead: Float[Tensor, "s 4"]
    back: Float[Tensor, "s 4 12"]


@dataclass(frozen=True, eq=False)
class Expansion:
    """Dynamics and costs to first order along a flight."""

    A: Float[Tensor, "s 12 12"]  # of the next state in the state
    B: Float[Tensor, "s 12 4"]  # and in the control
    of_state: Float[Tensor, "s 12"]  # slopes of the cost
    of_control: Float[Tensor, "s 4"]
    at_end: Float[Tensor, "12"]


def plan_controls() -> Plan:
    """Search the cheapest flight from controls that are all zero. It takes about a second."""
    idle = torch.zeros(STEPS, 4, dtype=torch.float64)
    plan = first_of(*fly(lambda step, state: idle[step], 1))
    for _ in range(ITERATIONS):
        around = expand(plan)
        plan = improve(plan, correct(around))
        if gradient_norm(around) < GRADIENT_SETTLED:
            return plan
    raise RuntimeError(f"iLQR did not settle in {ITERATIONS} iterations; cost {plan.cost:g}.")


def first_of(states: Float[Tensor, "b t 12"], controls: Float[Tensor, "b s 4"]) -> Plan:
    return Plan(states[0], controls[0], float(total_cost(states[0], controls[0])))


def improve(plan: Plan, correction: Correction) -> Plan:
    """The flight of the longest step that is cheaper."""

    def policy(step: int, state: Tensor) -> Tensor:
        along = SHORTENINGS[:, None] * correction.ahead[step]
        return plan.controls[step] + along + (state - plan.states[step]) @ correction.back[step].T

    states, controls = fly(policy, len(SHORTENINGS))
    is_cheaper = total_cost(states, controls) < plan.cost  # false for what is not a number
    if not bool(is_cheaper.any()):
        raise RuntimeError(
            f"no step of iLQR is cheaper than the flight it starts at: {plan.cost}."
        )
    best = int(is_cheaper.nonzero()[0])
    return first_of(states[best:], controls[best:])


def expand(plan: Plan) -> Expansion:
    slopes = torch.func.vmap(torch.func.jacfwd(advance, argnums=(0, 1)))
    A, B = slopes(plan.states[:-1], plan.controls)
    away = plan.states - GOAL
    return Expansion(
        A=A,
        B=B,
        of_state=2 * STEP_SECONDS * STATE_WEIGHTS * away[:-1],
        of_control=2 * STEP_SECONDS * CONTROL_WEIGHTS * (plan.controls - HOVER),
        at_end=2 * TERMINAL_WEIGHT * away[-1],
    )


def gradient_norm(around: Expansion) -> float:
    """The norm of the cost's gradient in all controls, with slopes carried backwards in time."""
    slope, gradient = around.at_end, []
    for t in reversed(range(STEPS)):
        gradient.append(around.of_control[t] + around.B[t].T @ slope)
        slope = around.of_state[t] + around.A[t].T @ slope
    return float(torch.stack(gradient).norm())


def correct(around: Expansion) -> Correction:
    r"""The best change of the controls if dynamics were linear: Riccati, backwards in time.

    With v and V the slope and curvature of the cost to go after a step,

    .. math::
        k = -Q_{uu}^{-1} (l_u + B^\top v), \quad K = -Q_{uu}^{-1} B^\top V A, \quad
        Q_{uu} = l_{uu} + B^\top V B.
    """
    slope, curvature = around.at_end, 2 * TERMINAL_WEIGHT * torch.eye(12, dtype=torch.float64)
    of_states, of_controls = (
        2 * STEP_SECONDS * W.diag() for W in (STATE_WEIGHTS, CONTROL_WEIGHTS)
    )
    ahead, back = [], []
    for t in reversed(range(STEPS)):
        A, B = around.A[t], around.B[t]
        Qu, Qux = around.of_control[t] + B.T @ slope, B.T @ curvature @ A
        Quu = of_controls + B.T @ curvature @ B
        k, K = (-torch.linalg.solve(Quu, torch.cat([Qu[:, None], Qux], dim=1))).split([1, 12], 1)
        slope = around.of_state[t] + A.T @ slope + Qux.T @ k[:, 0]
        curvature = of_states + A.T @ curvature @ A + Qux.T @ K
        curvature = (curvature + curvature.T) / 2  # rounding makes it lopsided
        ahead.append(k[:, 0])
        back.append(K)
    return Correction(torch.stack(ahead[::-1]), torch.stack(back[::-1]))
