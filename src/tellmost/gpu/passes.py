"""Products of all rows with a few vectors, in float64, at about the speed of reading the rows.

A row is converted in registers. On GPUs with float64 tensor cores (A100, H100, H200) sixteen
vectors cost no more than the reading; on others float64 arithmetic is the limit. The first pass
over a pool takes the squared lengths of the rows and their checksum in one read.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from tellmost.shapes import Float, Int

ROWS = 64  # of a tile
FEATURES = 32
HALVES = {torch.float16: 1, torch.bfloat16: 2}
WIDEST = 64  # vectors of a tile: as many accumulators as fit into the registers


@triton.jit
def _row_numbers(some, start, n, HAS_SOME: tl.constexpr, ROWS: tl.constexpr):
    """The numbers of a tile's rows, where they lie, and which of them exist."""
    rows = start * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    if HAS_SOME:
        return rows, tl.load(some + rows, mask=inside, other=0), inside
    return rows, rows.to(tl.int64), inside


@triton.jit
def _widened(rows, HALF: tl.constexpr):
    """Float64 values. Triton 3.6 cannot compile a float64 product of half-precision operands: it
    moves the conversion behind their layout, unless this is spelled in assembly."""
    if HALF == 1:
        rows = tl.inline_asm_elementwise(
            "cvt.f32.f16 $0, $1;", "=f,h", [rows], dtype=tl.float32, is_pure=False, pack=1
        )
    elif HALF == 2:  # the upper half of a float32
        rows = tl.inline_asm_elementwise(
            "{ .reg .b16 zero; mov.b16 zero, 0; mov.b32 $0, {zero, $1}; }",
            "=f,h", [rows], dtype=tl.float32, is_pure=False, pack=1,
        )  # fmt: skip
    return rows.to(tl.float64)


