"""Targets may depend on the posterior as it is now.

Region and Sampled do not: they stay the same, or are drawn anew each round from a fixed source.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch

from tellmost.numerics import SOBOL_POINTS
from tellmost.rows.checks import check_whole
from tellmost.shapes import Bool, Float
from tellmost.targets.box import Box

Drawn = tuple[torch.Tensor, torch.Tensor | None]
Draw = Callable[[int, torch.Generator], Drawn]
"""Functions drawn jointly at all points, and for each the smallest margin of its constraints."""


class NoTargetsLeft(Exception):  # noqa: N818 - a state of affairs, not a mistake
    """No point belongs to the targets any more, so nothing is left to learn about."""


@dataclass(frozen=True)
class Known:
    """The posterior over the pool as it is now, and the randomness of this round."""

    points: np.ndarray  # the pool: (n, d) features, or row numbers of a precomputed kernel
    mean: Float[np.ndarray, " n"]
    std: Float[np.ndarray, " n"]
    seed: int  # of this round; the same data give the same number
    beta: float  # how many standard deviations make a bound, if targets do not say
    draw: Draw
    is_safe: Bool[np.ndarray, " n"]  # surely, with respect to all constraints
    may_be_safe: Bool[np.ndarray, " n"]  # no constraint is surely violated
    limits: tuple[np.ndarray, np.ndarray] | None = None  # bounds of f, where they are kept
    is_minimized: bool = False  # whether small values of f are good
    chance: Float[np.ndarray, " n"] | None = None  # that all constraints but those of f are kept
    within: tuple[float, float] = (-np.inf, np.inf)  # limits of f itself

    @property
    def generator(self) -> "np.random.Generator":
        """A generator for random choices of this round. It starts afresh each time."""
        return np.random.default_rng(self.seed)

    def bounds(self, beta: float | None) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper bound of f: mean -+ beta std, or those that are kept."""
        if beta is None and self.limits is not None:
            return self.limits
        width = (self.beta if beta is None else beta) * self.std
        return self.mean - width, self.mean + width

    def rising_bounds(self, beta: float | None) -> tuple[np.ndarray, np.ndarray]:
        """The bounds of f or, if small values are good, those of -f."""
        lower, upper = self.bounds(beta)
        return (-upper, -lower) if self.is_minimized else (lower, upper)

    def sample(self, count: int) -> Float[np.ndarray, "count n"]:
        """Functions drawn from the posterior, jointly at all points of the pool."""
        return self.sample_jointly(count)[0]

    def sample_jointly(self, count: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Functions, and for each the smallest margin of its constraints; None: there are none.

        Margins are in prior standard deviations, and negative where a constraint is violated.
        """
        values, margins = self.draw(count, torch.Generator().manual_seed(self.seed))
        return values.cpu().numpy(), None if margins is None else margins.cpu().numpy()


@runtime_checkable
class Targets(Protocol):
    """Targets say which points to learn about, given what is known."""

    @property
    def is_fixed(self) -> bool:
        """If true, they are the same in every round, whatever is observed."""
        return False

    def choose(self, known: Known) -> Any:
        """A mask over the pool, or (m, d) points that may lie outside it."""


@dataclass(frozen=True, eq=False)
class Region(Targets):
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
class Sampled(Targets):
    r"""``size`` points of A, drawn anew each round: from (m, d) points, a box, or by a function.

    .. math:: x_n \in \arg\max_x\; I(f_{A_n}; y_x \mid D_{n-1}), \qquad A_n \sim P_A

    Hübotter et al. 2024, App. "Stochastic Target Spaces": a few points stand for a large or
    continuous target space, independently of those of earlier rounds. From points a subset without
    repeats is drawn, from a box uniform points. A function ``sampler(size, generator)`` returns
    (size, d) points of any distribution P_A.
    """

    source: Any  # (m, d) array | Box | Callable[[int, np.random.Generator], (size, d) array]
    size: int

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
