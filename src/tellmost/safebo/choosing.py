"""The choice of a round: what is to be learned, and which of the open points teaches most."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.learner.climbing import find_starts, refine
from tellmost.numerics import LEADERS, REFINED_STARTS, SAFE_BISECTIONS, SKETCH_BAND, TIE_TOLERANCE
from tellmost.safebo.query import Purpose
from tellmost.safebo.stages import Stage
from tellmost.shapes import Bool, Float, Int
from tellmost.targets import Known, NoTargetsLeft, Targets
from tellmost.targets.box import Box

Allowed = Callable[[Points], Bool[Tensor, " b"]]
"""Whether points anywhere may be asked for."""


@dataclass(frozen=True)
class Lesson:
    """What a round is to learn about: targets among its rows, and some of the outputs."""

    stage: Stage
    is_target: Bool[Tensor, " n"]
    outputs: tuple[int, ...]

    @classmethod
    def of(cls, targets: Targets, known: Known, stage: Stage) -> "Lesson":
        answer: Any = targets.choose(known)
        mask = torch.as_tensor(np.asarray(answer))
        if mask.dtype != torch.bool or mask.shape != (len(known.points),):
            raise ValueError(
                f"targets of a SafeOptimizer must be a mask over the points of the round, "
                f"({len(known.points)},) of bool; got {mask.dtype} of shape {tuple(mask.shape)}."
            )
        if not bool(mask.any()):
            raise NoTargetsLeft(
                "no point belongs to the targets any more: nothing is left to learn about."
            )
        outputs = list(range(len(stage.views)))
        if not getattr(targets, "about_objective", True):
            outputs = sorted({side.output for side in stage.model.sides})
        is_target = torch.zeros_like(stage.is_candidate)
        is_target[stage.is_candidate] = mask
        return cls(stage, is_target, tuple(outputs))

    def gains(self, is_open: Bool[Tensor, " n"], pending: Sequence[int]) -> Float[Tensor, " n"]:
        """Summed over outputs; -inf where a row is not open. Of a single open point 0."""
        rows = is_open.nonzero()[:, 0]
        gains = torch.full((len(is_open),), -torch.inf, dtype=torch.float64)
        if bool((self.stage.points[rows] == self.stage.points[rows[0]]).all()):
            gains[rows] = 0.0  # a single point: there is nothing to choose
            return gains
        gains[rows] = self._sum_gains(rows, pending)
        views = [self.stage.views[number] for number in self.outputs]
        if any(view.can_be_confirmed for view in views):
            leaders = find_leaders(gains)
            gains[leaders] = self._sum_gains(leaders, pending, is_dense=True)
        return gains

    def _sum_gains(
        self, rows: Int[Tensor, " b"], pending: Sequence[int], *, is_dense: bool = False
    ) -> Float[Tensor, " b"]:
        each = [
            count * self.stage.views[number].gains(rows, self.is_target, pending, is_dense)
            for number, count in self._count_alike().items()
        ]
        return torch.stack(each).sum(dim=0)

    def _count_alike(self) -> dict[int, int]:
        """Outputs of different variances, and how many have those of each."""
        counts: dict[int, int] = {}
        views = self.stage.views
        for number in self.outputs:
            alike = (other for other in counts if views[number].varies_as(views[other]))
            first = next(alike, number)
            counts[first] = counts.get(first, 0) + 1
        return counts

    def purpose_of_row(self, row: int) -> Purpose:
        noise = [self.stage.views[number].noise_of(row) for number in self.outputs]
        return self._purpose(self.stage.points[row : row + 1], noise)

    def purpose_at(self, point: Points) -> Purpose:
        """Of a point between the rows."""
        model, stage = self.stage.model, self.stage
        noise = [float(model.noise_at(o, point)) / stage.scale(o) ** 2 for o in self.outputs]
        return self._purpose(point, noise)

    def _purpose(self, point: Points, noise: Sequence[float]) -> Purpose:
        """To expand, if most of the variance it removes is at points not known to be safe."""
        removed = torch.zeros(int(self.is_target.sum()), dtype=torch.float64)
        for number, noise_variance in zip(self.outputs, noise, strict=True):
            removed += self.stage.views[number].removed(point, noise_variance, self.is_target)
        safely = removed[self.stage.sets.is_safe[self.is_target]].sum()
        return "explore" if 2 * float(safely) >= float(removed.sum()) else "expand"

    def climb(
        self,
        gains: Float[Tensor, " n"],
        box: Box,
        is_allowed: Allowed,
        pending: Sequence[int],
    ) -> Points:
        """From the best rows to where the gain is largest, without leaving what is allowed.

        What is allowed may end on the way to a summit, so a row itself can be the best.
        """
        is_open = gains > -torch.inf
        points = self.stage.points[is_open]
        starts = points[find_starts(points, gains[is_open], REFINED_STARTS, box)]
        gain = self._gain_anywhere(pending, box)
        ends, _ = refine(gain, starts, box)
        found = torch.cat([starts, last_allowed(starts, ends, box, is_allowed)])
        return found[best_row(gain(found))][None]

    def _gain_anywhere(
        self, pending: Sequence[int], box: Box
    ) -> Callable[[Points], Float[Tensor, " b"]]:
        stage, rule = self.stage, self.stage.model.rule
        views = [stage.views[number] for number in self.outputs]
        trackers = [view.about(self.is_target, pending) for view in views]

        def gain(x: Points) -> Float[Tensor, " b"]:
            each = []
            for number, tracker in zip(self.outputs, trackers, strict=True):
                noise = stage.model.noise_near(number, x, box) / stage.scale(number) ** 2
                each.append(rule.gain(tracker.state_at(x, noise)))
            return torch.stack(each).sum(dim=0)

        return gain


def find_leaders(gains: Float[Tensor, " n"]) -> Int[Tensor, " b"]:
    """Rows that may be the best for all that a sketch says; of many the likeliest."""
    best, rows = torch.topk(gains, min(LEADERS, len(gains)))
    return rows[best >= best[0] - SKETCH_BAND * best[0].abs()].sort().values


def best_row(gains: Float[Tensor, " n"]) -> int:
    """The lowest of the rows whose gain is the largest, up to rounding."""
    best = gains.max()
    return int((gains >= best - TIE_TOLERANCE * best.abs()).nonzero()[0])


def last_allowed(starts: Points, ends: Points, box: Box, is_allowed: Allowed) -> Points:
    """On the way from each start to its end the farthest point that was found allowed."""

    def go(share: Float[Tensor, "b 1"]) -> Points:
        return box.clip(starts * (1 - share) + ends * share)  # exact at both ends

    low = is_allowed(ends).to(starts)[:, None]  # 1: the end itself
    high = torch.ones_like(low)
    for _ in range(SAFE_BISECTIONS):
        middle = (low + high) / 2
        allowed = is_allowed(go(middle))[:, None]
        low, high = torch.where(allowed, middle, low), torch.where(allowed, high, middle)
    return go(low)
