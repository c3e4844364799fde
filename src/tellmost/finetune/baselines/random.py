"""Random choice."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tellmost.finetune.baselines.asking import check_count
from tellmost.finetune.strategies import Scene
from tellmost.shapes import Int


@dataclass(frozen=True)
class Random:
    """Any candidates, all alike: the baseline that every strategy has to beat.

    The network is not asked, so nothing is embedded.
    """

    name: ClassVar[str] = "random"

    def choose(self, scene: Scene, k: int) -> Int[np.ndarray, " k"]:
        check_count(scene, k)
        return scene.generator.permutation(len(scene.candidates))[:k]
