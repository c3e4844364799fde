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
    columns, seconds, places, drift, gains, scale, second_scale, carried, second_carried,
    tie_tolerance, tie_floor, steps,
    RULE: tl.constexpr, LENGTH: tl.constexpr, MOST: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    lanes = tl.arange(0, LENGTH)
    some = tl.arange(0, AT_ONCE)
    rho = tl.load(noise + lanes)
    number = tl.load(numbers + lanes)
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
    for step in range(steps):
        worth = gain(rank(variance, second, rho, RULE), RULE)
        worth = tl.where(is_open, worth, float("-inf"))
        best = tl.max(worth, axis=0)
        first = tl.where(first != first, best, first)  # NaN until the first pick of all
        width = tl.where(
            best > float("-inf"), tie_tolerance * tl.abs(best) + tie_floor * tl.abs(first), 0.0
        )
        winner = tl.min(tl.where(worth >= best - width, number, 9223372036854775807), axis=0)
        place = tl.min(tl.where(number == winner, lanes, LENGTH), axis=0)
        tl.store(places + step, place)
        tl.store(gains + step, tl.sum(tl.where(lanes == place, worth, 0.0), axis=0))
        c = tl.load(first_matrix + place * LENGTH + lanes)
        b = c
        if RULE < 2:
            b = tl.load(second_matrix + place * LENGTH + lanes)
        for start in range(0, step, AT_ONCE):
            before = start + some
            known = before < step
            s = tl.load(scale + before, mask=known, other=1.0)
            at_place = tl.load(columns + before * LENGTH + place, mask=known, other=0.0)
            tl.store(carried + step * MOST + before, at_place / s, mask=known)
            earlier = tl.load(
                columns + before[:, None] * LENGTH + lanes[None, :], mask=known[:, None], other=0.0
            )
            c -= tl.sum(earlier * (at_place / s)[:, None], axis=0)
            if RULE < 2:
                also = tl.load(
                    seconds + before[:, None] * LENGTH + lanes[None, :],
                    mask=known[:, None],
                    other=0.0,
                )
                e = tl.load(second_scale + before, mask=known, other=1.0)
                also_at_place = tl.load(seconds + before * LENGTH + place, mask=known, other=0.0)
                if RULE == 0:
                    tl.store(second_carried + step * MOST + before, also_at_place / e, mask=known)
                    b -= tl.sum(also * (also_at_place / e)[:, None], axis=0)
                else:
                    b -= tl.sum(also * (at_place / s)[:, None], axis=0)
                    weight = also_at_place / s - e * at_place / (s * s)
                    b -= tl.sum(earlier * weight[:, None], axis=0)
        of_place = lanes == place
        noise_at_place = tl.sum(tl.where(of_place, rho, 0.0), axis=0)
        s = tl.maximum(tl.sum(tl.where(of_place, c, 0.0), axis=0), 0.0) + noise_at_place
        tl.store(scale + step, s)
        tl.store(columns + step * LENGTH + lanes, c)
        variance = tl.maximum(variance - c * c / s, 0.0)
        if RULE < 2:
            e = tl.maximum(tl.sum(tl.where(of_place, b, 0.0), axis=0), 0.0)
            if RULE == 0:
                e += noise_at_place
                second = tl.maximum(second - b * b / e, 0.0)
            else:
                second = tl.maximum(second - 2.0 * c * b / s + c * c * (e / (s * s)), 0.0)
            tl.store(second_scale + step, e)
            tl.store(seconds + step * LENGTH + lanes, b)
        is_open = is_open & (lanes != place)
        tl.debug_barrier()  # the next step reads what other threads have stored


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
    scratch = torch.empty(2, steps, length, dtype=torch.float64, device=device)
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
        scratch[0], scratch[1], drafted.places, drafted.drift, drafted.gains, drafted.scale,
        drafted.second_scale, drafted.carried, drafted.second_carried,
        TIE_TOLERANCE, TIE_FLOOR, steps,
        RULE=rule, LENGTH=length, MOST=steps, AT_ONCE=AT_ONCE, num_warps=16,
    )  # fmt: skip
    return drafted
