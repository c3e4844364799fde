"""The seeding of k-means++."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tellmost.posterior.problem import State
from tellmost.rows.checks import check_seed
from tellmost.rules.random import draw
from tellmost.rules.rule import Rule
from tellmost.shapes import Float


@dataclass(frozen=True)
class KMeansPlusPlus(Rule):
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
        object.__setattr__(self, "seed", check_seed(self.seed, "KMeansPlusPlus(seed)"))

    name: ClassVar[str] = "k-means++"
    unit: ClassVar[str] = "none (a random key)"
    needs: ClassVar[frozenset[str]] = frozenset({"squared_distance_to_chosen"})
    needs_targets: ClassVar[bool] = False
    is_random: ClassVar[bool] = True

    def gain(self, state: State) -> Float[Tensor, " n"]:
        squared = state.squared_distance_to_chosen
        time = -torch.log1p(-draw(self.seed, state))  # in (0, inf]: no gain is infinite
        return torch.where(squared == torch.inf, 1.0, squared) / time
