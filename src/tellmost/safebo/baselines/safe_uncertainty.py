"""Uncertainty sampling inside the safe set."""

from dataclasses import dataclass
from typing import ClassVar

from tellmost.safebo.choosing import best_row
from tellmost.safebo.strategies import Choice, Scene


@dataclass(frozen=True)
class SafeUncertainty:
    r"""The safe point with the widest interval, in prior standard deviations.

    .. math:: \arg\max_{x \in S_n} \max_i u_{n,i}(x) - l_{n,i}(x)

    Schreiter et al. 2015.
    """

    keeps_safe: ClassVar[bool] = True

    def choose(self, scene: Scene) -> Choice:
        return Choice(best_row(scene.best_open(scene.widths)), "explore")
