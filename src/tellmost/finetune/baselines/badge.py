"""BADGE: batch active learning by diverse gradient embeddings."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tellmost.finetune.baselines.asking import check_count
from tellmost.finetune.embedding import Embedding
from tellmost.finetune.loss_gradients import LossGradients
from tellmost.finetune.strategies import Scene
from tellmost.finetune.targeted import Targeted
from tellmost.shapes import Int


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
