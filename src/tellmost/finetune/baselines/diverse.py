r"""BADGE: batch active learning by diverse gradient embeddings.

CoreSet, also known as MaxDist.

Random choice.

Similarity to the targets: CosineSimilarity and InformationDensity.

.. math::
    \angle(x, A) = \frac1{|A|} \sum_{a \in A} \frac{k(x, a)}{\sqrt{k(x, x)\, k(a, a)}}

Hübotter et al. 2024, App. "Baselines". What is picked changes no score, so near duplicates are
picked together.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from torch import Tensor

from tellmost.finetune.baselines.asking import (
    Points,
    check_count,
    find_largest,
    read_logits,
    read_points,
)
from tellmost.finetune.baselines.undirected import entropy
from tellmost.finetune.embedding import Embedding
from tellmost.finetune.gradients import LossGradients
from tellmost.finetune.layers import LastLayer
from tellmost.finetune.strategies import Scene, Targeted
from tellmost.posterior.problem import prior_correlation
from tellmost.shapes import Float, Int


@dataclass(frozen=True)
class BADGE:
    r"""Prefer large and different gradients: a draw of k-means++ seeds among them.

    .. math::
        P(x) \propto \min_{s \in B} |g(x) - g(s)|^2, \qquad
        g(x) = \nabla_{\theta'} \ell(f(x; \theta), \hat y(x))

    Ash et al. 2020: g is the gradient of the cross entropy by the last layer's parameters, had the
    predicted label :math:`\hat y` been observed; B is the batch so far. The distances come from
    the product of residuals and of features, so no gradient is ever written out. The first pick
    is uniform, as in Hübotter et al. 2024, App. "Baselines", and in k-means++.
    """

    embedding: Embedding = field(default_factory=LossGradients)
    name: ClassVar[str] = "badge"

    def choose(self, scene: Scene, k: int) -> Int[np.ndarray, " k"]:
        check_count(scene, k)
        return Targeted("k-means++", embedding=self.embedding).choose(scene, k)


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


@dataclass(frozen=True)
class Random:
    """Any candidates, all alike: the baseline that every strategy has to beat.

    The network is not asked, so nothing is embedded.
    """

    name: ClassVar[str] = "random"

    def choose(self, scene: Scene, k: int) -> Int[np.ndarray, " k"]:
        check_count(scene, k)
        return scene.generator.permutation(len(scene.candidates))[:k]


@dataclass(frozen=True)
class CosineSimilarity:
    r"""Prefer what is most similar to the targets, on average: :math:`\angle(x, A)`.

    Settles and Craven 2008. The rule ``tm.rules.CosineSimilarity`` on the network's points.
    """

    embedding: Embedding = field(default_factory=LastLayer)
    name: ClassVar[str] = "cosine"

    def choose(self, scene: Scene, k: int) -> Int[np.ndarray, " k"]:
        check_count(scene, k)
        return Targeted("cosine", embedding=self.embedding).choose(scene, k)


@dataclass(frozen=True)
class InformationDensity:
    r"""Prefer what the classifier is unsure of and what is similar to the targets.

    .. math:: H(p(x)) \cdot \angle(x, A)^\beta

    Settles and Craven 2008, where the similarity is to the whole pool; to the targets as in
    Hübotter et al. 2024, App. "Baselines", with :math:`\beta = 1` there. A negative similarity
    keeps its sign, whatever the power, so that what is opposite to the targets comes last.
    """

    beta: float = 1.0
    embedding: Embedding = field(default_factory=LastLayer)
    name: ClassVar[str] = "information-density"

    def __post_init__(self) -> None:
        if not 0 < self.beta < float("inf"):
            raise ValueError(
                f"InformationDensity(beta) must be a positive number; got {self.beta!r}. Without "
                f"similarity it is MaxEntropy()."
            )

    def choose(self, scene: Scene, k: int) -> Int[np.ndarray, " k"]:
        check_count(scene, k)
        unsure = entropy(read_logits(scene, "candidates", "InformationDensity"))
        similarity = mean_cosine(
            read_points(scene, "candidates", self.embedding),
            read_points(scene, "targets", self.embedding),
        )
        return find_largest(unsure * similarity.sign() * similarity.abs() ** self.beta, k)


def mean_cosine(points: Points, targets: Points) -> Float[Tensor, " n"]:
    """Of each point with the targets; 0 with a point at the origin."""
    kernel = points.kernel
    covariance = kernel.block(points.rows, targets.rows)
    own, of_targets = kernel.diagonal(points.rows), kernel.diagonal(targets.rows)
    return prior_correlation(covariance, own, of_targets).mean(dim=1)
