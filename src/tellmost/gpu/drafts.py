r"""Greedy selection on a shortlist in one launch, and the check of its picks against all rows.

With the joint posterior K of the shortlist, a pick's column, scaled by its observation's standard
deviation, is what the picks before it leave:

.. math::
    c_s = \Big(K_{\cdot p_s} - \sum_{i<s} c_i\, c_i[p_s]\Big) / \sqrt{v_s}, \qquad
    v_s = \mathrm{Var}[f_{p_s}] + \rho^2, \qquad \mathrm{Var} \leftarrow \mathrm{Var} - c_s^2.

ITL does the same with the posterior that saw the targets first. For VTL the second matrix is
:math:`W = \Sigma M \Sigma` in the place of :math:`\Sigma`, with q on its diagonal, and

.. math::
    h_s = W_{\cdot p_s} - \tfrac12 \sum_{i<s} (b_i\, c_i[p_s] + c_i\, b_i[p_s]), \qquad
    b_s = 2 h_s/\sqrt{v_s} - (q[p_s]/v_s)\, c_s, \qquad q \leftarrow q - c_s b_s.

The vectors whose products with the rows are c and b mix those of the picks in the same way;
``mixing`` has the coefficients.

A drafted pick stands if no row outside the shortlist comes near its gain, and if all picks before
it stand. ``replay`` looks at all rows for that: the columns of all drafted picks are at hand, each
divided by the root of its observation's variance, so that a step subtracts a square. ``commit``
then takes the picks that stand into the rows' values.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from tellmost.numerics import LEADER_BAND, TIE_FLOOR, TIE_TOLERANCE
from tellmost.shapes import Bool, Float, Int

AT_ONCE = 8  # earlier columns that are read together, to hide how long it takes


@triton.jit
def _draft_kernel(
    matrices, noise, numbers, scores, first_gain, columns, seconds, state,
    places, drift, gains, mixing, tie_tolerance, tie_floor,
    RULE: tl.constexpr, LENGTH: tl.constexpr, STEPS: tl.constexpr, WIDE: tl.constexpr,
    AT_ONCE: tl.constexpr,
):  # fmt: skip
    lanes = tl.arange(0, LENGTH)
    picks = tl.arange(0, WIDE)
    is_pick = picks < STEPS
    rho = tl.load(noise + lanes)
    key = tl.load(numbers + lanes) * LENGTH + lanes  # lowest number first, and its place
    running = tl.load(scores + lanes)
    is_open = running > float("-inf")
    variance = tl.maximum(tl.load(matrices + lanes * LENGTH + lanes), 0.0)
    second = variance
    if RULE < 2:
        second = tl.load(matrices + LENGTH * LENGTH + lanes * LENGTH + lanes)
        second = tl.maximum(second, 0.0)
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
        rho_there = tl.load(noise + place)
        variance_there = tl.load(state + place)
        second_there = tl.load(state + LENGTH + place)
        worth_there = gain(rank(variance_there, second_there, rho_there, RULE), RULE)
        tl.store(places + step, place)
        tl.store(gains + step, tl.where(best > float("-inf"), worth_there, best))
        c = tl.load(matrices + place * LENGTH + lanes)
        m = tl.where(picks == step, 1.0, 0.0).to(tl.float64)
        b = c
        p = m
        q = tl.zeros([WIDE], dtype=tl.float64)
        if RULE < 2:
            b = tl.load(matrices + LENGTH * LENGTH + place * LENGTH + lanes)
        for start in range(0, step, AT_ONCE):
            for k in tl.static_range(AT_ONCE):
                i = start + k
                known = i < step
                c_there = tl.load(columns + i * LENGTH + place, mask=known, other=0.0)
                c_i = tl.load(columns + i * LENGTH + lanes, mask=(lanes >= 0) & known, other=0.0)
                m_i = tl.load(mixing + i * STEPS + picks, mask=is_pick & known, other=0.0)
                c -= c_i * c_there
                m -= m_i * c_there
                if RULE < 2:
                    b_there = tl.load(seconds + i * LENGTH + place, mask=known, other=0.0)
                    b_i = tl.load(
                        seconds + i * LENGTH + lanes, mask=(lanes >= 0) & known, other=0.0
                    )
                    at = mixing + (STEPS + i) * STEPS + picks
                    p_i = tl.load(at, mask=is_pick & known, other=0.0)
                    if RULE == 0:
                        b -= b_i * b_there
                        p -= p_i * b_there
                    else:
                        at = mixing + (2 * STEPS + i) * STEPS + picks
                        q_i = tl.load(at, mask=is_pick & known, other=0.0)
                        b -= 0.5 * (b_i * c_there + c_i * b_there)
                        p -= 0.5 * p_i * c_there
                        q -= 0.5 * (q_i * c_there + m_i * b_there)
        scale = 1.0 / tl.sqrt(variance_there + rho_there)
        c *= scale
        m *= scale
        variance = tl.maximum(variance - c * c, 0.0)
        tl.store(columns + step * LENGTH + lanes, c)
        tl.store(mixing + step * STEPS + picks, m, mask=is_pick)
        if RULE == 0:
            second_scale = 1.0 / tl.sqrt(second_there + rho_there)
            b *= second_scale
            p *= second_scale
            second = tl.maximum(second - b * b, 0.0)
        elif RULE == 1:
            share = second_there * scale * scale
            b = 2.0 * scale * b - share * c
            p = 2.0 * scale * p
            q = 2.0 * scale * q - share * m
            second = tl.maximum(second - c * b, 0.0)
            tl.store(mixing + (2 * STEPS + step) * STEPS + picks, q, mask=is_pick)
        if RULE < 2:
            tl.store(seconds + step * LENGTH + lanes, b)
            tl.store(mixing + (STEPS + step) * STEPS + picks, p, mask=is_pick)
        is_open = is_open & (lanes != place)
        tl.debug_barrier()


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


ROWS = 512


@triton.jit
def _replay_kernel(
    columns, seconds, variance, second, noise, noise_stride, scores, best, change, n,
    RULE: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Find the best rank outside the shortlist and the fall of the summed variance, per step."""
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