@triton.jit
def _product(
    x, stride, v, where, inside, first, r, d,
    HALF: tl.constexpr, ROWS: tl.constexpr, FEATURES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Float64 products of a tile of rows with vectors first, first + 1, ..."""
    features = tl.arange(0, FEATURES)
    columns = first + tl.arange(0, WIDTH)
    total = tl.zeros([ROWS, WIDTH], dtype=tl.float64)
    for start in range(0, d, FEATURES):
        at = start + features
        rows = tl.load(
            x + where[:, None] * stride + at[None, :],
            mask=inside[:, None] & (at[None, :] < d),
            other=0.0,
        )
        vectors = tl.load(
            v + at[:, None] * r + columns[None, :],
            mask=(at[:, None] < d) & (columns[None, :] < r),
            other=0.0,
        )
        total = tl.dot(_widened(rows, HALF), vectors, total, out_dtype=tl.float64)
    return columns, total


@triton.jit
def _products_kernel(
    x, stride, v, out, some, inverse_length, offset, n, r, d,
    HAS_SOME: tl.constexpr, HAS_LENGTH: tl.constexpr, HAS_OFFSET: tl.constexpr,
    HALF: tl.constexpr, ROWS: tl.constexpr, FEATURES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    rows, where, inside = _row_numbers(some, tl.program_id(0), n, HAS_SOME, ROWS)
    for first in range(0, r, WIDTH):
        columns, total = _product(
            x, stride, v, where, inside, first, r, d, HALF, ROWS, FEATURES, WIDTH
        )
        if HAS_OFFSET:
            total -= tl.load(offset + columns, mask=columns < r, other=0.0)[None, :]
        if HAS_LENGTH:
            total *= tl.load(inverse_length + where, mask=inside, other=0.0)[:, None]
        tl.store(
            out + columns[None, :].to(tl.int64) * n + rows[:, None],
            total,
            mask=inside[:, None] & (columns[None, :] < r),
        )


@triton.jit
def _squares_kernel(
    x, stride, v, out, some, inverse_length, offset, n, r, d,
    HAS_SOME: tl.constexpr, HAS_LENGTH: tl.constexpr, HAS_OFFSET: tl.constexpr,
    HALF: tl.constexpr, ROWS: tl.constexpr, FEATURES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    rows, where, inside = _row_numbers(some, tl.program_id(0), n, HAS_SOME, ROWS)
    squares = tl.zeros([ROWS], dtype=tl.float64)
    for first in range(0, r, WIDTH):
        columns, total = _product(
            x, stride, v, where, inside, first, r, d, HALF, ROWS, FEATURES, WIDTH
        )
        if HAS_OFFSET:
            total -= tl.load(offset + columns, mask=columns < r, other=0.0)[None, :]
        squares += tl.sum(total * total, axis=1)
    if HAS_LENGTH:
        length = tl.load(inverse_length + where, mask=inside, other=0.0)
        squares *= length * length
    tl.store(out + rows, squares, mask=inside)


def products(
    data: Tensor,
    vectors: Float[Tensor, "r d"],
    out: Float[Tensor, "r n"] | Float[Tensor, " n"],
    *,
    squared: bool = False,
    some: Int[Tensor, " n"] | None = None,
    mean: Float[Tensor, " d"] | None = None,
    inverse_length: Float[Tensor, " _"] | None = None,
) -> None:
    """<v, (x - mean) / |x - mean|> for every row x (or for some) and every vector v; or the
    squares of these products, added up over the vectors."""
    n, (r, d) = out.shape[-1], vectors.shape
    offset = None if mean is None else vectors @ mean
    nothing = vectors = vectors.T.contiguous()
    width = min(max(triton.next_power_of_2(r), 16), WIDEST)
    kernel = _squares_kernel if squared else _products_kernel
    kernel[(triton.cdiv(n, ROWS),)](
        data, data.stride(0), vectors, out,
        nothing if some is None else some,
        nothing if inverse_length is None else inverse_length,
        nothing if offset is None else offset,
        n, r, d,
        HAS_SOME=some is not None,
        HAS_LENGTH=inverse_length is not None,
        HAS_OFFSET=offset is not None,
        HALF=HALVES.get(data.dtype, 0) if data.is_cuda else 0,
        ROWS=ROWS,
        FEATURES=FEATURES if width < WIDEST else FEATURES // 2,
        WIDTH=width,
        num_warps=4,
        num_stages=4,
    )  # fmt: skip


SURVEYED_ROWS, SURVEYED_FEATURES = 16, 256


@triton.jit
def _shifted(values, BY: tl.constexpr):
    """The bits moved to the right, with zeros from the left."""
    return (values >> BY) & ((1 << (64 - BY)) - 1)


@triton.jit
def _survey_kernel(
    x, stride, factors, squares, sums, n, d, first, golden, first_factor, second_factor,
    SURVEYED_ROWS: tl.constexpr, SURVEYED_FEATURES: tl.constexpr,
    FIRST: tl.constexpr, SECOND: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * SURVEYED_ROWS + tl.arange(0, SURVEYED_ROWS)
    inside = rows < n
    features = tl.arange(0, SURVEYED_FEATURES)
    length = tl.zeros([SURVEYED_ROWS], dtype=tl.float64)
    checksum = tl.zeros([SURVEYED_ROWS], dtype=tl.int64)
    for start in range(0, d, SURVEYED_FEATURES):
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


def survey_rows(
    data: Tensor,
    first: int,
    factors: Int[Tensor, " d"],
    golden: int,
    mix: tuple[tuple[int, int], tuple[int, int]],
) -> tuple[Float[Tensor, " n"], Int[Tensor, ""]]:
    """The squared length of every row, and the sum of the fingerprints of all rows.

    The rows are numbered from ``first`` on. ``factors``, ``golden`` and ``mix`` are the numbers
    with which ``rows.pool.Fingerprint`` mixes the bits.
    """
    n, d = data.shape
    programs = triton.cdiv(n, SURVEYED_ROWS)
    squares = torch.empty(n, dtype=torch.float64, device=data.device)
    sums = torch.empty(programs, dtype=torch.int64, device=data.device)
    (shift, factor), (second_shift, second_factor) = mix
    _survey_kernel[(programs,)](
        data, data.stride(0), factors, squares, sums, n, d, first,
        golden, factor, second_factor,
        SURVEYED_ROWS=SURVEYED_ROWS, SURVEYED_FEATURES=SURVEYED_FEATURES,
        FIRST=shift, SECOND=second_shift, num_warps=4,
    )  # fmt: skip
    return squares, sums.sum()
