"""Cosine similarity."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from tellmost.posterior.problem import State
from tellmost.rules.rule import Rule
from tellmost.shapes import Float


@dataclass(frozen=True)
class CosineSimilarity(Rule):
    r"""Mean cosine similarity to the targets, before any observation.

    .. math:: \sum_a w_a \frac{k(x, a)}{\sqrt{k(x, x)\, k(a, a)}}

    Hübotter et al. 2024, Sec. 4 (baselines). What is picked never changes a score, so near
    duplicates are picked together.
    """

    name: ClassVar[str] = "cosine"
    unit: ClassVar[str] = "mean cosine similarity"
    needs: ClassVar[frozenset[str]] = frozenset({"correlation"})
    weighs_targets: ClassVar[bool] = True
    is_signed: ClassVar[bool] = True

    def gain(self, state: State) -> Float[Tensor, " n"]:
        return state.correlation @ state.target_weights
