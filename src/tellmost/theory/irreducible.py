"""The variance that no observations within the sample space can remove."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tellmost.posterior.floor import compute_floor
from tellmost.posterior.problem import Problem
from tellmost.rows.pool import Pool
from tellmost.running.processes import ALONE, Place
from tellmost.shapes import Float
from tellmost.theory.setting import Setting, check_setting


@dataclass(frozen=True, eq=False)
class IrreducibleVariance:
    """eta^2 of each target; an upper bound where ``is_exact`` is False."""

    value: Float[np.ndarray, " m"]
    is_exact: bool
    description: str


def irreducible_variance(pool: Any, targets: Any, *, kernel: Any = None) -> IrreducibleVariance:
    r"""The variance left at each target if f were known at every sample.

    .. math:: \eta_S^2(x) = \mathrm{Var}[f_x \mid f_S] = \|\phi(x)\|^2_{\Pi_\Phi}, \qquad
        \Pi_\Phi = I - \Phi^\top (\Phi \Phi^\top)^{-1} \Phi

    Hübotter et al. 2024, Sec. 3.1; the form with features, for kernels that are inner products,
    App. "Generalization to Continuous S for Finite Dimensional RKHSs". Zero within S and, for
    inner products, within its span. Eigenvalues below ``numerics.RANK_TOLERANCE`` count as zero.
    Beyond ``numerics.FLOOR_EXACT_ROWS`` samples of a kernel that is no inner product it is an
    upper bound, and says so. The same as ``select(..., floor=True).floor``.
    """
    return leave_irreducible(check_setting(pool, targets, kernel, 1.0))


def leave_irreducible(setting: Setting) -> IrreducibleVariance:
    problem = Problem(
        kernel=setting.kernel,
        rows=Pool.of(setting.pool),
        noise_variance=setting.noise_variance,
        prior_variance=setting.kernel.diagonal(setting.pool),
        place=Place.of(len(setting.pool), ALONE),
        targets=setting.targets,
        target_weights=torch.full((setting.target_count,), 1.0 / setting.target_count).double(),
    )
    found = compute_floor(problem, [])
    return IrreducibleVariance(found.floor.numpy(), found.is_exact, found.description)
