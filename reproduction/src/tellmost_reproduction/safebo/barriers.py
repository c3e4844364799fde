r"""A reconstruction: jumping past local barriers.

Hübotter et al. 2024, App. "Jumping Past Local Barriers", prints a linear kernel on a sin
transform, a prior mean 0.1 x, and that three disjoint regions, of two of the three safe bumps, are
known to be safe at first. Its code does not have the experiment; domain, noise and beta are ours:

.. math::
    f(x) = \sin x + 0.1 x \ge 0, \quad x \in [-10, 10], \qquad
    f \sim w \sin x + 0.1 x, \quad w \sim N(0, 1).

With beta = 3, known to be safe is where :math:`0.1 x \ge 3 |\sin x|`: around pi, two pi and three
pi, of which the latter two belong to one bump. The third bump, around -3/2 pi, is safe once
:math:`w \ge 0.47` is known. No path of safe points leads there, but any other point tells of w,
and the more the larger :math:`|\sin x|`. So the kernel reaches it, and a Lipschitz constant, which
grows safe sets from where they are, never does; that of f is 1.1.
"""

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels import FeatureMap
from tellmost.posterior.gp import GP
from tellmost.shapes import Bool, Float
from tellmost_reproduction.safebo.tasks import NOISE_STD, Task

BETA = 3.0
SLOPE = 0.1  # of the prior mean
STEEPEST = 1.0 + SLOPE


def barriers() -> Task:
    """One function is objective and constraint; nothing is observed beforehand."""
    x = np.linspace(-10.0, 10.0, 500)
    f = np.sin(x) + SLOPE * x
    return Task(
        name="barriers",
        domain=x[:, None],
        f=f,
        g=f,
        is_shared=True,
        starts=np.array([], dtype=np.int64),
        draws_start=False,
        beta=BETA,
        rounds=100,
        lipschitz=(STEEPEST, STEEPEST),
        paper_lipschitz=(STEEPEST, STEEPEST),  # the paper prints none
        estimated_lipschitz=(STEEPEST, STEEPEST),
        prior=GP(FeatureMap(torch.sin), mean=drift, noise_std=NOISE_STD),
    )


def drift(points: Float[Tensor, "n 1"]) -> Float[Tensor, " n"]:
    """The prior mean."""
    return SLOPE * points[:, 0]


def third_bump(task: Task) -> Bool[np.ndarray, " n"]:
    """The safe points that lie beyond the barrier."""
    return task.is_safe & (task.domain[:, 0] < 0)
