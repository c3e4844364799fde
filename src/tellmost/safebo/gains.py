"""A round is to learn about its targets, and a gain says what a measurement teaches about them."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.learner.climbing import best_row, find_starts, refine
from tellmost.numerics import REFINED_STARTS, TIE_TOLERANCE
from tellmost.rules import ITL
from tellmost.safebo.outputs import OutputPosterior
from tellmost.safebo.round_state import RoundState
from tellmost.safebo.trials import Purpose
from tellmost.shapes import Bool, Float, Int
from tellmost.targets import Known, NoTargetsLeft, ProbableMaximizers, Targets
from tellmost.targets.box import Box

CONFIRMED = 8
"""So many of the best rows by rough gains, and as many others, have exact gains made of them
first, and twice as many each time after that."""

DOUBT = 4.0
"""Rows that were not looked at may be underrated by so many times the most that was seen."""

SMALL = 128
"""Seeing the targets among so few rows takes a few milliseconds."""

SAFE_QUARTERINGS = 10
"""The way back from a point that is not safe is cut into quarters so often: to a millionth of its
length."""

Allowed = Callable[[Points], Bool[Tensor, " b"]]
"""Says which of some points anywhere may be asked for."""


@dataclass(frozen=True)
class RoundTargets:
    """A round is to learn about targets among its rows, for some of the outputs."""

    state: RoundState
    weights: Float[Tensor, " n"]  # 0 where a row is no target
    outputs: tuple[int, ...]

    @classmethod
    def of(cls, targets: Targets, known: Known, state: RoundState) -> "RoundTargets":
        if isinstance(targets, ProbableMaximizers):
            given = torch.from_numpy(targets.weights(known))
            mask = given > 0
        else:
            mask = given = torch.as_tensor(np.asarray(targets.choose(known)))
        if mask.dtype != torch.bool or mask.shape != (len(known.points),):
            raise ValueError(
                f"targets of a SafeOptimizer must be a mask over the points of the round, "
                f"({len(known.points)},) of bool; got {mask.dtype} of shape {tuple(mask.shape)}."
            )
        if not bool(mask.any()):
            raise NoTargetsLeft(
                "no point belongs to the targets any more: nothing is left to learn about."
            )
        outputs = list(range(len(state.posteriors)))
        if not getattr(targets, "about_objective", True):
            outputs = sorted({side.output for side in state.model.sides})
        weights = torch.zeros(len(state.points), dtype=torch.float64)
        weights[state.is_candidate] = given.double() / given.sum()
        return cls(state, weights, tuple(outputs))

    @property
    def is_target(self) -> Bool[Tensor, " n"]:
        return self.weights > 0

    def gains(self, is_open: Bool[Tensor, " n"], pending: Sequence[int]) -> Float[Tensor, " n"]:
        """The gains of the open rows, summed over outputs; -inf where a row is not open."""
        rows = is_open.nonzero()[:, 0]
        gains = torch.full((len(is_open),), -torch.inf, dtype=torch.float64)
        if bool((self.state.points[rows] == self.state.points[rows[0]]).all()):
            return gains.where(~is_open, 0.0)  # a single point, so there is nothing to choose
        rule = self.state.model.rule
        if self._is_large and isinstance(rule, ITL) and rule.about == "f":
            gains[rows] = self._gains_near_the_best(rows, pending)
            return gains
        gains[rows] = self._sum_gains(rows, pending)
        if any(self.state.posteriors[number].is_interpolated for number in self.outputs):
            confirm_best(gains, lambda some: self._sum_gains(some, pending, is_dense=True))
        return gains

    @property
    def _is_large(self) -> bool:
        """If true, the domain is finite, and too large to see its targets without need."""
        return self.state.layout.is_kept and len(self.weights) > SMALL

    def _gains_near_the_best(
        self, rows: Int[Tensor, " b"], pending: Sequence[int]
    ) -> Float[Tensor, " b"]:
        """Gains of ITL about f: upper bounds, and exact where these leave open which is the best.

        Where only targets can be the best, their own uncertainty mostly decides, and no other
        value has to be taken for seen.
        """
        lower, upper = self._sum(lambda one: one.gain_bounds(rows, self.weights, pending))
        tie = TIE_TOLERANCE * float(upper.max())
        near = (upper >= float(lower.max()) - tie).nonzero()[:, 0]
        if len(near) > 1 and float((upper - lower)[near].max()) > tie:
            upper[near] = self._sum_gains(rows[near], pending)
        return upper

    def _sum_gains(
        self, rows: Int[Tensor, " b"], pending: Sequence[int], *, is_dense: bool = False
    ) -> Float[Tensor, " b"]:
        return self._sum(lambda one: (one.gains(rows, self.weights, pending, is_dense),))[0]

    def _sum(
        self, of: Callable[[OutputPosterior], tuple[Float[Tensor, " b"], ...]]
    ) -> list[Float[Tensor, " b"]]:
        """Sums over the outputs. It is made once of outputs that vary alike."""
        counts = Counter(map(self.state.first_alike, self.outputs))
        each = [[count * v for v in of(self.state.posteriors[i])] for i, count in counts.items()]
        return [torch.stack(values).sum(dim=0) for values in zip(*each, strict=True)]

    # ---- the purpose of a query

    def purpose_of(self, where: int | Points) -> Purpose:
        """Say why to ask for a row, or for a single point between the rows.

        It expands if most of the variance that it removes is at points not known to be safe.
        """
        state = self.state
        is_target = self.is_target
        removed = torch.zeros(int(is_target.sum()), dtype=torch.float64)
        for o in self.outputs:
            posterior = state.posteriors[o]
            if isinstance(where, int):
                point, noise = state.points[[where]], float(posterior.noise_variance[where])
            else:
                point = where
                noise = float(state.model.noise_at(o, point)) / state.scale(o) ** 2
            removed += posterior.removed(point, noise, is_target) * self.weights[is_target]
        safely = removed[state.sets.is_safe[is_target]].sum()
        return "explore" if 2 * float(safely) >= float(removed.sum()) else "expand"

    # ---- between the rows

    def climb(
        self, gains: Float[Tensor, " n"], box: Box, is_allowed: Allowed, pending: Sequence[int]
    ) -> Points:
        """Climb from the best rows to where the gain is largest, within what is allowed.

        What is allowed may end on the way to a maximum, so a row itself can be the best.
        """
        is_open = gains > -torch.inf
        points = self.state.points[is_open]
        starts = points[find_starts(points, gains[is_open], REFINED_STARTS, box)]
        gain = self.gain_anywhere(pending, box)
        ends, _ = refine(gain, starts, box)
        found = torch.cat([starts, last_allowed(starts, ends, box, is_allowed)])
        return found[best_row(gain(found))][None]

    def gain_anywhere(
        self, pending: Sequence[int], box: Box
    ) -> Callable[[Points], Float[Tensor, " b"]]:
        """The gain as a function of points of the box, differentiable."""
        state, rule = self.state, self.state.model.rule
        numbers = Counter(map(state.first_alike, self.outputs))
        trackers = [state.posteriors[o].about(self.weights, pending) for o in numbers]

        def gain(x: Points) -> Float[Tensor, " b"]:
            each = []
            for (number, count), tracker in zip(numbers.items(), trackers, strict=True):
                noise = state.model.noise_at(number, x, box) / state.scale(number) ** 2
                each.append(count * rule.gain(tracker.state_at(x, noise)))
            return torch.stack(each).sum(dim=0)

        return gain


def confirm_best(
    gains: Float[Tensor, " n"], exactly: Callable[[Int[Tensor, " b"]], Float[Tensor, " b"]]
) -> None:
    """Put exact gains in the place of rough ones, until no other row can be the best.

    What no exact gain was made of lies below the best, less what the others rose at most, times
    DOUBT. The best by rough gains are overrated rather than underrated, so rows from everywhere
    are looked at with them.
    """
    order = gains.argsort(descending=True, stable=True)[: int((gains > -torch.inf).sum())]
    is_early = torch.arange(len(order)) < CONFIRMED
    is_early[CONFIRMED :: max(len(order) // CONFIRMED, 1)] = True
    order = torch.cat([order[is_early], order[~is_early]])
    best, underrated, done, size = -torch.inf, 0.0, 0, int(is_early.sum())
    while done < len(order):
        rows = order[done : done + size].sort().values
        exact = exactly(rows)
        underrated = max(underrated, float((exact - gains[rows]).max()))
        best = max(best, float(exact.max()))
        gains[rows] = exact
        done, size = done + len(rows), max(done, CONFIRMED)
        rest = order[done : done + 1]
        if bool((gains[rest] + DOUBT * underrated < best - TIE_TOLERANCE * abs(best)).all()):
            return


def last_allowed(starts: Points, ends: Points, box: Box, is_allowed: Allowed) -> Points:
    """The farthest point on the way from each start to its end that was found allowed."""

    is_end = is_allowed(ends)
    if bool(is_end.all()):
        return ends
    starts, left, reached = starts[~is_end], ends[~is_end], ends.clone()

    def go(shares: Float[Tensor, "b s"]) -> Points:
        there = starts[:, None] * (1 - shares[..., None]) + left[:, None] * shares[..., None]
        return box.clip(there.flatten(0, 1))  # exact at both ends

    steps = torch.tensor([1.0, 2.0, 3.0]).to(starts)
    low, width = starts.new_zeros(len(starts), 1), 1.0
    for _ in range(SAFE_QUARTERINGS):
        width /= 4
        allowed = is_allowed(go(low + width * steps)).view(-1, len(steps))
        low += width * (allowed * steps).amax(dim=1, keepdim=True)
    reached[~is_end] = go(low)
    return reached
