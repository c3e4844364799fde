r"""Targets that stay the same, and targets that are drawn anew each round from a fixed source."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tellmost.numerics import SOBOL_POINTS
from tellmost.rows.checks import check_whole
from tellmost.targets.box import Box
from tellmost.targets.known import Known


@dataclass(frozen=True, eq=False)
class Region:
    """A fixed set of points: a mask over the pool, (m, d) points, a box, or a predicate.

    A predicate takes the pool, an (n, d) array, and tells for each row whether it is a target. A
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
        if not callable(self.where):
            return self.where
        mask, n = np.asarray(self.where(known.points)), len(known.points)
        if mask.dtype != bool or mask.shape != (n,):
            raise ValueError(
                f"Region(predicate) must return a mask, True or False for each of the {n} pool "
                f"rows that it is given; got {mask.dtype} of shape {mask.shape}."
            )
        return mask


@dataclass(frozen=True, eq=False)
class Sampled:
    r"""``size`` points of A, drawn anew each round: from (m, d) points, a box, or by a function.

    .. math:: x_n \in \arg\max_x\; I(f_{A_n}; y_x \mid D_{n-1}), \qquad A_n \sim P_A

    Hübotter et al. 2024, App. "Stochastic Target Spaces": a few points stand for a large or
    continuous target space, independently of those of earlier rounds. From points a subset without
    repeats is drawn, from a box uniform points. A function ``sampler(size, generator)`` returns
    (size, d) points of any distribution P_A.
    """

    source: Any  # (m, d) array | Box | Callable[[int, np.random.Generator], (size, d) array]
    size: int

    is_fixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_whole(self.size, "Sampled(size)"))
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
        """All points that may be drawn, if they are a finite set."""
        is_finite = not (isinstance(self.source, Box) or callable(self.source))
        return np.asarray(self.source) if is_finite else None

    def choose(self, known: Known) -> Any:
        if isinstance(self.source, Box):
            box, uniform = self.source, known.generator.random((self.size, self.source.dimension))
            return np.asarray(box.low) + uniform * (np.asarray(box.high) - np.asarray(box.low))
        if not callable(self.source):
            points = np.asarray(self.source)
            return points[np.sort(known.generator.permutation(len(points))[: self.size])]
        points = np.asarray(self.source(self.size, known.generator))
        if points.dtype == bool or points.ndim not in (1, 2) or len(points) != self.size:
            raise ValueError(
                f"Sampled(sampler): sampler(size, generator) must return (size, d) points; got "
                f"{points.dtype} of shape {points.shape} for size {self.size}."
            )
        return points
