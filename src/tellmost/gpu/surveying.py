"""The first look at all rows: their squared lengths and their checksum, in one read."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from tellmost.rows.pool import GOLDEN, MIX, column_factors
from tellmost.shapes import Float, Int

ROWS, FEATURES = 16, 256


@triton.jit
def _shifted(values, BY: tl.constexpr):
    """To the right, with zeros from the left."""
    return (values >> BY) & ((1 << (64 - BY)) - 1)


@triton.jit
def _survey_kernel(
    x, stride, factors, squares, sums, n, d, first, golden, first_factor, second_factor,
    ROWS: tl.constexpr, FEATURES: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    features = tl.arange(0, FEATURES)
    length = tl.zeros([ROWS], dtype=tl.float64)
    checksum = tl.zeros([ROWS], dtype=tl.int64)
    for start in range(0, d, FEATURES):
        at = start + features
        values = tl.load(
            x + rows[:, None] * stride + at[None, :],
            mask=inside[:, None] & (at[None, :] < d),
            other=0.0,
        ).to(tl.float64)
        length += tl.sum(values * values, axis=1)
        bits = values.to(tl.int64, bitcast=True)
        odd = tl.load(factors + at, mask=at < d, other=0)
        checksum += tl.sum((bits ^ _shifted(bits, 32)) * odd[None, :], axis=1)
    tl.store(squares + rows, length, mask=inside)
    mixed = checksum ^ ((rows + first + 1) * golden)
    mixed = (mixed ^ _shifted(mixed, FIRST)) * first_factor
    mixed = (mixed ^ _shifted(mixed, SECOND)) * second_factor
    mixed = mixed ^ _shifted(mixed, 31)
    tl.store(sums + tl.program_id(0), tl.sum(tl.where(inside, mixed, 0), axis=0))


def survey_rows(data: Tensor, first: int) -> tuple[Float[Tensor, " n"], Int[Tensor, ""]]:
    """Squared length of every row, and the sum of the fingerprint of rows numbered from ``first``
    on; see ``fingerprint``."""
    n, d = data.shape
    programs = triton.cdiv(n, ROWS)
    squares = torch.empty(n, dtype=torch.float64, device=data.device)
    sums = torch.empty(programs, dtype=torch.int64, device=data.device)
    (shift, factor), (second_shift, second_factor) = MIX
    _survey_kernel[(programs,)](
        data, data.stride(0), column_factors(data), squares, sums, n, d, first,
        GOLDEN, factor, second_factor,
        ROWS=ROWS, FEATURES=FEATURES, FIRST=shift, SECOND=second_shift, num_warps=4,
    )  # fmt: skip
    return squares, sums.sum()
