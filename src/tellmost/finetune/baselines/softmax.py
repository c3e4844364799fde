r"""How unsure a classifier is of its own prediction: MaxEntropy, Margin and LeastConfidence.

All read the class probabilities :math:`p(x) = \mathrm{softmax}(f(x))`, with
:math:`p_{(1)} \ge p_{(2)} \ge \dots` in descending order, and take the k best by themselves: none
knows targets, none keeps a batch apart. The scores are sums of small probabilities where the
largest is near one, so that confident networks still rank their candidates.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from tellmost.finetune.baselines.asking import check_count, find_largest, read_logits
from tellmost.finetune.strategies import Scene
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
