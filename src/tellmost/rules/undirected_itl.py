"""Undirected ITL, also known as MaxDet."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tellmost.posterior.problem import State
from tellmost.rules.rule import Rule
from tellmost.shapes import Float


@dataclass(frozen=True)
class UndirectedITL(Rule):
    r"""Undirected ITL (MaxDet): prefer what says most about the function as a whole.

    .. math:: I(f; y_x \mid D) = \tfrac12 \log\!\Big(1 + \frac{k_D(x, x)}{\rho^2}\Big)

    Srinivas et al. 2010; greedy maximisation of :math:`\log\det(I + K/\rho^2)`. Submodular, so
    gains only shrink and lazy evaluation is exact.
    """

    name: ClassVar[str] = "undirected-itl"
    unit: ClassVar[str] = "nats about the function"
    needs: ClassVar[frozenset[str]] = frozenset({"variance"})
    needs_targets: ClassVar[bool] = False
    gains_only_shrink: ClassVar[bool] = True

    def gain(self, state: State) -> Float[Tensor, " n"]:
        return torch.log1p(state.variance / state.noise_variance) / 2
