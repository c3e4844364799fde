r"""Random projections, under which inner products are kept on average.

.. math:: \mathbb{E}\,\langle R x, R z \rangle = \langle x, z \rangle

"dense" has independent signs over :math:`\sqrt{q}` (Achlioptas 2003); its variance is
:math:`(\|x\|^2 \|z\|^2 + \langle x, z \rangle^2 - 2 \sum_i x_i^2 z_i^2) / q`. "countsketch" adds
each column to one of q with a sign (Charikar, Chen and Farach-Colton 2002): it has the same
variance, for a q-th of the work. Signs and places are functions of the seed and of the column's
number, the same on every device and in any order. The mixing is SplitMix64's
(Steele, Lea and Flood 2014), in integers that wrap around.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from tellmost.finetune.embedding import Embedding, check_inner_products, kernel_of
from tellmost.finetune.gradients import OutputGradients, Pieces
from tellmost.rows.checks import check_whole, check_word
from tellmost.rows.pool import GOLDEN, MIX, mixed, shifted
from tellmost.shapes import Float, Int

PROJECTION_BYTES = 64 * 2**20
"""Size of a block of a random projection; making it takes twice as much for its bits. One block is
kept from batch to batch, and the others are made again."""


@dataclass(frozen=True)
class Projected:
    """Points of another embedding, projected to ``dimension`` columns.

    Args:
        embedding: one whose points are compared by inner products.
        dimension: q. Inner products err by about :math:`\\|x\\| \\|z\\| / \\sqrt{q}`.
        kind: "dense", or "countsketch" for long points.
        seed: of the projection.
    """

    embedding: Embedding
    dimension: int
    kind: str = "dense"
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole(self.dimension, "dimension")
        check_word(self.kind, "kind", ("dense", "countsketch"))

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[Callable[[Any], Tensor]]:
        project = (DenseProjection if self.kind == "dense" else CountSketch)(
            self.dimension, self.seed
        )
        with pieces_of(self.embedding, model) as points_of:

            def projected(batch: Any) -> Tensor:
                return torch.cat(
                    [
                        reduce(torch.add, (project(values, column) for column, values in pieces))
                        for pieces in points_of(batch)
                    ]
                )

            yield projected

    def kernel(self, model: nn.Module, batch: Any) -> None:
        kernel = kernel_of(self.embedding, model, batch)
        check_inner_products("Projected(embedding)", self.embedding, kernel)


@contextmanager
def pieces_of(
    embedding: Embedding, model: nn.Module
) -> Iterator[Callable[[Any], Iterator[Pieces]]]:
    """Gives the function from a batch to its points in pieces, or in a single piece."""
    if isinstance(embedding, OutputGradients):  # which may be too long to be held
        with embedding.pieces_on(model) as points_of:
            yield points_of
    else:
        with embedding.on(model) as whole:
            yield lambda batch: iter([iter([(0, whole(batch))])])


class DenseProjection:
    """Products with a matrix of signs. It is made block by block, and its beginning is kept."""

    def __init__(self, dimension: int, seed: int) -> None:
        self._dimension, self._seed = dimension, seed
        self._beginning = torch.empty(0)

    def __call__(self, values: Float[Tensor, "b w"], column: int) -> Float[Tensor, "b q"]:
        total = values.new_zeros(len(values), self._dimension)
        step = max(1, PROJECTION_BYTES // (self._dimension * values.itemsize))
        for start in range(0, values.shape[1], step):
            part, first = values[:, start : start + step], column + start
            block = self._beginning[: part.shape[1]]
            if first > 0 or len(block) < part.shape[1]:
                rows = torch.arange(first, first + part.shape[1], device=part.device)
                block = signs(rows, self._dimension, self._seed, part.dtype)
            if first == 0:
                self._beginning = block if len(block) > len(self._beginning) else self._beginning
            total.addmm_(part, block)
        return total / self._dimension**0.5


class CountSketch:
    """Sums of columns with signs; a hash of its number says to which sum a column belongs."""

    def __init__(self, dimension: int, seed: int) -> None:
        self._dimension, self._seed = dimension, seed

    def __call__(self, values: Float[Tensor, "b w"], column: int) -> Float[Tensor, "b q"]:
        numbers = torch.arange(column, column + values.shape[1], device=values.device)
        bits = seeded_bits(numbers, self._seed)
        places = shifted(bits, 1) % self._dimension
        signed = values * (1 - 2 * (bits & 1)).to(values.dtype)
        return values.new_zeros(len(values), self._dimension).index_add_(1, places, signed)


BITS = 64


def seeded_bits(numbers: Int[Tensor, "*size"], seed: int) -> Int[Tensor, "*size"]:
    """64 random bits for each number."""
    half = 2 ** (BITS - 1)
    start = ((seed + 1) * MIX[0][1] + half) % 2**BITS - half  # a signed number of 64 bits
    return mixed((numbers + 1) * GOLDEN + start)


def signs(
    rows: Int[Tensor, " r"], columns: int, seed: int, dtype: torch.dtype
) -> Float[Tensor, "r c"]:
    """1 or -1 for each row and column, by a bit each of the random words of a row."""
    words = -(-columns // BITS)
    numbers = rows[:, None] * words + torch.arange(words, device=rows.device)
    octets = seeded_bits(numbers, seed).view(torch.uint8).flatten().to(torch.int32)
    bits = torch.arange(256, device=rows.device)[:, None] >> torch.arange(8, device=rows.device)
    signs_of_bytes = (1 - 2 * (bits & 1)).to(dtype)
    return signs_of_bytes[octets].reshape(len(rows), -1)[:, :columns]
