"""Baselines as naive formulas in float32 have them, where confident networks tie."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from tellmost.finetune import LastLayer
from tellmost.finetune.baselines import RandomChoice, find_largest, read_logits
from tellmost.finetune.strategies import RoundInputs, Strategy, check_count
from tellmost.shapes import Float, Int
from tellmost_reproduction.networks.directed import mean_cosine

Doubt = Literal["entropy", "margin", "confidence", "entropy x similarity"]


@dataclass(frozen=True)
class Naively:
    r"""Prefer doubtful predictions, by float32 probabilities as softmax returns them.

    .. math:: H(p), \quad -(p_{(1)} - p_{(2)}), \quad -p_{(1)}, \quad H(p)\, \angle(x, A)

    A network that was trained for long on one class has p = (1, 0, 0) everywhere in float32.
    Then all candidates tie, and one is drawn at random, as in the authors' code.
    """

    doubt: Doubt = "margin"

    @property
    def name(self) -> str:
        return f"naive {self.doubt}"

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        check_count(inputs, k)
        logits = read_logits(inputs, "candidates", "Naively").float()
        scores = score(logits.softmax(dim=1), self.doubt)
        if self.doubt == "entropy x similarity":
            scores = scores * mean_cosine(inputs, LastLayer()).to(scores)
        order = inputs.generator.permutation(len(scores))
        drawn = find_largest(scores[torch.from_numpy(order).to(scores.device)], k)
        chosen: Int[np.ndarray, " k"] = order[drawn]
        return chosen


def score(p: Float[Tensor, "n c"], doubt: Doubt) -> Float[Tensor, " n"]:
    if doubt == "confidence":
        return -p.max(dim=1).values
    if doubt == "margin":
        first, second = p.topk(2, dim=1).values.T
        return second - first
    return torch.special.entr(p).sum(dim=1)


@dataclass(frozen=True)
class AmongTies:
    """Choose by loss gradients, or at random where float32 has none of them.

    A network that is sure of every target has probabilities of 0 and 1 in float32, and so loss
    gradients of zero. All candidates tie then in the authors' code, whatever the rule.
    """

    strategy: Strategy

    @property
    def name(self) -> str:
        return self.strategy.name

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        candidates = read_logits(inputs, "candidates", "AmongTies")
        targets = read_logits(inputs, "targets", "AmongTies")
        is_told = has_gradients(candidates) and has_gradients(targets)
        return (self.strategy if is_told else RandomChoice()).choose(inputs, k)


def has_gradients(logits: Float[Tensor, "n c"]) -> bool:
    """Say whether some input is not sure of its class in float32."""
    return bool((logits.float().softmax(dim=1).max(dim=1).values < 1).any())
