"""SafeOpt: measure what is known least among possible maximizers and expanders."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tellmost.safebo.choosing import best_row
from tellmost.safebo.slopes import Slopes, grow
from tellmost.safebo.stages import Stage, Track
from tellmost.safebo.strategies import Choice, Scene
from tellmost.shapes import Bool


@dataclass(frozen=True)
class SafeOpt:
    r"""Uncertainty sampling among maximizers and expanders, in a safe set made by slopes.

    .. math::
        M_n = \{x \in S_n : u_{n,f}(x) \ge \max_{S_n} l_{n,f}\}, \qquad
        G_n = \{x \in S_n : \exists x' \notin S_n,\; u_{n,i}(x) - L_i \|x - x'\| \ge 0
        \;\forall i\}, \qquad
        \arg\max_{x \in M_n \cup G_n} \max_i u_{n,i}(x) - l_{n,i}(x)

    Sui et al. 2015, several constraints: Berkenkamp et al. 2021; here as in Hübotter et al. 2024,
    App. "Detailed Comparison with Prior Works". S_n is that of ``slopes.grow``: the constants are
    those of the constraints, ``tm.Constraint(..., lipschitz=...)``. Widths are in prior standard
    deviations.
    """

    keeps_safe: ClassVar[bool] = True

    def track(self, stage: Stage, before: Track | None) -> Track:
        return grow(stage, before)

    def choose(self, scene: Scene) -> Choice:
        is_maximizer = find_maximizers(scene)
        is_wanted = scene.is_open & (is_maximizer | find_expanders_by_slope(scene))
        among = is_wanted if bool(is_wanted.any()) else scene.is_open  # a step may forbid them
        row = best_row(scene.widths.where(among, -torch.inf))
        return Choice(row, "explore" if bool(is_maximizer[row]) else "expand")


def find_expanders_by_slope(scene: Scene) -> Bool[Tensor, " n"]:
    """G_n: safe points from which an unproven one may be within reach."""
    stage, is_safe = scene.stage, scene.is_safe
    beyond = stage.points[stage.is_candidate & ~is_safe]
    where, best = stage.points[is_safe], stage.sets.best[:, is_safe]
    found = torch.zeros_like(is_safe)
    found[is_safe] = Slopes.of(stage.model).reaching(where, best, beyond)
    return found


def find_maximizers(scene: Scene) -> Bool[Tensor, " n"]:
    """Safe points that may be the best of the safe ones."""
    lower, upper = scene.stage.rising()
    return scene.is_safe & (upper >= lower.where(scene.is_safe, -torch.inf).max())
