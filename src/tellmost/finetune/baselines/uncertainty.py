r"""How unsure a classifier is of its own prediction: MaxEntropy, Margin and LeastConfidence; and
InformationDensity, which weighs that by the similarity to the targets.

All read the class probabilities :math:`p(x) = \mathrm{softmax}(f(x))`, with
:math:`p_{(1)} \ge p_{(2)} \ge \dots` in descending order, and take the k best by themselves, so
that nothing keeps a batch apart. The scores are sums of small probabilities where the largest is
near one, so that confident networks still rank their candidates.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from tellmost.finetune.baselines.reading import check_count, find_largest, read_logits
from tellmost.finetune.embedding import Embedding
from tellmost.finetune.layers import LastLayer
from tellmost.finetune.strategies import RoundInputs
from tellmost.kernels import Linear
from tellmost.posterior.problem import prior_correlation
from tellmost.shapes import Float, Int


@dataclass(frozen=True)
class MaxEntropy:
    r"""Prefer the predictions of largest entropy.

    .. math:: H(p(x)) = -\sum_i p_i(x) \log p_i(x)

    Settles and Craven 2008; Hübotter et al. 2024, App. "Baselines".
    """

    name: ClassVar[str] = "max-entropy"

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        check_count(inputs, k)
        return find_largest(entropy(read_logits(inputs, "candidates", "MaxEntropy")), k)


@dataclass(frozen=True)
class Margin:
    r"""Prefer the predictions whose two likeliest classes are closest.

    .. math:: 1 - (p_{(1)}(x) - p_{(2)}(x)) = 2\, p_{(2)}(x) + \sum_{i > 2} p_{(i)}(x)

    Scheffer et al. 2001; called MaxMargin in Hübotter et al. 2024, App. "Baselines".
    """

    name: ClassVar[str] = "margin"

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        check_count(inputs, k)
        return find_largest(lack_of_margin(read_logits(inputs, "candidates", "Margin")), k)


@dataclass(frozen=True)
class LeastConfidence:
    r"""Prefer the predictions whose likeliest class is least likely.

    .. math:: 1 - p_{(1)}(x) = \sum_{i > 1} p_{(i)}(x)

    Lewis and Gale 1994; Hübotter et al. 2024, App. "Baselines".
    """

    name: ClassVar[str] = "least-confidence"

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        check_count(inputs, k)
        logits = read_logits(inputs, "candidates", "LeastConfidence")
        return find_largest(lack_of_confidence(logits), k)


@dataclass(frozen=True)
class InformationDensity:
    r"""Prefer what the classifier is unsure of and what is similar to the targets.

    .. math:: H(p(x)) \cdot \angle(x, A)^\beta

    Settles and Craven 2008, where the similarity is to the whole pool. Here it is to the targets,
    as in Hübotter et al. 2024, App. "Baselines", which has :math:`\beta = 1`. A negative
    similarity keeps its sign, whatever the power, so what is opposite to the targets comes last.
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

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        check_count(inputs, k)
        unsure = entropy(read_logits(inputs, "candidates", "InformationDensity"))
        similarity = mean_cosine(inputs, self.embedding)
        return find_largest(unsure * similarity.sign() * similarity.abs() ** self.beta, k)


def mean_cosine(inputs: RoundInputs, embedding: Embedding) -> Float[Tensor, " n"]:
    """The mean cosine of each candidate with the targets; 0 with a point at the origin."""
    candidates, targets = (inputs.embed(part, embedding) for part in ("candidates", "targets"))
    x, a = (torch.as_tensor(one.points).to(torch.float64) for one in (candidates, targets))
    kernel = Linear() if candidates.kernel is None else candidates.kernel
    covariance = kernel.block(x, a)
    return prior_correlation(covariance, kernel.diagonal(x), kernel.diagonal(a)).mean(dim=1)


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
