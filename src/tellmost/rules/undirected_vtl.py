"""Undirected VTL, the forward greedy choice of BAIT."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from tellmost.posterior.problem import State
from tellmost.rules.rule import Rule
from tellmost.shapes import Float


@dataclass(frozen=True)
class UndirectedVTL(Rule):
    r"""Undirected VTL (BAIT): prefer what lowers the mean variance of all candidates most.

    .. math::
        \frac1n \sum_z \big( \mathrm{Var}[f_z \mid D] - \mathrm{Var}[f_z \mid D, y_x] \big)
        = \frac{\frac1n \sum_z k_D(x, z)^2}{k_D(x, x) + \rho^2}

    Ash et al. 2021, forward steps; V-optimal design, VTL with the candidates as targets. Targets,
    if given, are only reported on. Kernels that are no inner product keep all pairs of candidates.
    """

    name: ClassVar[str] = "undirected-vtl"
    unit: ClassVar[str] = "mean variance of the candidates"
    needs: ClassVar[frozenset[str]] = frozenset({"variance", "squared_covariance_with_candidates"})
    needs_targets: ClassVar[bool] = False

    def gain(self, state: State) -> Float[Tensor, " n"]:
        return state.squared_covariance_with_candidates / (state.variance + state.noise_variance)
