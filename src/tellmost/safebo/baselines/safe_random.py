"""Any point of the safe set."""

from dataclasses import dataclass
from typing import ClassVar

import torch

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
