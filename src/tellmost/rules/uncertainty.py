"""Uncertainty sampling."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from tellmost.posterior.problem import State
from tellmost.rules.rule import Rule
from tellmost.shapes import Float


@dataclass(frozen=True)
class UncertaintySampling(Rule):
    r"""Uncertainty sampling: prefer what is least known, wherever the targets are.

    .. math:: \mathrm{Var}[f_x \mid D] = k_D(x, x)

    Lewis and Catlett 1994; Hübotter et al. 2024, App. "Undirected Case of ITL". With equal noise
    it picks as undirected ITL does, in the unit of a variance.
    """

    name: ClassVar[str] = "uncertainty"
    unit: ClassVar[str] = "variance of the pick"
    needs: ClassVar[frozenset[str]] = frozenset({"variance"})
    needs_targets: ClassVar[bool] = False
    gains_only_shrink: ClassVar[bool] = True  # a posterior variance never rises

    def gain(self, state: State) -> Float[Tensor, " n"]:
        return state.variance.clone()
