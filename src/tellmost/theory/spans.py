r"""Samples that determine f on the whole sample space, and how well they do.

Hübotter et al. 2024, App. "Existence of an Approximate Markov Boundary" and "Generalization to
Continuous S for Finite Dimensional RKHSs".
"""

from math import inf

import torch
from torch import Tensor

from tellmost.kernels.composed import feature_form
from tellmost.numerics import RANK_TOLERANCE
from tellmost.posterior.function_space import FunctionPosterior
from tellmost.shapes import Int
from tellmost.theory.setting import Setting


def spanning_rows(setting: Setting) -> Int[Tensor, " r"]:
    """Rows that determine f on the pool: a basis for inner products, else all different ones."""
    if feature_form(setting.kernel) is None:
        points = setting.pool.reshape(len(setting.pool), -1)
        _, group = torch.unique(points, dim=0, return_inverse=True)
        numbers = group.tolist()
        return torch.tensor(sorted({number: row for row, number in enumerate(numbers)}.values()))
    posterior, chosen = FunctionPosterior(setting.kernel, setting.pool.device), list[int]()
    enough = RANK_TOLERANCE * float(setting.kernel.diagonal(setting.pool).max())
    while float((left := posterior.variance(setting.pool)).max()) > enough:
        chosen.append(int(left.argmax()))
        posterior.observe(setting.pool[chosen[-1] : chosen[-1] + 1], 0.0)
    return torch.tensor(chosen, dtype=torch.int64)


def conditioning(setting: Setting, rows: Int[Tensor, " r"]) -> float:
    r"""How hard it is to learn f at all samples by learning it at these: the paper's c.

    .. math:: c = 2 |\Omega| \sigma^2 \tilde\sigma^2 / \lambda_{\min}(K_{\Omega\Omega})
    """
    if len(rows) == 0:
        return 0.0
    points = setting.pool[rows]
    values = torch.linalg.eigvalsh(setting.kernel.block(points, points))
    if float(values[0]) <= RANK_TOLERANCE * float(values[-1]):
        return inf
    sigma, noisy = largest_variances(setting)
    return 2.0 * len(rows) * sigma * noisy / float(values[0])


def largest_variances(setting: Setting) -> tuple[float, float]:
    r""":math:`\sigma^2` over samples and targets, :math:`\tilde\sigma^2` over samples."""
    of_pool = setting.kernel.diagonal(setting.pool)
    sigma = max(float(of_pool.max()), float(setting.kernel.diagonal(setting.targets).max()))
    return sigma, float((of_pool + setting.noise_variance).max())
