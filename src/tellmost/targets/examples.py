r"""Targets as examples: estimate the distribution that they are drawn from, on pool and targets.

With squared distances of the kernel, :math:`\Delta(x, z) = k(x, x) - 2 k(x, z) + k(z, z)`,

.. math::
    p(x) = \sum_a w_a \frac{K_h(x, a)}{\sum_{z \in P \cup A} K_h(z, a)}, \qquad
    K_h(x, z) = e^{-\Delta(x, z) / 2 h^2}

is one step of a random walk from the targets A over themselves and the pool P. The bandwidth h is
the one under which each target is likeliest, given the others. How much likelier than a row of
the pool at random says whether the targets predict one another at all:

.. math:: g = \sum_a w_a \log\big[(n + m)\, p_{-a}(a)\big].

It is near 0 for one example of each of many unrelated classes, and for targets from another space.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import Any

import torch
from torch import Tensor

from tellmost import numerics
from tellmost.kernels import Kernel
from tellmost.kernels.kernel import Points
from tellmost.rows.pool import Pool
from tellmost.rows.sources import spans
from tellmost.running import workers
from tellmost.running.processes import Shard
from tellmost.shapes import Bool, Float, Int

GIVEN_SHARE = 0.25
"""This share of the weight stays on the targets as they were given. It was chosen, like the next
number, on data sets apart from those on which it was judged; see docs/defaults.md."""

LEAST_GAIN = 0.2
"""Targets predict one another from here on. Unrelated ones reach 0.17, those of a family 0.21."""

WIDEST, NARROWEST, COARSE = -8, 40, 4
"""Bandwidths are the root of the mean squared distance over powers of the fourth root of 2: from 4
times that root to a thousandth of it. Each fourth power is scored first, and then all around the
best one."""

SAMPLED_VALUES = 2**18
"""Bandwidths are scored on so many distances of rows and targets; rows are evenly spaced."""

LEAST_SAMPLE = 1_024
"""At least so many rows are used to score bandwidths, however many targets there are."""


def sampled_values(rows: int, targets: int) -> int:
    """So many distances of evenly spaced rows to all targets score the bandwidths."""
    return targets * min(rows, max(SAMPLED_VALUES // targets, LEAST_SAMPLE))


@dataclass(frozen=True)
class Density:
    """The estimated distribution of the targets: how likely each row and each target is."""

    bandwidth: float
    gain: float  # -inf where nothing but near copies of a target is left to predict it
    of_rows: Float[Tensor, " n"]  # p(x) of the rows of this process
    of_targets: Float[Tensor, " m"]
    given: Float[Tensor, " m"]  # w_a, with sum 1
    point_count: int  # n + m, over all processes
    shard: Shard | None = None

    def describe(self) -> dict[str, float]:
        """Say how the distribution was estimated, and how many rows stand for the targets."""
        return {"bandwidth": self.bandwidth, "gain": self.gain, "rows": self.row_count}

    @cached_property
    def rows(self) -> Int[Tensor, " r"]:
        """The rows of this process that are likelier under the targets than under the pool."""
        return (self.of_rows * self.point_count > 1.0).nonzero()[:, 0]

    @cached_property
    def row_count(self) -> int:
        """The number of such rows of all processes."""
        here = torch.tensor(len(self.rows))
        return int(here if self.shard is None else self.shard.group.sum(here))

    @cached_property
    def weights(self) -> tuple[Float[Tensor, " r"], Float[Tensor, " m"]]:
        """The weights of these rows and of the targets, with sum 1 over all processes."""
        kept = self.of_targets.where(self.of_targets * self.point_count > 1.0, 0.0)
        of_rows = self.of_rows[self.rows]
        total = of_rows.sum()
        total = kept.sum() + (total if self.shard is None else self.shard.group.sum(total))
        share = (1.0 - GIVEN_SHARE) / total
        return share * of_rows, share * kept + GIVEN_SHARE * self.given


def estimate_density(
    pool: Pool,
    targets: Points,
    weights: Float[Tensor, " m"],
    kernel: Kernel,
    *,
    memory: int = 0,
    shard: Shard | None = None,
) -> Density:
    """Estimate the distribution from all rows; distances are kept if the memory has room.

    It takes one pass over the rows if distances are kept, and three if not.
    """
    distances = Distances(pool, targets, kernel, memory, shard)
    n, m = distances.total, len(targets)
    nearest, sample = distances.look()
    between = kernel_distances(kernel, targets, targets)
    leaving_out = LeavingOut(between, nearest, weights)
    square = choose_square(sample, n, leaving_out, shard)
    sums = torch.zeros(m, dtype=torch.float64, device=pool.device)
    distances.each(lambda _, piece: similarity(piece, square).sum(dim=0), sums.add_)
    sums = sums if shard is None else shard.group.sum(sums)
    to_targets = similarity(between, square)
    sums += to_targets.sum(dim=0)
    of_rows = torch.empty(len(pool), dtype=torch.float64, device=pool.device)
    of_each = weights / sums

    def fill(rows: slice, piece: Tensor) -> None:
        of_rows[rows] = similarity(piece, square) @ of_each

    distances.each(fill)
    return Density(
        bandwidth=square**0.5,
        gain=leaving_out.likelihood(square, sums) + log(n + m),
        of_rows=of_rows,
        of_targets=to_targets @ (weights / sums),
        given=weights,
        point_count=n + m,
        shard=shard,
    )


def similarity(distances: Float[Tensor, "b m"], square: float) -> Float[Tensor, "b m"]:
    """K_h of squared distances, for a squared bandwidth."""
    return (distances / (-2.0 * square)).exp_()


def kernel_distances(kernel: Kernel, x: Points, z: Points) -> Float[Tensor, "b m"]:
    """The squared distances of the kernel; 0 where nothing but rounding is left."""
    own = kernel.diagonal(z)
    squares = kernel.block(x, z).mul_(-2.0).add_(kernel.diagonal(x)[:, None]).add_(own)
    return squares.masked_fill_(squares <= numerics.SAME_POINT * own, 0.0)


class Distances:
    """The squared distances of all rows to the targets, in pieces: kept, or made again."""

    def __init__(
        self, pool: Pool, targets: Points, kernel: Kernel, memory: int, shard: Shard | None
    ) -> None:
        self.total = len(pool) if shard is None else shard.total
        self._pool, self._targets, self._kernel, self._shard = pool, targets, kernel, shard
        self._kept: Tensor | None = None
        self._is_kept = False
        if 8 * len(pool) * len(targets) <= memory - 2 * numerics.CHUNK_BYTES:
            size = len(pool), len(targets)
            self._kept = torch.empty(size, dtype=torch.float64, device=pool.device)

    def each(
        self, work: Callable[[slice, Tensor], Any], in_turn: Callable[[Any], Any] | None = None
    ) -> None:
        """Call ``work`` with slices of the rows and their squared distances, as Pool.each does."""
        kept, pool = self._kept, self._pool

        def measure(start: int, stop: int, block: Points) -> Any:
            piece = kernel_distances(self._kernel, block, self._targets)
            if kept is not None:
                kept[start:stop] = piece
            return work(slice(start, stop), piece)

        most = max(numerics.CHUNK_BYTES // (8 * len(self._targets)), 1)
        if self._is_kept and kept is not None:
            pieces = [slice(*span) for span in spans(len(pool), most)]
            workers.each(
                pieces,
                lambda rows: work(rows, kept[rows]),
                in_turn,
                count=len(pieces),
                threads=pool.threads,
            )
        else:
            pool.each(measure, in_turn, most)
            self._is_kept = True

    def look(self) -> tuple[Float[Tensor, " m"], Float[Tensor, "s m"]]:
        """The distance of each target to the nearest row that is no copy of a target, and the
        distances of the sampled rows of this process."""
        chosen, m = self._sampled(), len(self._targets)
        # made at once: small pieces that are kept would stand in the way of the blocks' memory
        sample = torch.empty(len(chosen), m, dtype=torch.float64, device=self._pool.device)
        nearest = sample.new_full((m,), torch.inf)

        def look(rows: slice, piece: Tensor) -> Tensor:
            is_copy = (piece == 0.0).any(dim=1, keepdim=True)
            between = torch.tensor([rows.start, rows.stop])
            first, last = torch.searchsorted(chosen, between).tolist()
            sample[first:last] = piece[(chosen[first:last] - rows.start).to(piece.device)]
            return piece.masked_fill(is_copy, torch.inf).amin(dim=0)

        self.each(look, lambda seen: torch.minimum(nearest, seen, out=nearest))
        if self._shard is not None:
            nearest = self._shard.group.gather(nearest).amin(dim=0)
        return nearest, sample

    def _sampled(self) -> Int[Tensor, " s"]:
        """Evenly spaced rows of all processes: those of this one, by their numbers here."""
        count = sampled_values(self.total, len(self._targets)) // len(self._targets)
        spaced = torch.linspace(0, self.total - 1, count, dtype=torch.float64).round().long()
        return spaced if self._shard is None else self._shard.mine(spaced)


class LeavingOut:
    """The likelihood of each target under the others, without those that are near copies of it.

    Two targets that are nearer to each other than either is to the pool are left out together:
    the same example given twice would otherwise predict itself, at the smallest bandwidth.
    """

    def __init__(
        self,
        between: Float[Tensor, "m m"],
        nearest: Float[Tensor, " m"],
        weights: Float[Tensor, " m"],
    ) -> None:
        self.between, self.weights = between, weights
        self.left_out: Bool[Tensor, "m m"] = between <= torch.minimum(nearest[:, None], nearest)
        self.left_out.fill_diagonal_(True)
        self._rest = (~self.left_out).to(weights) @ weights

    def likelihood(self, square: float, sums: Float[Tensor, " m"]) -> float:
        """The weighted mean log likelihood, with the sums of K_h over all rows and targets."""
        logs = self.between / (-2.0 * square) + (self.weights / sums).log()
        logs.masked_fill_(self.left_out, -torch.inf)
        of_each = torch.where(self._rest > 0, logs.logsumexp(dim=1) - self._rest.log(), -torch.inf)
        return float((self.weights * of_each)[self.weights > 0].sum())


def choose_square(
    sample: Float[Tensor, "s m"], total: int, leaving_out: LeavingOut, shard: Shard | None
) -> float:
    """The squared bandwidth of the largest likelihood, scored on a sample of the rows."""

    def summed(values: Tensor) -> Tensor:
        return values if shard is None else shard.group.sum(values)

    count = int(summed(torch.tensor(len(sample))))
    scale = float(summed(sample.sum(dim=0)) @ leaving_out.weights) / count
    if scale == 0.0:  # one point only, under any bandwidth
        return 1.0

    def square(power: int) -> float:
        return scale * 2.0 ** (-power / 2)

    def score(power: int, similarities: Float[Tensor, "s m"]) -> float:
        of_rows = summed(similarities.sum(dim=0)) * (total / count)
        sums = of_rows + similarity(leaving_out.between, square(power)).sum(dim=0)
        return leaving_out.likelihood(square(power), sums)

    values, scores = similarity(sample, square(WIDEST)), dict[int, float]()
    for power in range(WIDEST, NARROWEST + 1, COARSE):
        scores[power] = score(power, values)
        values.square_().square_()  # for a quarter of the square; an exponential costs more
    coarse = max(scores, key=scores.__getitem__)
    fine = range(coarse - COARSE + 1, coarse + COARSE)
    return square(max(fine, key=lambda power: score(power, similarity(sample, square(power)))))