@triton.jit
def rank(variance, second, noise, RULE: tl.constexpr):
    """A value that orders rows as the gain does; ``gain`` turns it into one."""
    if RULE == 0:  # ITL; second: the variance given the targets
        return tl.maximum(variance - second, 0.0) / (second + noise)
    elif RULE == 1:  # VTL; second: the squared covariance
        return second / (variance + noise)
    elif RULE == 2:
        return variance
    else:
        return variance / noise


@triton.jit
def gain(value, RULE: tl.constexpr):
    if (RULE == 0) or (RULE == 3):
        return 0.5 * log1p(value)
    else:
        return value


@triton.jit
def log1p(x):
    """log(1 + x) to the last digits, for x >= 0: what rounding takes from 1 + x is put back."""
    w = 1.0 + x
    rest = tl.where(w == 1.0, 1.0, w - 1.0)
    return tl.where(w == 1.0, x, tl.log(w) * (x / rest))


@triton.jit
def update(variance, second, c, b, RULE: tl.constexpr):
    """Take in an observation, by its scaled products with the row; both cut at zero."""
    variance = tl.maximum(variance - c * c, 0.0)
    if RULE == 0:
        second = tl.maximum(second - b * b, 0.0)
    elif RULE == 1:
        second = tl.maximum(second - c * b, 0.0)
    return variance, second


