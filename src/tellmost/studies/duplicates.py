r"""Rows that are equal, and rows that almost are.

Equal rows are found by 128 bits of each, two sums as in ``fingerprint``, modulo 2^64:

.. math:: r_i = \sum_j \mathrm{fold}(b_{ij})\, w_j

with the bits b of the float64 values and odd factors w. The second fold brings the exponent down
to the lowest bits, which the first leaves zero for whole numbers.
"""

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.rows.pool import Normalization, Pool, column_factors
from tellmost.rows.sources import spans
from tellmost.shapes import Float, Int


def row_bits(rows: Float[Tensor, "b d"]) -> Int[Tensor, "b 2"]:
    """128 bits of each row; minus zero is zero."""
    bits = (rows + 0.0).view(torch.int64)
    factors = column_factors(bits)
    first = (bits ^ _shifted(bits, 32)).mul_(factors).sum(dim=1)
    second = bits ^ _shifted(bits, 29) ^ _shifted(bits, 52)
    return torch.stack([first, second.mul_(factors.flip(0)).sum(dim=1)], dim=1)


def _shifted(values: Tensor, by: int) -> Tensor:
    """To the right, with zeros from the left."""
    return (values >> by) & (2 ** (64 - by) - 1)


def count_duplicates(pool: Pool, bits: Int[Tensor, "n 2"]) -> int:
    """How many rows equal an earlier one.

    Rows of equal bits are compared where that is cheap: all of a pool in memory, some of a file
    whose rows can be read singly. Others are as good as certain: 128 bits.
    """
    later, earlier = _pairs(bits.cpu().numpy())
    few = len(later) if pool.source.held is not None else numerics.CONFIRMED_SINGLY
    false = 0
    if pool.source.held is not None or pool.source.jumps:
        for start, stop in spans(min(few, len(later)), pool.rows_per_block):
            one, other = pool.rows(later[start:stop]), pool.rows(earlier[start:stop])
            false += int((one != other).any(dim=1).sum())
    return len(later) - false


def _pairs(bits: np.ndarray) -> tuple[Int[Tensor, " p"], Int[Tensor, " p"]]:
    """Rows of equal bits: each but the first of its kind, and that first."""
    order = np.lexsort((bits[:, 1], bits[:, 0]))  # stable: of equal rows the first comes first
    ordered = bits[order]
    repeats = np.concatenate([[False], (ordered[1:] == ordered[:-1]).all(axis=1)])
    firsts = np.maximum.accumulate(np.where(repeats, 0, np.arange(len(bits))))
    later, earlier = order[repeats], order[firsts[repeats]]
    by_row = np.argsort(later)
    return torch.from_numpy(later[by_row]), torch.from_numpy(earlier[by_row])


class Likeness:
    """The largest cosine of each sampled row with any other row, over the blocks seen so far."""

    def __init__(self, rows: Int[Tensor, " s"], points: Float[Tensor, "s d"]) -> None:
        self._rows = rows
        self._points = unit(points)
        self._largest = torch.full_like(points[:, 0], -1.0)

    def add(self, start: int, block: Float[Tensor, "b d"]) -> None:
        """Take in the rows from number ``start`` on."""
        block = unit(block)
        step = max(numerics.BLOCK_BYTES // (8 * len(block)), 1)
        for first, last in spans(len(self._points), step):
            cosines = self._points[first:last] @ block.T
            own = self._rows[first:last] - start
            here = ((own >= 0) & (own < len(block))).nonzero()[:, 0]
            cosines[here, own[here]] = -1.0
            largest = self._largest[first:last]
            torch.maximum(largest, cosines.amax(dim=1), out=largest)

    def share(self) -> float:
        return float((self._largest >= numerics.NEAR_DUPLICATE).double().mean())


def unit(rows: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
    return Normalization(to_unit_length=True).apply(rows)


def sample_size(n: int, d: int, device: torch.device, room: int) -> int:
    """Rows to compare with all: as many as the work allows, and the bytes there is room for."""
    work = numerics.HEALTH_WORK.get(device.type, numerics.HEALTH_WORK["cuda"])
    most = min(int(work / (n * (2 * d + numerics.COSINE_WORK))), room // (8 * d))
    return min(n, max(most, numerics.LEAST_EXAMINED))
