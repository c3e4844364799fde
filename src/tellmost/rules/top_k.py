"""Nearest neighbours of the targets."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from tellmost.posterior.problem import State
from tellmost.rules.rule import Rule
from tellmost.shapes import Float


@dataclass(frozen=True)
class TopK(Rule):
    r"""Nearest-neighbour top-k: similarity to the nearest target, as retrieval does it.

    .. math:: \max_a \frac{k(x, a)}{\sqrt{k(x, x)\, k(a, a)}}

    With a linear kernel the cosine similarity; with a stationary one a function of the distance.
    """

    name: ClassVar[str] = "top-k"
    unit: ClassVar[str] = "similarity to the nearest target"
    needs: ClassVar[frozenset[str]] = frozenset({"correlation"})
    is_signed: ClassVar[bool] = True

    def gain(self, state: State) -> Float[Tensor, " n"]:
        return state.correlation.amax(dim=1)
