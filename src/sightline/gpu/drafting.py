r"""Greedy selection on a shortlist, in one launch: picks that a pass over all rows then checks.

With the joint posterior K of the shortlist, a pick's column after the picks before it is

.. math:: c_s = K_{\cdot p_s} - \sum_{i<s} c_i\, c_i[p_s] / s_i, \qquad s_s = c_s[p_s] + \rho^2.

The second matrix is the posterior that saw the targets first (ITL), or for VTL
:math:`W = \Sigma M \Sigma` in the place of :math:`\Sigma`, whose columns change by both.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from sightline.gpu.scores import gain, rank
from sightline.numerics import TIE_FLOOR, TIE_TOLERANCE
from sightline.shapes import Float, Int

AT_ONCE = 8  # earlier columns that are subtracted together


@triton.jit
def _draft_kernel(
    first_matrix, second_matrix, noise, numbers, scores, first_gain,
    columns, seconds, state, places, drift, gains, scale, second_scale, carried, second_carried,
    tie_tolerance, tie_floor,
    RULE: tl.constexpr, LENGTH: tl.constexpr, STEPS: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    lanes = tl.arange(0, LENGTH)
    some = tl.arange(0, AT_ONCE)
    rho = tl.load(noise + lanes)
    key = tl.load(numbers + lanes) * LENGTH + lanes  # lowest number first, and its place
    running = tl.load(scores + lanes)
    is_open = running > float("-inf")
    variance = tl.maximum(tl.load(first_matrix + lanes * LENGTH + lanes), 0.0)
    second = variance
    if RULE < 2:
        second = tl.maximum(tl.load(second_matrix + lanes * LENGTH + lanes), 0.0)
    first = tl.load(first_gain)
    fresh = tl.where(is_open, gain(rank(variance, second, rho, RULE), RULE), 0.0)
    apart = tl.where(is_open, tl.abs(gain(running, RULE) - fresh), 0.0)
    tl.store(drift, tl.max(apart, axis=0) / tl.maximum(tl.max(tl.abs(fresh), axis=0), 1e-300))
    for step in range(STEPS):
        tl.store(state + lanes, variance)
        tl.store(state + LENGTH + lanes, second)
        tl.debug_barrier()  # single values are read below that other threads have stored
        worth = gain(rank(variance, second, rho, RULE), RULE)
        worth = tl.where(is_open, worth, float("-inf"))
        best = tl.max(worth, axis=0)
        first = tl.where(first != first, best, first)  # NaN until the first pick of all
        width = tl.where(
            best > float("-inf"), tie_tolerance * tl.abs(best) + tie_floor * tl.abs(first), 0.0
        )
        winner = tl.min(tl.where(worth >= best - width, key, 9223372036854775807), axis=0)
        place = winner % LENGTH
        noise_there = tl.load(noise + place)
        variance_there = tl.load(state + place)
        second_there = tl.load(state + LENGTH + place)
        worth_there = gain(rank(variance_there, second_there, noise_there, RULE), RULE)
        tl.store(places + step, place)
        tl.store(gains + step, tl.where(best > float("-inf"), worth_there, best))
        c = tl.load(first_matrix + place * LENGTH + lanes)
        b = c
        if RULE < 2:
            b = tl.load(second_matrix + place * LENGTH + lanes)
        for start in range(0, step, AT_ONCE):
            before = start + some
            known = before < step
            tile = before[:, None] * LENGTH + lanes[None, :]
            s = tl.load(scale + before, mask=known, other=1.0)
            there = tl.load(columns + before * LENGTH + place, mask=known, other=0.0)
            tl.store(carried + step * STEPS + before, there / s, mask=known)
            earlier = tl.load(columns + tile, mask=known[:, None], other=0.0)
            c -= tl.sum(earlier * (there / s)[:, None], axis=0)
            if RULE < 2:
                e = tl.load(second_scale + before, mask=known, other=1.0)
                also = tl.load(seconds + tile, mask=known[:, None], other=0.0)
                also_there = tl.load(seconds + before * LENGTH + place, mask=known, other=0.0)
                if RULE == 0:
                    tl.store(second_carried + step * STEPS + before, also_there / e, mask=known)
                    b -= tl.sum(also * (also_there / e)[:, None], axis=0)
                else:
                    weight = also_there / s - e * there / (s * s)
                    b -= tl.sum(also * (there / s)[:, None] + earlier * weight[:, None], axis=0)
        s = variance_there + noise_there
        tl.store(scale + step, s)
        tl.store(columns + step * LENGTH + lanes, c)
        variance = tl.maximum(variance - c * c / s, 0.0)
        if RULE < 2:
            e = second_there
            if RULE == 0:
                e += noise_there
                second = tl.maximum(second - b * b / e, 0.0)
            else:
                second = tl.maximum(second - 2.0 * c * b / s + c * c * (e / (s * s)), 0.0)
            tl.store(second_scale + step, e)
            tl.store(seconds + step * LENGTH + lanes, b)
        is_open = is_open & (lanes != place)
        tl.debug_barrier()


@dataclass(frozen=True)
class Drafted:
    """The picks of a draft, in order; ``carried[s, i]`` is how much of pick i is in column s."""

    places: Int[Tensor, " T"]  # in the shortlist
    gains: Float[Tensor, " T"]  # -inf where the shortlist ran out
    scale: Float[Tensor, " T"]  # variance of the observation
    second_scale: Float[Tensor, " T"]  # ITL: that of the second posterior; VTL: u' M u
    carried: Float[Tensor, "T T"]
    second_carried: Float[Tensor, "T T"]
    drift: Float[Tensor, " 1"]  # of the scores that made the shortlist, relative to the best


def draft(
    rule: int,
    first_matrix: Float[Tensor, "L L"],
    second_matrix: Float[Tensor, "L L"],
    noise: Float[Tensor, " L"],
    numbers: Int[Tensor, " L"],
    scores: Float[Tensor, " L"],
    first_gain: Float[Tensor, " 1"],
    steps: int,
) -> Drafted:
    """Pick greedily from the shortlist, which has a power of two of rows."""
    length, device = len(numbers), noise.device
    scratch = torch.empty(2 * steps + 2, length, dtype=torch.float64, device=device)
    values = torch.zeros(3 + 2 * steps, steps, dtype=torch.float64, device=device)
    drafted = Drafted(
        places=torch.empty(steps, dtype=torch.int64, device=device),
        gains=values[0],
        scale=values[1],
        second_scale=values[2],
        carried=values[3 : 3 + steps],
        second_carried=values[3 + steps :],
        drift=torch.empty(1, dtype=torch.float64, device=device),
    )
    _draft_kernel[(1,)](
        first_matrix, second_matrix, noise, numbers, scores, first_gain,
        scratch, scratch[steps:], scratch[2 * steps :], drafted.places, drafted.drift,
        drafted.gains, drafted.scale, drafted.second_scale, drafted.carried,
        drafted.second_carried, TIE_TOLERANCE, TIE_FLOOR,
        RULE=rule, LENGTH=length, STEPS=steps, AT_ONCE=AT_ONCE, num_warps=16,
    )  # fmt: skip
    return drafted
