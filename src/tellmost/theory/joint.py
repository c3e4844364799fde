"""The joint covariance of samples and targets, dense: theory asks about small sets."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tellmost.numerics import ZERO_VARIANCE, nonnegative
from tellmost.posterior.function_space import FunctionPosterior
from tellmost.shapes import Float
from tellmost.theory.setting import Setting


@dataclass(frozen=True, eq=False)
class Joint:
    """Covariances given what was observed; of the samples also had the targets been seen."""

    rows: Float[Tensor, "n n"]
    rows_given_targets: Float[Tensor, "n n"]
    cross: Float[Tensor, "n m"]
    target_variance: Float[Tensor, " m"]
    noise_variance: Float[Tensor, " n"]

    @classmethod
    def of(cls, setting: Setting, observed: Sequence[int] = ()) -> "Joint":
        """Given noisy observations at some samples, in any order, perhaps repeated."""
        pool, targets, kernel = setting.pool, setting.targets, setting.kernel
        posterior = FunctionPosterior(kernel, pool.device)
        seeing = posterior.copy()
        seeing.see_targets(targets, 0.0)
        for row in observed:
            for each in (posterior, seeing):
                each.observe(pool[row : row + 1], float(setting.noise_variance[row]))
        variance = posterior.variance(targets)
        is_known = variance <= ZERO_VARIANCE * kernel.diagonal(targets)
        return cls(
            rows=posterior.covariance(pool, pool),
            rows_given_targets=seeing.covariance(pool, pool),
            cross=posterior.covariance(pool, targets),
            target_variance=nonnegative(torch.where(is_known, 0.0, variance)),
            noise_variance=setting.noise_variance,
        )
