"""Drafted picks against all rows: is each of them the best of all, and what do rows become?

The columns of all drafted picks are at hand, each scaled by one over the root of its observation's
variance, so a step subtracts a square (``scores.update``).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from tellmost.gpu.scores import rank, update
from tellmost.shapes import Bool, Float, Int

ROWS = 512


@triton.jit
def _replay_kernel(
    columns, seconds, variance, second, noise, noise_stride, scores, best, change, n,
    RULE: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """For each step the best rank outside the shortlist, and the fall of the summed variance."""
    program = tl.program_id(0)
    rows = program * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    v = tl.load(variance + rows, mask=inside, other=0.0)
    w = v
    if RULE < 2:
        w = tl.load(second + rows, mask=inside, other=0.0)
    rho = tl.load(noise + rows * noise_stride, mask=inside, other=1.0)
    counts = inside & (tl.load(scores + rows, mask=inside, other=0.0) > float("-inf"))
    for step in range(STEPS):
        at = tl.cast(step, tl.int64) * n + rows
        c = tl.load(columns + at, mask=inside, other=0.0)
        b = c
        if RULE < 2:
            b = tl.load(seconds + at, mask=inside, other=0.0)
        value = tl.where(counts, rank(v, w, rho, RULE), float("-inf"))
        tl.store(best + program * STEPS + step, tl.max(value, axis=0))
        tl.store(change + program * STEPS + step, tl.sum(c * c, axis=0))
        v, w = update(v, w, c, b, RULE)


@triton.jit
def _commit_kernel(
    columns, seconds, variance, second, noise, noise_stride, closed, scores, accepted, n,
    RULE: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Take in the accepted picks, and rank the rows for the next shortlist."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    v = tl.load(variance + rows, mask=inside, other=0.0)
    w = v
    if RULE < 2:
        w = tl.load(second + rows, mask=inside, other=0.0)
    count = tl.load(accepted)
    for step in range(STEPS):
        at = tl.cast(step, tl.int64) * n + rows
        counts = inside & (step < count)  # others read nothing, and take nothing away
        c = tl.load(columns + at, mask=counts, other=0.0)
        b = c
        if RULE < 2:
            b = tl.load(seconds + at, mask=counts, other=0.0)
        v, w = update(v, w, c, b, RULE)
    tl.store(variance + rows, v, mask=inside)
    if RULE < 2:
        tl.store(second + rows, w, mask=inside)
    rho = tl.load(noise + rows * noise_stride, mask=inside, other=1.0)
    is_closed = tl.load(closed + rows, mask=inside, other=1) != 0
    tl.store(scores + rows, tl.where(is_closed, float("-inf"), rank(v, w, rho, RULE)), mask=inside)


def replay(
    rule: int,
    columns: Float[Tensor, "q T n"],
    variance: Float[Tensor, " n"],
    second: Float[Tensor, " n"],
    noise: Float[Tensor, " n"],
    scores: Float[Tensor, " n"],
    found: Float[Tensor, "2 P T"],
) -> tuple[Float[Tensor, " T"], Float[Tensor, " P T"]]:
    """Before each step the best rank of rows whose score is not -inf; and, in pieces to be added
    up, how far the sum of all variances falls."""
    steps, n = columns.shape[1:]
    _replay_kernel[(triton.cdiv(n, ROWS),)](
        columns[0], columns[-1], variance, second, noise, noise.stride(0),
        scores, found[0], found[1], n, RULE=rule, STEPS=steps, ROWS=ROWS,
    )  # fmt: skip
    return found[0].amax(dim=0), found[1]


def room_for_replay(steps: int, n: int, device: torch.device) -> Float[Tensor, "2 P T"]:
    return torch.empty(2, triton.cdiv(n, ROWS), steps, dtype=torch.float64, device=device)


def commit(
    rule: int,
    columns: Float[Tensor, "q T n"],
    variance: Float[Tensor, " n"],
    second: Float[Tensor, " n"],
    noise: Float[Tensor, " n"],
    closed: Bool[Tensor, " n"],
    accepted: Int[Tensor, ""],
    scores: Float[Tensor, " n"],
) -> None:
    """Update the rows by the first ``accepted`` columns, in place, and rank them."""
    n = columns.shape[2]
    _commit_kernel[(triton.cdiv(n, ROWS),)](
        columns[0], columns[-1], variance, second, noise, noise.stride(0),
        closed.view(torch.uint8), scores, accepted, n,
        RULE=rule, STEPS=columns.shape[1], ROWS=ROWS,
    )  # fmt: skip
