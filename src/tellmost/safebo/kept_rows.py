"""Whitened vectors at points that many rounds look at: made once, and kept for the next round.

What the first observations say of a point does not change when later ones come
(:mod:`tellmost.posterior.function_space`). So whole blocks of trials are taken in for good, and
the trials after them anew in each round. A block is named by the numbers of its trials, so what
is believed follows from the trials alone, and not from when a round was made.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from tellmost.kernels import Kernel
from tellmost.kernels.kernel import Points
from tellmost.numerics import CHUNK_BYTES
from tellmost.posterior.function_space import FunctionPosterior, GrowingMatrix, RunningRows
from tellmost.posterior.problem import nonnegative
from tellmost.rows.sources import spans
from tellmost.shapes import Float

LEAST_BLOCK = 32
"""Fewer trials than this are taken in anew in each round."""

SPARE = 1.25
"""A larger table has room for so many times the rows and columns that are needed now."""

MOST_KEPT = 2**26
"""So many numbers, 512 MB, are kept beside those of the present round."""

Seen = Sequence[tuple[int, float]]
"""The row of each observation, and the variance of its noise."""

Begun = Callable[[Seen], tuple[FunctionPosterior, RunningRows]]
"""Gives the posterior after what was seen, and the vectors of all points of a round."""


class KeptVectors:
    """What is kept of each output under each context. Contexts that were asked for last stay."""

    def __init__(self) -> None:
        self._each: dict[tuple[float, ...], KeptRows] = {}

    def begun(
        self, key: tuple[float, ...], kernel: Kernel, points: Points, fixed: int, trials: int
    ) -> Begun:
        """For the points of a round: the fixed ones, those of the trials, and others."""

        def after(seen: Seen) -> tuple[FunctionPosterior, RunningRows]:
            kept = self._each.pop(key, None)
            if kept is None or not torch.equal(kept.fixed, points[:fixed]):
                before = [one for one in seen if one[0] < fixed]
                kept = KeptRows(kernel, points[:fixed], before)
            while (
                self._each and sum(one.memory.numel() for one in self._each.values()) > MOST_KEPT
            ):
                del self._each[next(iter(self._each))]
            self._each[key] = kept
            return kept.after(points, trials, seen)

        return after


@dataclass(frozen=True)
class Stage:
    """What is known after some of the trials, at the fixed points and those of the trials."""

    variance: Float[Tensor, " n"]
    posterior: FunctionPosterior


class KeptRows:
    """The whitened vectors of one output at the first points of a round, for blocks of trials."""

    def __init__(self, kernel: Kernel, fixed: Points, seen: Seen) -> None:
        """``fixed`` points come first in every round. What was ``seen`` there precedes trials."""
        self.fixed = fixed
        self._kernel = kernel
        self.memory = fixed.new_empty(0, 0)
        self._make_room(len(seen), len(fixed))
        nothing = Stage(fixed.new_empty(0), FunctionPosterior(kernel, torch.device("cpu")))
        self._stages = {0: self._take_in(nothing, fixed, seen)}  # by the number of trials

    def after(
        self, points: Points, trials: int, seen: Seen
    ) -> tuple[FunctionPosterior, RunningRows]:
        """The posterior after all that was seen, and the vectors of all points.

        The points are the fixed ones, those of the trials in turn, and others. Vectors that were
        given out before are written over.
        """
        first, stops = len(self.fixed), whole_blocks(trials)
        self._make_room(len(seen), len(points))
        self._stages = {stop: self._stages[stop] for stop in stops if stop in self._stages}
        for start, stop in pairwise(stops):
            if stop not in self._stages:
                own = [one for one in seen if first + start <= one[0] < first + stop]
                stage = self._take_in(self._stages[start], points[: first + stop], own)
                self._stages[stop] = stage
        left = [one for one in seen if one[0] >= first + stops[-1]]
        now = self._take_in(self._stages[stops[-1]], points, left)
        whitened = GrowingMatrix.over(self.memory[:, : len(points)], now.posterior.rank)
        return now.posterior, RunningRows(now.variance, whitened)

    def _take_in(self, before: Stage, points: Points, seen: Seen) -> Stage:
        """Take in points behind those of a stage, and what was seen there."""
        posterior, kept = before.posterior.copy(), len(before.variance)
        t, new = posterior.rank, points[kept:]
        F = self.memory[:t, kept : len(points)] = posterior.whiten(new)
        beyond = nonnegative(self._kernel.diagonal(new) - F.square().sum(dim=0))
        variance = torch.cat([before.variance, beyond])
        if seen:
            noise = variance.new_tensor([noise for _, noise in seen])
            posterior.observe_in_turn(points[[row for row, _ in seen]], noise)
            for start, stop in spans(len(points), max(CHUNK_BYTES // (64 * len(seen)), 1)):
                F = posterior.whiten_further(points[start:stop], self.memory[:t, start:stop])
                self.memory[t : posterior.rank, start:stop] = F
                nonnegative(variance[start:stop].sub_(F.square().sum(dim=0)))
        return Stage(variance, posterior)

    def _make_room(self, rows: int, columns: int) -> None:
        before = self.memory
        if rows > before.shape[0] or columns > before.shape[1]:
            needed = int(SPARE * max(rows, 16)), int(SPARE * columns)
            self.memory = before.new_empty(tuple(map(max, needed, before.shape)))
            self.memory[: before.shape[0], : before.shape[1]] = before


def whole_blocks(trials: int) -> list[int]:
    """Where blocks of trials end: their sizes are the binary digits of the number of trials.

    So a long record has few blocks, the largest first, and most of them stay when it grows.
    """
    stops, size = [0], 1 << trials.bit_length()
    while (size := size // 2) >= LEAST_BLOCK:
        if trials & size:
            stops.append(stops[-1] + size)
    return stops
