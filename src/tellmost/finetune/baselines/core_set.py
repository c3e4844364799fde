"""CoreSet, also known as MaxDist."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from tellmost.finetune.activations import LastLayer
from tellmost.finetune.baselines.asking import check_count
from tellmost.finetune.embedding import Embedding
from tellmost.finetune.strategies import Scene
from tellmost.finetune.targeted import Targeted
from tellmost.shapes import Int


@dataclass(frozen=True)
class CoreSet:
    r"""Prefer what is farthest from everything chosen, in this batch or (``observed``) before.

    .. math:: \min_{s \in D} d(x, s), \qquad d(x, s)^2 = k(x, x) + k(s, s) - 2\, k(x, s)

    Sener and Savarese 2018, the greedy k-centre choice; MaxDist in Hübotter et al. 2024, App.
    "Baselines". The rule ``tm.rules.KCenter`` on the network's points: with nothing chosen the
    first pick is the longest one. What was labelled before counts inside the task and outside.
    """

    embedding: Embedding = field(default_factory=LastLayer)
    observed: bool = True
    name: ClassVar[str] = "coreset"

    def choose(self, scene: Scene, k: int) -> Int[np.ndarray, " k"]:
        check_count(scene, k)
        rule = Targeted("k-center", embedding=self.embedding, observed=self.observed)
        return rule.choose(replace(scene, observed=scene.labelled), k)
