"""Correlation-based transductive learning."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from tellmost.numerics import ZERO_VARIANCE
from tellmost.posterior.problem import State
from tellmost.rows.checks import check_word
from tellmost.rules.rule import Rule
from tellmost.shapes import Float


@dataclass(frozen=True)
class CTL(Rule):
    r"""Correlation-based transductive learning: prefer what moves with the targets.

    .. math:: \sum_a w_a\, \mathrm{Cor}[f_x, f_a \mid D]

    Hübotter et al. 2024, App. "Correlation-based Transductive Learning". Signed: a strong negative
    correlation, although as informative, ranks last. A point of no variance has correlation 0.

    With ``about="y"`` it is that of the noisy observation, :math:`\mathrm{Cor}[y_x, f_a \mid D]`,
    which falls to 0 as a point becomes known. The authors' published code has its square.
    """

    about: Literal["f", "y"] = "f"

    unit: ClassVar[str] = "mean correlation with the targets"
    needs: ClassVar[frozenset[str]] = frozenset(
        {"variance", "standardized_covariance", "prior_variance"}
    )
    weighs_targets: ClassVar[bool] = True
    is_signed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_word(self.about, "CTL(about)", ("f", "y"))

    @property
    def name(self) -> str:
        return "ctl" if self.about == "f" else "ctl-y"

    def gain(self, state: State) -> Float[Tensor, " n"]:
        known = state.variance <= ZERO_VARIANCE * state.prior_variance
        own = state.variance if self.about == "f" else state.variance + state.noise_variance
        sd = own.where(~known, 1.0).sqrt()  # 1: the root of 0 has no gradient
        return torch.where(known, 0.0, state.standardized_covariance / sd)
