"""The seeding of k-means++."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tellmost.posterior.problem import State
from tellmost.rules.random import check_seed, draw
from tellmost.shapes import Float


@dataclass(frozen=True)
class KMeansPlusPlus:
    r"""k-means++ seeding: a random row, likelier the farther it is from everything chosen.

    .. math::
        P(x) \propto D^2(x) = \min_{s \in D} \big( k(x, x) + k(s, s) - 2\, k(x, s) \big)

    Arthur and Vassilvitskii 2007; with nothing chosen every row is as likely. The gain is
    :math:`D^2(x) / E(x)` with E(x) from an exponential distribution of mean 1: the largest of
    these is a draw from P. E is a function of the seed, the row and the step alone, so the picks
    depend on neither blocks nor devices. Of a gain only its rank means anything.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        check_seed(self.seed, "KMeansPlusPlus")

    name: ClassVar[str] = "k-means++"
    unit: ClassVar[str] = "none (a random key)"
    needs: ClassVar[frozenset[str]] = frozenset({"squared_distance_to_chosen"})
    needs_targets: ClassVar[bool] = False
    weighs_targets: ClassVar[bool] = False
    gains_only_shrink: ClassVar[bool] = False
    is_signed: ClassVar[bool] = False
    is_random: ClassVar[bool] = True

    def gain(self, state: State) -> Float[Tensor, " n"]:
        squared = state.squared_distance_to_chosen
        time = -torch.log1p(-draw(self.seed, state))  # in (0, inf]: no gain is infinite
        return torch.where(squared == torch.inf, 1.0, squared) / time
