"""The greedy k-centre choice, also known as MaxDist or CoreSet."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tellmost.posterior.problem import State
from tellmost.rules.rule import Rule
from tellmost.shapes import Float


@dataclass(frozen=True)
class KCenter(Rule):
    r"""Greedy k-centre: prefer what is farthest from everything chosen, wherever the targets are.

    .. math:: \min_{s \in D} \sqrt{k(x, x) + k(s, s) - 2\, k(x, s)}

    Gonzalez 1985; Sener and Savarese 2018 (CoreSet). The distance is that of the kernel's feature
    space; D holds what was observed and the picks. With nothing chosen it is the distance to the
    origin, :math:`\sqrt{k(x, x)}`, so with a stationary kernel all rows tie for the first pick;
    the first pick can be farther from a row than the origin is.
    """

    name: ClassVar[str] = "k-center"
    unit: ClassVar[str] = "distance to the nearest pick"
    needs: ClassVar[frozenset[str]] = frozenset({"squared_distance_to_chosen", "prior_variance"})
    needs_targets: ClassVar[bool] = False

    def gain(self, state: State) -> Float[Tensor, " n"]:
        squared = state.squared_distance_to_chosen
        squared = torch.where(squared == torch.inf, state.prior_variance, squared)
        apart = squared != 0  # elsewhere the root has no gradient
        return torch.where(apart, squared.where(apart, 1.0).sqrt(), 0.0)
