"""Mean-marginal ITL."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tellmost.numerics import SMALLEST_REMAINING, ZERO_VARIANCE
from tellmost.posterior.problem import State
from tellmost.rules.rule import Rule
from tellmost.shapes import Float


@dataclass(frozen=True)
class MMITL(Rule):
    r"""Mean-marginal ITL: information about each target by itself, averaged.

    .. math::
        \sum_a w_a\, I(f_a; y_x \mid D)
        = -\tfrac12 \sum_a w_a \log\!\Big(1 - \frac{k_D(x,a)^2}{k_D(a,a)\,(k_D(x,x)+\rho^2)}\Big)

    MacKay 1992; Hübotter et al. 2024, App. "Mean Marginal ITL". It ignores how targets depend on
    each other, so it is no generalisation of uncertainty sampling. Reads rows x targets values.
    """

    name: ClassVar[str] = "mm-itl"
    unit: ClassVar[str] = "mean nats per target"
    needs: ClassVar[frozenset[str]] = frozenset({"variance", "covariance"})
    weighs_targets: ClassVar[bool] = True

    def gain(self, state: State) -> Float[Tensor, " n"]:
        known = state.target_variance <= ZERO_VARIANCE * state.prior_target_variance
        per_target = torch.where(known, 0.0, 1.0 / state.target_variance)
        explained = state.covariance.square() * per_target
        explained /= (state.variance + state.noise_variance)[:, None]
        explained.clamp_(max=1.0 - SMALLEST_REMAINING)
        return torch.log1p(explained.neg_()) @ state.target_weights / -2
