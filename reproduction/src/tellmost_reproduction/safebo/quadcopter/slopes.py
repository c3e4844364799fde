"""Lipschitz constants for methods that need them.

The paper's oracle constants are printed numbers. Its estimates come from one draw of the prior on
the segment from the origin to the safe seed; f and g have the same kernel, and constant means,
so each is estimated from a draw of its own.
"""

import numpy as np
import torch

from tellmost.kernels import Matern
from tellmost_reproduction.safebo.quadcopter.configurations import LENGTHSCALE
from tellmost_reproduction.safebo.quadcopter.task import SAFE_SEED

ORACLE = (5.877, 5.514)
"""Of f and g, in the L1 norm, as the paper has them. They are no bounds: on the lines of a round g
falls from 0.5 to -0.5 between two neighbours, 0.01 apart, and f has slopes above 100."""

SEGMENT_POINTS = 1_000
"""A tenth of a lengthscale apart, which is about as fine as the lines of a round."""


def estimate_slopes(rng: np.random.Generator) -> tuple[float, float]:
    """The steepest slopes of a drawn f and a drawn g on the segment."""
    shares = torch.linspace(0.0, 1.0, SEGMENT_POINTS, dtype=torch.float64)
    points = shares[:, None] * torch.tensor(SAFE_SEED, dtype=torch.float64)
    kernel = Matern(2.5, LENGTHSCALE)
    root = torch.linalg.cholesky(kernel.block(points, points))
    draws = root @ torch.from_numpy(rng.standard_normal((SEGMENT_POINTS, 2)))
    spacing = points.diff(dim=0).abs().sum(dim=1, keepdim=True)
    f, g = (draws.diff(dim=0).abs() / spacing).amax(dim=0).tolist()
    return f, g
