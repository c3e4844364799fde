"""Which drafted picks stand: those that no row outside the shortlist comes near, up to the first
that one does."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from tellmost.gpu.scores import gain
from tellmost.numerics import LEADER_BAND, TIE_FLOOR
from tellmost.shapes import Bool, Float, Int


@triton.jit
def _judge_kernel(
    gains, outside, drift, places, numbers, first_gain, closed, accepted, table,
    most, min_gain, min_share, band, tie_floor,
    RULE: tl.constexpr, STEPS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    picks = tl.arange(0, WIDE)
    is_pick = picks < STEPS
    worth = tl.load(gains + picks, mask=is_pick, other=float("-inf"))
    rival = gain(tl.load(outside + picks, mask=is_pick, other=0.0), RULE)
    first = tl.load(first_gain)
    first = tl.where(first != first, tl.load(gains), first)  # NaN until the first pick of all
    near = worth - band * tl.abs(worth) - tie_floor * tl.abs(first)
    near = tl.where(tl.load(drift) < band / 10, near, float("-inf"))  # drifted: nothing stands
    least = tl.maximum(min_gain, min_share * first)
    stands = is_pick & (picks < most) & (rival < near) & (worth >= least)
    stands = stands & (worth > float("-inf"))
    stands = tl.cumsum(tl.where(stands, 0, 1), axis=0) == 0
    rows = tl.load(numbers + tl.load(places + picks, mask=is_pick, other=0))
    tl.store(closed + rows, tl.full([WIDE], 1, tl.uint8), mask=stands)
    tl.store(accepted, tl.sum(tl.where(stands, 1, 0), axis=0))
    tl.store(table + picks, tl.where(stands, 1.0, 0.0).to(tl.float64), mask=is_pick)
    tl.store(table + STEPS + picks, rows.to(tl.float64), mask=is_pick)
    tl.store(table + 2 * STEPS + picks, worth, mask=is_pick)


def judge(
    rule: int,
    gains: Float[Tensor, " T"],
    outside: Float[Tensor, " T"],
    drift: Float[Tensor, " 1"],
    places: Int[Tensor, " T"],
    numbers: Int[Tensor, " L"],
    first_gain: Float[Tensor, " 1"],
    closed: Bool[Tensor, " n"],
    accepted: Int[Tensor, ""],
    table: Float[Tensor, "4 T"],
    *,
    most: int,
    min_gain: float,
    min_share: float,
) -> None:
    """Fill ``accepted`` (how many stand) and the table's first rows: 1 for each pick that stands,
    its number, its gain. Rows of picks that stand are closed."""
    steps = len(gains)
    _judge_kernel[(1,)](
        gains, outside, drift, places, numbers, first_gain, closed.view(torch.uint8),
        accepted, table,
        most, min_gain, min_share, LEADER_BAND, TIE_FLOOR,
        RULE=rule, STEPS=steps, WIDE=triton.next_power_of_2(steps), num_warps=1,
    )  # fmt: skip
