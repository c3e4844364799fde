r"""How unsure a classifier is of its own prediction: MaxEntropy, Margin and LeastConfidence.

All read the class probabilities :math:`p(x) = \mathrm{softmax}(f(x))`, with
:math:`p_{(1)} \ge p_{(2)} \ge \dots` in descending order, and take the k best by themselves: none
knows targets, none keeps a batch apart. The scores are sums of small probabilities where the
largest is near one, so that confident networks still rank their candidates.

What a linear model on the network's points knows least: BAIT, UndirectedITL and
UncertaintySampling.

The model is :math:`f(x) = \beta^\top \phi(x)` with :math:`\beta \sim N(0, I)`, and
:math:`k_D` is its posterior covariance given what was chosen in this batch and, with ``observed``,
before. All are rules of ``tm.rules`` without targets.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from tellmost.finetune.baselines.asking import check_count, find_largest, read_logits
from tellmost.finetune.embedding import Embedding
from tellmost.finetune.layers import LastLayer
from tellmost.finetune.strategies import Scene, Targeted
from tellmost.shapes import Float, Int


@dataclass(frozen=True)
class MaxEntropy:
    r"""Prefer the predictions of largest entropy.

    .. math:: H(p(x)) = -\sum_i p_i(x) \log p_i(x)

    Settles and Craven 2008; Hübotter et al. 2024, App. "Baselines".
    """

    name: ClassVar[str] = "max-entropy"

    def choose(self, scene: Scene, k: int) -> Int[np.ndarray, " k"]:
        check_count(scene, k)
        return find_largest(entropy(read_logits(scene, "candidates", "MaxEntropy")), k)


@dataclass(frozen=True)
class Margin:
    r"""Prefer the predictions whose two likeliest classes are closest.

    .. math:: 1 - (p_{(1)}(x) - p_{(2)}(x)) = 2\, p_{(2)}(x) + \sum_{i > 2} p_{(i)}(x)

    Scheffer et al. 2001; called MaxMargin in Hübotter et al. 2024, App. "Baselines".
    """

    name: ClassVar[str] = "margin"

    def choose(self, scene: Scene, k: int) -> Int[np.ndarray, " k"]:
        check_count(scene, k)
        return find_largest(lack_of_margin(read_logits(scene, "candidates", "Margin")), k)


@dataclass(frozen=True)
class LeastConfidence:
    r"""Prefer the predictions whose likeliest class is least likely.

    .. math:: 1 - p_{(1)}(x) = \sum_{i > 1} p_{(i)}(x)

    Lewis and Gale 1994; Hübotter et al. 2024, App. "Baselines".
    """

    name: ClassVar[str] = "least-confidence"

    def choose(self, scene: Scene, k: int) -> Int[np.ndarray, " k"]:
        check_count(scene, k)
        logits = read_logits(scene, "candidates", "LeastConfidence")
        return find_largest(lack_of_confidence(logits), k)


def entropy(logits: Float[Tensor, "*n c"]) -> Float[Tensor, "*n"]:
    """Of each prediction, in nats."""
    return torch.special.entr(logits.softmax(dim=-1)).sum(dim=-1)


def lack_of_margin(logits: Float[Tensor, "n c"]) -> Float[Tensor, " n"]:
    less_likely = sorted_probabilities(logits)[:, 1:]
    return less_likely[:, 0] + less_likely.sum(dim=1)


def lack_of_confidence(logits: Float[Tensor, "n c"]) -> Float[Tensor, " n"]:
    return sorted_probabilities(logits)[:, 1:].sum(dim=1)


def sorted_probabilities(logits: Float[Tensor, "n c"]) -> Float[Tensor, "n c"]:
    """The likeliest class first."""
    return logits.softmax(dim=1).sort(dim=1, descending=True).values


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
