r"""What a linear model on the network's points knows least: BAIT, UndirectedITL and
UncertaintySampling.

The model is :math:`f(x) = \beta^\top \phi(x)` with :math:`\beta \sim N(0, I)`, and
:math:`k_D` is its posterior covariance given what was chosen in this batch and, with ``observed``,
before. All are rules of ``tm.rules`` without targets.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tellmost.finetune.activations import LastLayer
from tellmost.finetune.baselines.asking import check_count
from tellmost.finetune.embedding import Embedding
from tellmost.finetune.strategies import Scene
from tellmost.finetune.targeted import Targeted
from tellmost.shapes import Int


@dataclass(frozen=True)
class BAIT:
    r"""Prefer what lowers the mean variance of all candidates most.

    .. math:: \frac{\frac1n \sum_z k_D(x, z)^2}{k_D(x, x) + \rho^2}

    Ash et al. 2021 in the form of Holzmüller et al. 2023 and of Hübotter et al. 2024, App.
    "Baselines": undirected VTL. For squared losses the Fisher information of the last layer is
    :math:`\phi \phi^\top`, and this is BAIT's objective, the trace of the candidates' information
    against the inverse of what is chosen, in forward steps. The original has a matrix per class in
    its place for classifiers, chooses twice as many, and drops half of them again.
    """

    embedding: Embedding = field(default_factory=LastLayer)
    noise_ratio: float | None = None
    noise_std: float | None = None
    observed: bool = False
    name: ClassVar[str] = "bait"

    def choose(self, scene: Scene, k: int) -> Int[np.ndarray, " k"]:
        check_count(scene, k)
        return Targeted(
            "undirected-vtl",
            embedding=self.embedding,
            noise_ratio=self.noise_ratio,
            noise_std=self.noise_std,
            observed=self.observed,
        ).choose(scene, k)


@dataclass(frozen=True)
class UndirectedITL:
    r"""Prefer what says most about the function as a whole (MaxDet).

    .. math:: I(f; y_x \mid D) = \tfrac12 \log\!\Big(1 + \frac{k_D(x, x)}{\rho^2}\Big)

    Holzmüller et al. 2023; Hübotter et al. 2024, App. "Baselines".
    """

    embedding: Embedding = field(default_factory=LastLayer)
    noise_ratio: float | None = None
    noise_std: float | None = None
    observed: bool = False
    name: ClassVar[str] = "undirected-itl"

    def choose(self, scene: Scene, k: int) -> Int[np.ndarray, " k"]:
        check_count(scene, k)
        return Targeted(
            "undirected-itl",
            embedding=self.embedding,
            noise_ratio=self.noise_ratio,
            noise_std=self.noise_std,
            observed=self.observed,
        ).choose(scene, k)


@dataclass(frozen=True)
class UncertaintySampling:
    r"""Prefer the longest points, each by itself: :math:`k(x, x) = |\phi(x)|^2`.

    Lewis and Catlett 1994; UnSa in Hübotter et al. 2024, App. "Baselines", where a pick does not
    change the others' variance: for a single pick it is undirected ITL, for a batch it is not.
    """

    embedding: Embedding = field(default_factory=LastLayer)
    name: ClassVar[str] = "uncertainty"

    def choose(self, scene: Scene, k: int) -> Int[np.ndarray, " k"]:
        check_count(scene, k)
        rule = Targeted("uncertainty", embedding=self.embedding, conditional=False)
        return rule.choose(scene, k)
