"""What targets may depend on, and what targets are."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from tellmost.shapes import Bool, Float

Drawn = tuple[torch.Tensor, torch.Tensor | None]
Draw = Callable[[int, torch.Generator], Drawn]
"""Functions drawn jointly at all points, and of each the smallest margin of its constraints."""


class NoTargetsLeft(Exception):  # noqa: N818 - a state of affairs, not a mistake
    """Nothing is left to learn about: no point belongs to the targets any more."""


@dataclass(frozen=True)
class Known:
    """The posterior over the pool as it is now, and the randomness of this round."""

    points: np.ndarray  # the pool: (n, d) features, or row numbers of a precomputed kernel
    mean: Float[np.ndarray, " n"]
    std: Float[np.ndarray, " n"]
    seed: int  # of this round: the same data give the same number
    beta: float  # how many standard deviations make a bound, where targets do not say
    draw: Draw
    limits: tuple[np.ndarray, np.ndarray] | None = None  # bounds of f, where these are kept
    safe: Bool[np.ndarray, " n"] | None = None  # what is safe for sure; None: there is no danger
    perhaps_safe: Bool[np.ndarray, " n"] | None = None  # what cannot be ruled out to be safe
    is_minimized: bool = False  # whether small values of f are the good ones

    @property
    def generator(self) -> np.random.Generator:
        """For random choices of this round; starts afresh each time it is asked for."""
        return np.random.default_rng(self.seed)

    @property
    def is_safe(self) -> Bool[np.ndarray, " n"]:
        """The pessimistic safe set, where every point satisfies the constraints for sure."""
        return np.ones(len(self.mean), dtype=bool) if self.safe is None else self.safe

    @property
    def may_be_safe(self) -> Bool[np.ndarray, " n"]:
        """The optimistic safe set: no constraint is violated for sure."""
        if self.perhaps_safe is None:
            return np.ones(len(self.mean), dtype=bool)
        return self.perhaps_safe

    def bounds(self, beta: float | None) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bound of f: mean -+ beta std, or those that are kept."""
        if beta is None and self.limits is not None:
            return self.limits
        width = (self.beta if beta is None else beta) * self.std
        return self.mean - width, self.mean + width

    def rising_bounds(self, beta: float | None) -> tuple[np.ndarray, np.ndarray]:
        """Of f or, if small values are the good ones, of -f."""
        lower, upper = self.bounds(beta)
        return (-upper, -lower) if self.is_minimized else (lower, upper)

    def sample(self, count: int) -> Float[np.ndarray, "count n"]:
        """Functions drawn from the posterior, jointly at all points of the pool."""
        return self.sample_jointly(count)[0]

    def sample_jointly(self, count: int) -> tuple[np.ndarray, np.ndarray | None]:
        """The same, and the smallest margin of the constraints drawn with each; None: no limits.

        Margins are in prior standard deviations, and negative where a constraint is violated.
        """
        values, margins = self.draw(count, torch.Generator().manual_seed(self.seed))
        return values.cpu().numpy(), None if margins is None else margins.cpu().numpy()


@runtime_checkable
class Targets(Protocol):
    """Which points to learn about, given what is known."""

    @property
    def is_fixed(self) -> bool:
        """Whether they are the same in every round, whatever is observed."""

    def choose(self, known: Known) -> Any:
        """A mask over the pool, or (m, d) points that may lie outside it."""


def check_beta(beta: Any, where: str) -> None:
    if beta is not None and (isinstance(beta, bool | str) or not 0 <= beta < float("inf")):
        raise ValueError(f"{where}(beta) must be a number of at least 0, or None; got {beta!r}.")


def check_count(count: Any, where: str) -> int:
    is_whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
    if not is_whole or count < 1:
        raise ValueError(f"{where} must be a whole number of at least 1; got {count!r}.")
    return int(count)
