"""Which rows of the pool a round looks at."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tellmost.rows.opening import check_whole
from tellmost.shapes import Int


@runtime_checkable
class Candidates(Protocol):
    """Draws the sample space of a round: S in the paper's algorithm."""

    def draw(
        self, rows: Int[np.ndarray, " n"], generator: np.random.Generator
    ) -> Int[np.ndarray, " c"]:
        """Some of these rows of the pool, each at most once; at least one."""


@dataclass(frozen=True)
class Uniform:
    """So many rows, drawn uniformly without repetition each round; all that are left if fewer."""

    size: int = 1_000

    def __post_init__(self) -> None:
        check_whole(self.size, "Uniform(size)")

    def draw(
        self, rows: Int[np.ndarray, " n"], generator: np.random.Generator
    ) -> Int[np.ndarray, " c"]:
        if len(rows) <= self.size:
            return rows
        return np.sort(generator.choice(rows, self.size, replace=False))


@dataclass(frozen=True)
class WholePool:
    """Every row that is left."""

    def draw(
        self, rows: Int[np.ndarray, " n"], generator: np.random.Generator
    ) -> Int[np.ndarray, " c"]:
        return rows


def check_candidates(candidates: Any) -> Candidates:
    """A number of rows, None for the whole pool, or an object that draws them."""
    if candidates is None:
        return WholePool()
    if isinstance(candidates, type) or not isinstance(candidates, Candidates):
        return Uniform(check_whole(candidates, "candidates"))
    return candidates


def check_draw(
    drawn: Any, rows: Int[np.ndarray, " n"], candidates: Candidates
) -> Int[np.ndarray, " c"]:
    """Rows that a sampler of the caller's own drew."""
    found = np.asarray(drawn)
    is_vector = found.ndim == 1 and np.issubdtype(found.dtype, np.integer) and len(found)
    if not is_vector or len(np.unique(found)) != len(found) or not np.isin(found, rows).all():
        raise ValueError(
            f"candidates must draw at least one of the rows that it is given, each at most once; "
            f"{candidates!r} drew {drawn!r}."
        )
    return found.astype(np.int64)
