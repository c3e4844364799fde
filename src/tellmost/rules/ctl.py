"""Correlation-based transductive learning."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tellmost.numerics import ZERO_VARIANCE
from tellmost.posterior.problem import State
from tellmost.shapes import Float


@dataclass(frozen=True)
class CTL:
    r"""Correlation-based transductive learning: prefer what moves with the targets.

    .. math:: \sum_a w_a\, \mathrm{Cor}[f_x, f_a \mid D]

    Hübotter et al. 2024, App. "Correlation-based Transductive Learning". Signed: a strong negative
    correlation, although as informative, ranks last. A point of no variance has correlation 0.
    """

    name: ClassVar[str] = "ctl"
    unit: ClassVar[str] = "mean correlation with the targets"
    needs: ClassVar[frozenset[str]] = frozenset(
        {"variance", "standardized_covariance", "prior_variance"}
    )
    needs_targets: ClassVar[bool] = True
    weighs_targets: ClassVar[bool] = True
    gains_only_shrink: ClassVar[bool] = False
    is_signed: ClassVar[bool] = True

    def gain(self, state: State) -> Float[Tensor, " n"]:
        known = state.variance <= ZERO_VARIANCE * state.prior_variance
        sd = state.variance.where(~known, 1.0).sqrt()  # 1: the root of 0 has no gradient
        return torch.where(known, 0.0, state.standardized_covariance / sd)
