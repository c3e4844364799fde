r"""How a quadcopter flies: forces, rotations, and explicit Euler steps.

States are position, velocity, the Euler angles :math:`\phi, \theta, \psi` and the body rates
:math:`\omega = (p, q, r)`; controls are the thrust F and three moments, in units of ``UNITS``.

.. math::
    m \ddot x = R\,(0, 0, F)^\top - (0, 0, m g)^\top, \qquad
    E(\phi, \theta)\,(\dot\phi, \dot\theta, \dot\psi)^\top = \omega, \qquad
    I \dot\omega = M - \omega \times I \omega

R is the Z-X-Y rotation, :math:`R_z(\psi) R_x(\phi) R_y(\theta)`; the rows of E are
:math:`(\cos\theta, 0, -\cos\phi \sin\theta)`, :math:`(0, 1, \sin\phi)` and
:math:`(\sin\theta, 0, \cos\phi \cos\theta)`. Hübotter et al. 2024, App. "Safe Controller Tuning
for Quadcopter"; nothing limits the controls, so a bad controller ends in infinities.

What a flight costs: how far from the goal, and how far from hovering.

.. math::
    J = \sum_{t < T} \Delta \big(\|s_t - s^*\|_Q^2 + \|u_t - u^*\|_R^2\big) + 5 \|s_T - s^*\|^2

Hübotter et al. 2024, App. "Safe Controller Tuning for Quadcopter". The paper prints neither
the length of a step, :math:`\Delta`, nor the terminal cost, and 0.1 for the tenth entry of Q. With
all three as here the published numbers come out; with 0.1 the least J is 4.1419, not 4.2197.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from tellmost.shapes import Float

MASS = 0.18  # kg
GRAVITY = 9.81  # m / s^2
STEPS = 100
STEP_SECONDS = 0.03

UNITS = torch.tensor([1.0, 2e-4, 2e-4, 1e-3], dtype=torch.float64)
"""What a control of one is: a newton of thrust, and newton metres of each moment."""

INERTIA = torch.tensor(
    [[2.5e-4, 0.0, 2.55e-6], [0.0, 2.32e-4, 0.0], [2.55e-6, 0.0, 3.738e-4]], dtype=torch.float64
)
INERTIA_INVERSE = torch.linalg.inv(INERTIA)

START = torch.tensor([1.0, 1.0, 1.0] + 9 * [0.0], dtype=torch.float64)

Policy = Callable[[int, Tensor], Tensor]
"""Controls for the number of a step and the states at it."""


def advance(state: Float[Tensor, "*b 12"], control: Float[Tensor, "*b 4"]) -> Tensor:
    """The state a step later."""
    velocity, angles, rates = state[..., 3:6], state[..., 6:9], state[..., 9:]
    forces = control * UNITS
    thrust, moments = forces[..., :1], forces[..., 1:]
    weight = torch.tensor([0.0, 0.0, GRAVITY], dtype=state.dtype)
    acceleration = thrust * upward(angles) / MASS - weight
    twist = moments - torch.linalg.cross(rates, rates @ INERTIA)
    spin = twist @ INERTIA_INVERSE  # forward derivatives of torch.linalg.solve are nan in vmap
    change = torch.cat([velocity, acceleration, angle_rates(angles, rates), spin], dim=-1)
    return state + STEP_SECONDS * change


def upward(angles: Float[Tensor, "*b 3"]) -> Tensor:
    """The direction of the thrust: the last column of R."""
    (s_phi, s_theta, s_psi), (c_phi, c_theta, c_psi) = sines_and_cosines(angles)
    x = c_psi * s_theta + s_psi * s_phi * c_theta
    y = s_psi * s_theta - c_psi * s_phi * c_theta
    return torch.stack([x, y, c_phi * c_theta], dim=-1)


def angle_rates(angles: Float[Tensor, "*b 3"], rates: Float[Tensor, "*b 3"]) -> Tensor:
    """The Euler angles' rates, E solved by hand. It is singular where phi is a right angle."""
    (s_phi, s_theta, _), (c_phi, c_theta, _) = sines_and_cosines(angles)
    p, q, r = rates.unbind(dim=-1)
    psi_rate = (c_theta * r - s_theta * p) / c_phi
    return torch.stack([c_theta * p + s_theta * r, q - s_phi * psi_rate, psi_rate], dim=-1)


def sines_and_cosines(angles: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    return angles.sin().unbind(dim=-1), angles.cos().unbind(dim=-1)


def fly(policy: Policy, count: int) -> tuple[Float[Tensor, "b t 12"], Float[Tensor, "b s 4"]]:
    """Fly ``count`` flights from ``START`` at once: states, one more than steps, and controls."""
    states, controls = [START.expand(count, -1)], []
    for step in range(STEPS):
        controls.append(policy(step, states[-1]).expand(count, -1))
        states.append(advance(states[-1], controls[-1]))
    return torch.stack(states, dim=1), torch.stack(controls, dim=1)


GOAL = torch.tensor([0.0, 0.0, 2.0] + 9 * [0.0], dtype=torch.float64)
HOVER = torch.tensor([1.766, 0.0, 0.0, 0.0], dtype=torch.float64)

STATE_WEIGHTS = torch.tensor(6 * [1.0] + 3 * [0.1] + [1.0, 0.1, 0.1], dtype=torch.float64)
CONTROL_WEIGHTS = 0.01 * torch.tensor([5.0, 0.8, 0.8, 0.3], dtype=torch.float64)
TERMINAL_WEIGHT = 5.0


def total_cost(
    states: Float[Tensor, "*b t 12"], controls: Float[Tensor, "*#b s 4"]
) -> Float[Tensor, "*b"]:
    """J of each flight, or not a number if it ended in infinities. Controls may serve many."""
    away = (states[..., :-1, :] - GOAL).square() @ STATE_WEIGHTS
    effort = (controls - HOVER).square() @ CONTROL_WEIGHTS
    terminal = TERMINAL_WEIGHT * (states[..., -1, :] - GOAL).square().sum(dim=-1)
    return STEP_SECONDS * (away + effort).sum(dim=-1) + terminal
