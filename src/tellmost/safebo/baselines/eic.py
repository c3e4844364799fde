"""EIC: expected improvement, weighted by the probability that all constraints hold. Unsafe."""

from dataclasses import dataclass
from math import pi
from typing import ClassVar

import torch
from torch import Tensor

from tellmost.safebo.bounds import probability_safe
from tellmost.safebo.choosing import best_row
from tellmost.safebo.stages import Stage
from tellmost.safebo.strategies import Choice, Scene
from tellmost.shapes import Float


@dataclass(frozen=True)
class EIC:
    r"""Expected improvement with constraints. **It asks for points that may violate them.**

    .. math:: \arg\max_{x \in X} E[\max(f(x) - f^+, 0)] \prod_i P(g_i(x) \ge 0)

    Gardner et al. 2014. :math:`f^+` is the best posterior mean of the objective at a measured
    point where all constraints are expected to hold; without such a point the probability alone
    decides. A query that nothing proves safe has the purpose "risk", and negative ``lower``.
    """

    keeps_safe: ClassVar[bool] = False

    def choose(self, scene: Scene) -> Choice:
        stage = scene.stage
        scores = probability_safe(stage.mean, stage.std, stage.model.sides)
        best = find_incumbent(stage)
        if best is not None:
            scores = scores * expected_improvement(stage, best)
        return Choice(best_row(scene.best_open(scores)), "explore")


def find_incumbent(stage: Stage) -> float | None:
    """Of what is to be large, in prior standard deviations."""
    sign = -1.0 if stage.model.is_minimized else 1.0
    is_kept = torch.ones_like(stage.is_candidate)
    for side in stage.model.sides:
        mean = stage.mean[side.output]
        is_kept &= side.margins(mean, mean)[0] >= 0
    rows = [row for row in stage.views[0].seen_rows if bool(is_kept[row])]
    return float((sign * stage.mean[0, rows]).max()) if rows else None


def expected_improvement(stage: Stage, best: float) -> Float[Tensor, " n"]:
    r""":math:`\sigma (z \Phi(z) + \phi(z))` with :math:`z = (\mu - f^+) / \sigma`."""
    sign = -1.0 if stage.model.is_minimized else 1.0
    ahead, std = sign * stage.mean[0] - best, stage.std[0]
    z = ahead / std.where(std > 0, 1.0)
    density = (-0.5 * z.square()).exp() / (2 * pi) ** 0.5
    uncertain = std * (z * torch.special.ndtr(z) + density)
    return uncertain.where(std > 0, ahead.clamp(min=0.0))
