"""Maximal marginal relevance."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tellmost.numerics import SAME_POINT
from tellmost.posterior.problem import State
from tellmost.rules.rule import Rule
from tellmost.shapes import Float


@dataclass(frozen=True)
class MMR(Rule):
    r"""Maximal marginal relevance: near to a target, and unlike what was chosen already.

    .. math::
        \lambda \max_a \mathrm{sim}(x, a) - (1 - \lambda) \max_{s \in D} \mathrm{sim}(x, s),
        \qquad \mathrm{sim}(x, z) = \frac{k(x, z)}{\sqrt{k(x, x)\, k(z, z)}}

    Carbonell and Goldstein 1998. With a linear kernel the cosine similarity; D holds what was
    observed and the picks, and without any the second term is 0. ``relevance`` is lambda; at 1
    this is :class:`TopK`. Similarities may be negative, so the first of D can raise a gain.
    """

    relevance: float = 0.5

    def __post_init__(self) -> None:
        if not isinstance(self.relevance, float | int) or not 0 < self.relevance <= 1:
            raise ValueError(
                f"MMR(relevance) must be a number above 0 and at most 1; got {self.relevance!r}. "
                f"1 looks at the targets alone, as top-k does; smaller values spread the picks. "
                f"To spread them whatever the targets are, use rule='k-center'."
            )

    name: ClassVar[str] = "mmr"
    unit: ClassVar[str] = "similarity to the nearest target less that to the nearest pick"
    needs: ClassVar[frozenset[str]] = frozenset({"similarity_to_targets", "similarity_to_chosen"})
    is_signed: ClassVar[bool] = True

    def gain(self, state: State) -> Float[Tensor, " n"]:
        nearest = state.similarity_to_chosen
        redundancy = torch.where(nearest == -torch.inf, 0.0, nearest)
        gain = self.relevance * state.similarity_to_targets - (1 - self.relevance) * redundancy
        return gain.where(gain.abs() > SAME_POINT, 0.0)  # a difference of equals is rounding
