"""Where in a box a round looks: along a line, or everywhere a little.

Kirschner et al. 2019 (LineBO): a line through the last point, along an axis or in any direction,
is searched finely. What was observed and what was recommended is always looked at too.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from tellmost.numerics import SOBOL_POINTS
from tellmost.shapes import Float
from tellmost.targets.box import Box


@runtime_checkable
class Search(Protocol):
    """The points of a round."""

    @property
    def is_refined(self) -> bool:
        """Whether the best of them is climbed from."""

    def points(
        self, box: Box, through: Float[Tensor, " d"], seed: int, generator: np.random.Generator
    ) -> Float[Tensor, "n d"]:
        """``seed`` is the same in all rounds, the generator that of this one."""


@dataclass(frozen=True)
class CoordinateLines:
    """A line along a random axis through the last point, from face to face of the box."""

    count: int = 2_000

    is_refined: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_count(self.count, "CoordinateLines")

    def points(
        self, box: Box, through: Float[Tensor, " d"], seed: int, generator: np.random.Generator
    ) -> Float[Tensor, "n d"]:
        axis = int(generator.integers(box.dimension))
        line = through.expand(self.count, -1).clone()
        low, high = box.low[axis], box.high[axis]
        line[:, axis] = torch.linspace(low, high, self.count, dtype=torch.float64)
        return line


@dataclass(frozen=True)
class RandomLines:
    """A line in a random direction through the last point, from face to face of the box.

    Directions are uniform in the unit cube that the box is scaled to.
    """

    count: int = 2_000

    is_refined: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_count(self.count, "RandomLines")

    def points(
        self, box: Box, through: Float[Tensor, " d"], seed: int, generator: np.random.Generator
    ) -> Float[Tensor, "n d"]:
        low, high = box.corners()
        direction = torch.from_numpy(generator.standard_normal(box.dimension)) * box.width()
        faces = torch.stack([(low - through) / direction, (high - through) / direction])
        back = faces.amin(dim=0).amax()
        ahead = faces.amax(dim=0).amin()
        steps = torch.linspace(float(back), float(ahead), self.count, dtype=torch.float64)
        return box.clip(through + steps[:, None] * direction)


@dataclass(frozen=True)
class SobolSet:
    """The same evenly spread points in every round; the best safe one is climbed from."""

    count: int = SOBOL_POINTS
    is_refined: bool = True

    def __post_init__(self) -> None:
        check_count(self.count, "SobolSet")

    def points(
        self, box: Box, through: Float[Tensor, " d"], seed: int, generator: np.random.Generator
    ) -> Float[Tensor, "n d"]:
        return box.sobol(self.count, seed)


def check_count(count: int, name: str) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 2:
        raise ValueError(f"{name}(count) must be a whole number of at least 2; got {count!r}.")
