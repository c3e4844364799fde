"""Baselines that keep a batch diverse: BADGE, CoreSet and BAIT; and RandomChoice, to beat."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from tellmost.finetune.embedding import Embedding
from tellmost.finetune.gradients import LossGradients
from tellmost.finetune.layers import LastLayer
from tellmost.finetune.strategies import RoundInputs, Targeted, check_count
from tellmost.shapes import Int


@dataclass(frozen=True)
class RandomChoice:
    """Candidates drawn at random: the baseline that every strategy has to beat.

    The network is not used, so nothing is embedded.
    """

    name: ClassVar[str] = "random"

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        check_count(inputs, k)
        return inputs.generator.permutation(len(inputs.candidates))[:k]


@dataclass(frozen=True)
class BADGE:
    r"""Prefer large and different gradients: k-means++ seeds are drawn among them.

    .. math::
        P(x) \propto \min_{s \in B} |g(x) - g(s)|^2, \qquad
        g(x) = \nabla_{\theta'} \ell(f(x; \theta), \hat y(x))

    Ash et al. 2020: g is the gradient of the cross entropy in the last layer's parameters if the
    predicted label :math:`\hat y` is the right one; B is the batch so far. The distances come from
    products of residuals and of features, so no gradient is ever written out. The first pick is
    uniform, as in Hübotter et al. 2024, App. "Baselines", and in k-means++.
    """

    embedding: Embedding = field(default_factory=LossGradients)
    name: ClassVar[str] = "badge"

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        check_count(inputs, k)
        return Targeted("k-means++", embedding=self.embedding).choose(inputs, k)


@dataclass(frozen=True)
class CoreSet:
    r"""Prefer what is farthest from everything chosen, in this batch or (``observed``) before.

    .. math:: \min_{s \in D} d(x, s), \qquad d(x, s)^2 = k(x, x) + k(s, s) - 2\, k(x, s)

    Sener and Savarese 2018, the greedy k-centre choice; it is MaxDist in Hübotter et al. 2024,
    App. "Baselines". It is the rule ``tm.rules.KCenter`` on the network's points: where nothing
    was chosen, the first pick is the longest point. What was labelled before counts inside the
    task and outside.
    """

    embedding: Embedding = field(default_factory=LastLayer)
    observed: bool = True
    name: ClassVar[str] = "coreset"

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        check_count(inputs, k)
        rule = Targeted("k-center", embedding=self.embedding, observed=self.observed)
        return rule.choose(replace(inputs, observed=inputs.labelled), k)


@dataclass(frozen=True)
class BAIT:
    r"""Prefer what lowers the mean variance of all candidates most.

    .. math:: \frac{\frac1n \sum_z k_D(x, z)^2}{k_D(x, x) + \rho^2}

    Ash et al. 2021 in the form of Holzmüller et al. 2023 and of Hübotter et al. 2024, App.
    "Baselines": undirected VTL. For squared losses the Fisher information of the last layer is
    :math:`\phi \phi^\top`. Then this is BAIT's objective in forward steps: the trace of the
    candidates' information against the inverse of what is chosen. For classifiers the original has
    a matrix per class instead, chooses twice as many, and drops half of them again.
    """

    embedding: Embedding = field(default_factory=LastLayer)
    noise_ratio: float | None = None
    noise_std: float | None = None
    observed: bool = False
    name: ClassVar[str] = "bait"

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        check_count(inputs, k)
        return Targeted(
            "undirected-vtl",
            embedding=self.embedding,
            noise_ratio=self.noise_ratio,
            noise_std=self.noise_std,
            observed=self.observed,
        ).choose(inputs, k)
