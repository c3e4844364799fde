"""What targets are, and what they may depend on: the posterior as it is now."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from tellmost.shapes import Bool, Float

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
    limits: tuple[np.ndarray, np.ndarray] | None = None  # bounds of f, where they are kept
    safe: Bool[np.ndarray, " n"] | None = None  # what is surely safe; None: everything
    perhaps_safe: Bool[np.ndarray, " n"] | None = None  # what may still be safe
    is_minimized: bool = False  # whether small values of f are good

    @property
    def generator(self) -> np.random.Generator:
        """A generator for random choices of this round. It starts afresh each time."""
        return np.random.default_rng(self.seed)

    @property
    def is_safe(self) -> Bool[np.ndarray, " n"]:
        """The pessimistic safe set, whose points surely satisfy all constraints."""
        return np.ones(len(self.mean), dtype=bool) if self.safe is None else self.safe

    @property
    def may_be_safe(self) -> Bool[np.ndarray, " n"]:
        """The optimistic safe set, whose points do not surely violate a constraint."""
        if self.perhaps_safe is None:
            return np.ones(len(self.mean), dtype=bool)
        return self.perhaps_safe

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
    """Which points to learn about, given what is known."""

    @property
    def is_fixed(self) -> bool:
        """Whether they are the same in every round, whatever is observed."""

    def choose(self, known: Known) -> Any:
        """A mask over the pool, or (m, d) points that may lie outside it."""


def check_beta(beta: Any, where: str) -> None:
    if beta is not None and (isinstance(beta, bool | str) or not 0 <= beta < float("inf")):
        raise ValueError(f"{where}(beta) must be a number of at least 0, or None; got {beta!r}.")
