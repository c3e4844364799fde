"""Any point of the safe set.

UCB inside the safe set.

Uncertainty sampling inside the safe set.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from tellmost.safebo.choice import best_row
from tellmost.safebo.strategies import Choice, Scene


@dataclass(frozen=True)
class SafeRandom:
    """One of the safe points, all alike; the optimizer's ``seed`` and the round decide which."""

    keeps_safe: ClassVar[bool] = True

    def choose(self, scene: Scene) -> Choice:
        rows = scene.is_open.nonzero()[:, 0]
        return Choice(
            int(rows[torch.randint(len(rows), (1,), generator=scene.generator)]), "explore"
        )


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


@dataclass(frozen=True)
class SafeUncertainty:
    r"""The safe point with the widest interval, in prior standard deviations.

    .. math:: \arg\max_{x \in S_n} \max_i u_{n,i}(x) - l_{n,i}(x)

    Schreiter et al. 2015.
    """

    keeps_safe: ClassVar[bool] = True

    def choose(self, scene: Scene) -> Choice:
        return Choice(best_row(scene.best_open(scene.widths)), "explore")
