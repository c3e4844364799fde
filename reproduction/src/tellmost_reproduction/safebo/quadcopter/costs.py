r"""What a flight costs: how far from the goal, and how far from hovering.

.. math::
    J = \sum_{t < T} \Delta \big(\|s_t - s^*\|_Q^2 + \|u_t - u^*\|_R^2\big) + 5 \|s_T - s^*\|^2

Hübotter et al. 2024, App. "Safe Controller Tuning for Quadcopter". The paper prints neither
the length of a step, :math:`\Delta`, nor the terminal cost, and 0.1 for the tenth entry of Q. With
all three as here the published numbers come out; with 0.1 the least J is 4.1419, not 4.2197.
"""

import torch
from torch import Tensor

from tellmost.shapes import Float
from tellmost_reproduction.safebo.quadcopter.dynamics import STEP_SECONDS

GOAL = torch.tensor([0.0, 0.0, 2.0] + 9 * [0.0], dtype=torch.float64)
HOVER = torch.tensor([1.766, 0.0, 0.0, 0.0], dtype=torch.float64)

STATE_WEIGHTS = torch.tensor(6 * [1.0] + 3 * [0.1] + [1.0, 0.1, 0.1], dtype=torch.float64)
CONTROL_WEIGHTS = 0.01 * torch.tensor([5.0, 0.8, 0.8, 0.3], dtype=torch.float64)
TERMINAL_WEIGHT = 5.0


def total_cost(
    states: Float[Tensor, "*b t 12"], controls: Float[Tensor, "*#b s 4"]
) -> Float[Tensor, "*b"]:
    """J of each flight; not a number where it ended in infinities. Controls may serve many."""
    away = (states[..., :-1, :] - GOAL).square() @ STATE_WEIGHTS
    effort = (controls - HOVER).square() @ CONTROL_WEIGHTS
    terminal = TERMINAL_WEIGHT * (states[..., -1, :] - GOAL).square().sum(dim=-1)
    return STEP_SECONDS * (away + effort).sum(dim=-1) + terminal
