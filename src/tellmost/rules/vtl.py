"""Variance-based transductive learning."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from tellmost.posterior.problem import State
from tellmost.rules.rule import Rule
from tellmost.shapes import Float


@dataclass(frozen=True)
class VTL(Rule):
    r"""Variance-based transductive learning: prefer what lowers the targets' variance most.

    .. math::
        \sum_a w_a \big( \mathrm{Var}[f_a \mid D] - \mathrm{Var}[f_a \mid D, y_x] \big)
        = \frac{\sum_a w_a\, k_D(x, a)^2}{k_D(x, x) + \rho^2}

    Hübotter et al. 2024, App. "Closed-form Decision Rules". The same as the squared correlation
    with each target, weighted by the target's variance. Gains can grow, even for targets = pool.
    """

    name: ClassVar[str] = "vtl"
    unit: ClassVar[str] = "mean target variance"
    needs: ClassVar[frozenset[str]] = frozenset({"variance", "squared_covariance"})
    weighs_targets: ClassVar[bool] = True

    def gain(self, state: State) -> Float[Tensor, " n"]:
        return state.squared_covariance / (state.variance + state.noise_variance)
