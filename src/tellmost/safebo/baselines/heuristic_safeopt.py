"""Heuristic SafeOpt: expanders by imagined observations instead of a Lipschitz constant."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tellmost.numerics import CHUNK_BYTES, TIE_TOLERANCE, nonnegative
from tellmost.rows.sources import spans
from tellmost.safebo.baselines.safeopt import find_maximizers
from tellmost.safebo.choosing import best_row
from tellmost.safebo.constraints import Side
from tellmost.safebo.stages import Stage
from tellmost.safebo.strategies import Choice, Scene
from tellmost.shapes import Bool, Float, Int


@dataclass(frozen=True)
class HeuristicSafeOpt:
    r"""Uncertainty sampling among maximizers and points that could enlarge the safe set.

    .. math:: G_n = \{x \in S_n : |S_{n+1}| > |S_n| \text{ if } y_{n+1} = u_n(x)\}

    and :math:`M_n`, widths and choice as in ``SafeOpt``; S_n is that of the confidence bounds.
    Berkenkamp et al. 2016; Hübotter et al. 2024, App. "Detailed Comparison with Prior Works".
    Each limit imagines the best for itself: u for a lower limit, l for an upper one. The width of
    the imagined bounds is that of the present ones.
    """

    keeps_safe: ClassVar[bool] = True

    def choose(self, scene: Scene) -> Choice:
        """Widest first: a point less wide than one that was found cannot be chosen."""
        is_maximizer = find_maximizers(scene)
        widths = scene.best_open(scene.widths)
        is_known = scene.is_open & is_maximizer
        reached = float(widths[is_known].max()) if bool(is_known.any()) else -torch.inf
        rows = (scene.is_open & scene.is_safe & ~is_maximizer).nonzero()[:, 0]
        rows = rows[widths[rows] >= reached * (1 - TIE_TOLERANCE)]
        by_width = widths[rows].argsort(descending=True, stable=True)
        is_wanted = is_known.clone()
        is_wanted[self._first_expanders(scene, rows[by_width])] = True
        among = is_wanted if bool(is_wanted.any()) else scene.is_open  # a step may forbid them
        row = best_row(scene.widths.where(among, -torch.inf))
        return Choice(row, "explore" if bool(is_maximizer[row]) else "expand")

    def _first_expanders(self, scene: Scene, rows: Int[Tensor, " b"]) -> Int[Tensor, " _"]:
        """Those of the first block of rows that has some."""
        for start, stop in spans(len(rows), max(CHUNK_BYTES // (8 * len(scene.is_open)), 1)):
            some = rows[start:stop]
            found = some[find_expanders(scene.stage, some)]
            if len(found):
                return found
        return rows[:0]


def find_expanders(stage: Stage, rows: Int[Tensor, " b"]) -> Bool[Tensor, " b"]:
    """Whether the safe set would have more points if a row came out as well as it may."""
    is_row, is_kept = stage.is_candidate, torch.ones(len(rows), len(stage.points)).bool()
    for number, side in enumerate(stage.model.sides):
        margin = imagine_margins(stage, rows, side)
        if stage.model.confidence.is_intersected:
            margin = torch.maximum(margin, stage.sets.worst[number])
        is_kept &= margin >= 0
    return is_kept[:, is_row].sum(dim=1) > stage.sets.is_safe[is_row].sum()


def imagine_margins(stage: Stage, rows: Int[Tensor, " b"], side: Side) -> Float[Tensor, "b n"]:
    """Of one limit at all points, at worst, had each row come out at its optimistic bound."""
    o = side.output
    view, bounds, mean, std = stage.views[o], stage.bounds, stage.mean[o], stage.std[o]
    hoped = bounds.upper[o, rows] if side.is_lower else bounds.lower[o, rows]
    covariance = view.covariance(rows)
    share = covariance / (std[rows].square() + view.noise_variance[rows])[:, None]
    after = mean + share * (hoped - mean[rows])[:, None]
    width = stage.betas[o] * nonnegative(std.square() - share * covariance).sqrt()
    return side.margins(after - width, after + width)[0]
