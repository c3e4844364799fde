"""Random choice."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tellmost.posterior.problem import State
from tellmost.rows.checks import check_seed
from tellmost.rows.pool import GOLDEN, mixed, shifted
from tellmost.rules.rule import Rule
from tellmost.shapes import Float, Int


@dataclass(frozen=True)
class Random(Rule):
    """A uniformly random order of the candidates, the baseline that every rule has to beat.

    The gain is a random key in (0, 1), a function of the seed, the row and the step alone, so it
    depends on neither blocks nor devices. A gain here measures nothing.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", check_seed(self.seed, "Random(seed)"))

    name: ClassVar[str] = "random"
    unit: ClassVar[str] = "none (a random key)"
    needs: ClassVar[frozenset[str]] = frozenset()
    needs_targets: ClassVar[bool] = False
    is_random: ClassVar[bool] = True

    def gain(self, state: State) -> Float[Tensor, " n"]:
        return draw(self.seed, state)


def draw(seed: int, state: State) -> Float[Tensor, " n"]:
    """Numbers in (0, 1), a function of the seed, the row and the step alone."""
    keys = scramble(state.rows + scramble(torch.tensor(2 * seed + 1)).to(state.rows))
    keys = scramble(keys + state.step)
    return shifted(keys, 11).to(torch.float64).add_(0.5).div_(2**53)


def scramble(x: Int[Tensor, "*n"]) -> Int[Tensor, "*n"]:
    """A step of SplitMix64 (Steele et al. 2014) in wrapping 64-bit arithmetic."""
    return mixed(x * GOLDEN)