@dataclass(frozen=True)
class Board:
    """What the kernels of all rounds read and fill: n rows, T picks of a round, L drafted from.

    A step divides its columns by the root of its observation's variance.
    """

    rule: int
    variance: Float[Tensor, " n"]
    second: Float[Tensor, " n"]
    noise: Float[Tensor, " n"]
    scores: Float[Tensor, " n"]  # what ranks the rows; -inf for those that do not count
    columns: Float[Tensor, "q T n"]
    places: Int[Tensor, " T"]  # of the drafted picks in the shortlist
    gains: Float[Tensor, " T"]  # theirs; -inf where the shortlist ran out
    mixing: Float[Tensor, "3 T T"]  # of c; of b (ITL), or of b from W and from Sigma (VTL)
    drift: Float[Tensor, " 1"]  # of the scores that made the shortlist, relative to the best
    scratch: Float[Tensor, "_ L"]
    found: Float[Tensor, "2 P T"]
    accepted: Int[Tensor, ""]  # so many of the drafted picks stand
    table: Float[Tensor, "4 T"]  # of each: 1 if it stands, row, gain, what is uncertain after it
    first: Float[Tensor, " 1"]  # the first gain of all; NaN until there is one

    @classmethod
    def of(
        cls, rule: int, values: Sequence[Tensor], noise: Tensor, steps: int, length: int
    ) -> "Board":
        """A board for running values of one or two kinds."""
        n, device = len(noise), noise.device

        def floats(*shape: int) -> Tensor:
            return torch.zeros(*shape, dtype=torch.float64, device=device)

        return cls(
            rule=rule,
            variance=values[0],
            second=values[-1],
            noise=noise,
            scores=floats(n),
            columns=floats(len(values), steps, n),
            places=torch.zeros(steps, dtype=torch.int64, device=device),
            gains=floats(steps),
            mixing=floats(3, steps, steps),
            drift=floats(1),
            scratch=floats(2 * steps + 2, length),
            found=floats(2, triton.cdiv(n, ROWS), steps),
            accepted=torch.zeros((), dtype=torch.int32, device=device),
            table=floats(4, steps),
            first=torch.full((1,), float("nan"), dtype=torch.float64, device=device),
        )

    @property
    def steps(self) -> int:
        return len(self.places)

    @property
    def length(self) -> int:
        return self.scratch.shape[1]

    def draft(self, matrices: Float[Tensor, "q L L"], rows: Int[Tensor, " L"]) -> None:
        """Pick greedily from the shortlist, which has a power of two of rows."""
        scratch, steps = self.scratch, self.steps
        _draft_kernel[(1,)](
            matrices, self.noise[rows], rows, self.scores[rows], self.first,
            scratch, scratch[steps:], scratch[2 * steps :],
            self.places, self.drift, self.gains, self.mixing, TIE_TOLERANCE, TIE_FLOOR,
            RULE=self.rule, LENGTH=self.length, STEPS=steps, WIDE=triton.next_power_of_2(steps),
            AT_ONCE=AT_ONCE, num_warps=max(min(self.length // 64, 16), 1),
        )  # fmt: skip

    def replay(self) -> tuple[Float[Tensor, " T"], Float[Tensor, " P T"]]:
        """Find before each step the best rank of the rows that count.

        Also return, in pieces to be added up, how far the sum of all variances falls.
        """
        _replay_kernel[(self.found.shape[1],)](
            self.columns[0], self.columns[-1], self.variance, self.second,
            self.noise, self.noise.stride(0), self.scores, self.found[0], self.found[1],
            len(self.scores), RULE=self.rule, STEPS=self.steps, ROWS=ROWS,
        )  # fmt: skip
        return self.found[0].amax(dim=0), self.found[1]

    def judge(
        self,
        outside: Float[Tensor, " T"],
        rows: Int[Tensor, " L"],
        closed: Bool[Tensor, " n"],
        *,
        most: int,
        min_gain: float | None,
        min_share: float | None,
    ) -> None:
        """Say in the table which picks stand, at most so many, and close their rows."""
        least, share = (-torch.inf if x is None else x for x in (min_gain, min_share))
        _judge_kernel[(1,)](
            self.gains, outside, self.drift, self.places, rows, self.first,
            closed.view(torch.uint8), self.accepted, self.table,
            most, least, share, LEADER_BAND, TIE_FLOOR,
            RULE=self.rule, STEPS=self.steps, WIDE=triton.next_power_of_2(self.steps), num_warps=1,
        )  # fmt: skip

    def commit(self, closed: Bool[Tensor, " n"]) -> None:
        """Update the rows by the columns of the picks that stand, in place, and rank them."""
        _commit_kernel[(self.found.shape[1],)](
            self.columns[0], self.columns[-1], self.variance, self.second,
            self.noise, self.noise.stride(0), closed.view(torch.uint8), self.scores,
            self.accepted, len(self.scores), RULE=self.rule, STEPS=self.steps, ROWS=ROWS,
        )  # fmt: skip
