"""Targets that stay the same."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tellmost.domains import Box
from tellmost.numerics import SOBOL_POINTS
from tellmost.targets.known import Known


@dataclass(frozen=True, eq=False)
class Region:
    """A fixed set of points: a mask over the pool, (m, d) points, a box, or a predicate.

    A predicate takes the pool, an (n, d) array, and says of each row whether it is a target. A
    box, which need not touch the pool, stands for SOBOL_POINTS evenly spread points in it.
    """

    where: Any  # mask | (m, d) array | Box | Callable[[ndarray], mask]

    is_fixed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.where is None:
            raise TypeError(
                "Region must be given a mask over the pool, (m, d) points, a Box, or a function "
                "of the pool that returns a mask; got None."
            )

    def choose(self, known: Known) -> Any:
        if isinstance(self.where, Box):
            return self.where.sobol(SOBOL_POINTS, seed=0)
        return self._asked(known.points) if callable(self.where) else self.where

    def _asked(self, points: np.ndarray) -> np.ndarray:
        predicate: Callable[[np.ndarray], Any] = self.where
        mask = np.asarray(predicate(points))
        if mask.dtype != bool or mask.shape != (len(points),):
            raise ValueError(
                f"Region(predicate) must return a mask, True or False for each of the "
                f"{len(points)} pool rows that it is given; got {mask.dtype} of shape "
                f"{mask.shape}."
            )
        return mask
