r"""Targets drawn anew each round.

.. math:: x_n \in \arg\max_x\; I(f_{A_n}; y_x \mid D_{n-1}), \qquad A_n \sim P_A

Hübotter et al. 2024, App. "Stochastic Target Spaces": a large or continuous target space is
replaced by a few points of it, drawn independently of those of earlier rounds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tellmost.domains import Box
from tellmost.targets.known import Known, check_count

Sampler = Callable[[int, np.random.Generator], Any]


@dataclass(frozen=True, eq=False)
class Sampled:
    """``size`` points of A, drawn anew each round: of (m, d) points, of a box, or by a function.

    Of points a subset without repeats; of a box uniformly; a function ``sampler(size, generator)``
    returns (size, d) points of any distribution P_A.
    """

    source: Any  # (m, d) array | Box | Sampler
    size: int

    is_fixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_count(self.size, "Sampled(size)"))
        if isinstance(self.source, Box) or callable(self.source):
            return
        points = np.array(self.source)
        object.__setattr__(self, "source", points)
        if points.ndim not in (1, 2) or points.dtype == bool or self.size > len(points):
            raise ValueError(
                f"Sampled must be given at least size = {self.size} points as an (m, d) array, a "
                f"Box, or a function (size, generator) -> (size, d) points; got an array of shape "
                f"{points.shape} and type {points.dtype}."
            )

    @property
    def all_points(self) -> np.ndarray | None:
        """All that may be drawn, where that is a finite set."""
        is_finite = not (isinstance(self.source, Box) or callable(self.source))
        return np.asarray(self.source) if is_finite else None

    def choose(self, known: Known) -> Any:
        if isinstance(self.source, Box):
            box, uniform = self.source, known.generator.random((self.size, self.source.dimension))
            return np.asarray(box.low) + uniform * (np.asarray(box.high) - np.asarray(box.low))
        if callable(self.source):
            return self._drawn(self.source, known.generator)
        points = np.asarray(self.source)
        return points[np.sort(known.generator.permutation(len(points))[: self.size])]

    def _drawn(self, sampler: Sampler, generator: np.random.Generator) -> np.ndarray:
        points = np.asarray(sampler(self.size, generator))
        if points.dtype == bool or points.ndim not in (1, 2) or len(points) != self.size:
            raise ValueError(
                f"Sampled(sampler): sampler(size, generator) must return (size, d) points; got "
                f"{points.dtype} of shape {points.shape} for size {self.size}."
            )
        return points
