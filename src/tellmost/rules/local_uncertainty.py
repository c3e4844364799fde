"""Uncertainty sampling among the targets."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tellmost.posterior.problem import State
from tellmost.rules.rule import Rule
from tellmost.shapes import Float


@dataclass(frozen=True)
class LocalUncertainty(Rule):
    r"""Local uncertainty sampling: prefer the target that is least known, of those in the pool.

    .. math:: \mathrm{Var}[f_x \mid D] \text{ for } x \in A, \text{ else } 0

    Hübotter et al. 2024, Sec. "Experiments in the Gaussian Process Setting": uncertainty sampling
    restricted to candidates that are targets themselves, so that what others tell about the
    targets is never used. Points are the same if their distance in the kernel's feature space is
    0. Once every such target is picked, and none may be picked again, all gains are 0.
    """

    name: ClassVar[str] = "local-uncertainty"
    unit: ClassVar[str] = "variance of the pick, if it is a target"
    needs: ClassVar[frozenset[str]] = frozenset({"variance", "squared_distance_to_targets"})
    gains_only_shrink: ClassVar[bool] = True  # a posterior variance never rises
    targets_in_pool: ClassVar[str] = "some"

    def gain(self, state: State) -> Float[Tensor, " n"]:
        return torch.where(state.squared_distance_to_targets == 0, state.variance, 0.0)
