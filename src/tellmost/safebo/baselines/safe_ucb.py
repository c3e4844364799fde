"""UCB inside the safe set."""

from dataclasses import dataclass
from typing import ClassVar

from tellmost.safebo.choosing import best_row
from tellmost.safebo.strategies import Choice, Scene


@dataclass(frozen=True)
class SafeUCB:
    r"""The safe point whose objective may be the best; the safe set grows by accident alone.

    .. math:: \arg\max_{x \in S_n} u_{n,f}(x)

    Srinivas et al. 2010, restricted to S_n.
    """

    keeps_safe: ClassVar[bool] = True

    def choose(self, scene: Scene) -> Choice:
        _, upper = scene.stage.rising()
        return Choice(best_row(scene.best_open(upper)), "explore")
