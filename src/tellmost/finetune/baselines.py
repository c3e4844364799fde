r"""The methods of others, for example ``ActiveFineTuner(..., strategy=BADGE())``.

All baselines choose among the same candidates, by the same network, and differ in the choice.
None looks at the targets. What is a rule of ``tm.rules`` has no class here:
``Targeted("cosine")``, ``Targeted("undirected-itl")``, and
``Targeted("uncertainty", conditional=False)``.

MaxEntropy, Margin and LeastConfidence read the class probabilities
:math:`p(x) = \mathrm{softmax}(f(x))`, with :math:`p_{(1)} \ge p_{(2)} \ge \dots` in descending
order, and take the k best by themselves, so that nothing keeps a batch apart. The scores are sums
of small probabilities where the largest is near one, so that confident networks still rank their
candidates.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from tellmost.finetune.embedding import Embedding
from tellmost.finetune.gradients import LossGradients
from tellmost.finetune.layers import LastLayer, Outputs
from tellmost.finetune.strategies import Part, RoundInputs, Targeted, check_count
from tellmost.shapes import Float, Int

__all__ = ["BADGE", "BAIT", "CoreSet", "LeastConfidence", "Margin", "MaxEntropy", "RandomChoice"]


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
        return Targeted(
            "undirected-vtl",
            embedding=self.embedding,
            noise_ratio=self.noise_ratio,
            noise_std=self.noise_std,
            observed=self.observed,
        ).choose(inputs, k)


@dataclass(frozen=True)
class MaxEntropy:
    r"""Prefer the predictions of largest entropy.

    .. math:: H(p(x)) = -\sum_i p_i(x) \log p_i(x)

    Settles and Craven 2008; Hübotter et al. 2024, App. "Baselines".
    """

    name: ClassVar[str] = "max-entropy"

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        return choose_doubtful(entropy, inputs, k, "MaxEntropy")


@dataclass(frozen=True)
class Margin:
    r"""Prefer the predictions whose two likeliest classes are closest.

    .. math:: 1 - (p_{(1)}(x) - p_{(2)}(x)) = 2\, p_{(2)}(x) + \sum_{i > 2} p_{(i)}(x)

    Scheffer et al. 2001; called MaxMargin in Hübotter et al. 2024, App. "Baselines".
    """

    name: ClassVar[str] = "margin"

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        return choose_doubtful(lack_of_margin, inputs, k, "Margin")


@dataclass(frozen=True)
class LeastConfidence:
    r"""Prefer the predictions whose likeliest class is least likely.

    .. math:: 1 - p_{(1)}(x) = \sum_{i > 1} p_{(i)}(x)

    Lewis and Gale 1994; Hübotter et al. 2024, App. "Baselines".
    """

    name: ClassVar[str] = "least-confidence"

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        return choose_doubtful(lack_of_confidence, inputs, k, "LeastConfidence")


def choose_doubtful(
    doubt: Callable[[Tensor], Tensor], inputs: RoundInputs, k: int, name: str
) -> Int[np.ndarray, " k"]:
    """The k candidates whose predictions leave most doubt. ``name`` is the baseline."""
    check_count(inputs, k)
    return find_largest(doubt(read_logits(inputs, "candidates", name)), k)


def entropy(logits: Float[Tensor, "*n c"]) -> Float[Tensor, "*n"]:
    """The entropy of each prediction, in nats."""
    return torch.special.entr(logits.softmax(dim=-1)).sum(dim=-1)


def lack_of_margin(logits: Float[Tensor, "n c"]) -> Float[Tensor, " n"]:
    less_likely = sorted_probabilities(logits)[:, 1:]
    return less_likely[:, 0] + less_likely.sum(dim=1)


def lack_of_confidence(logits: Float[Tensor, "n c"]) -> Float[Tensor, " n"]:
    return sorted_probabilities(logits)[:, 1:].sum(dim=1)


def sorted_probabilities(logits: Float[Tensor, "n c"]) -> Float[Tensor, "n c"]:
    """The class probabilities, the likeliest first."""
    return logits.softmax(dim=1).sort(dim=1, descending=True).values


def read_logits(inputs: RoundInputs, part: Part, name: str) -> Float[Tensor, "n c"]:
    """The outputs of a classifier; ``name`` is the baseline, for errors."""
    logits = torch.as_tensor(inputs.embed(part, Outputs()).points).to(torch.float64)
    if logits.shape[1] < 2:
        raise ValueError(
            f"{name} needs a classifier with an output for each of two classes or more; the model "
            f"has {logits.shape[1]}. Make two outputs, 0 and z, of one output z."
        )
    return logits


def find_largest(scores: Float[Tensor, " n"], k: int) -> Int[np.ndarray, " k"]:
    """The positions of the k largest scores, the best first. Of equals the lowest is first."""
    return scores.sort(descending=True, stable=True).indices[:k].cpu().numpy()
