"""The weights of an epoch that did best on validation images, kept without asking the GPU."""

from typing import Literal

import torch
from torch import Tensor, nn

from tellmost.finetune.inputs import device_of
from tellmost.shapes import Int
from tellmost_reproduction.networks.stepping import captured

Ties = Literal["first", "last"]
"""Which of the epochs that did equally well is kept; published runs have the last."""


class Best:
    """Compares the model, as it is, with the best so far.

    A network that knows one class does equally well from its first epoch on. Of such epochs the
    last is the surest of itself, so that ``ties`` decides what a rule sees then.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Tensor,
        labels: Int[Tensor, " n"],
        *,
        ties: Ties = "last",
    ) -> None:
        self._model, self._inputs, self._labels, self._ties = model, inputs, labels, ties
        self._kept = [one.detach().clone() for one in model.parameters()]
        self._score = torch.full((), -1.0, device=device_of(model))
        self._look = captured(self._work, device_of(model))
        self.clear()

    @torch.no_grad()
    def _work(self) -> None:
        right = self._model(self._inputs).argmax(dim=1) == self._labels
        score = right.float().mean()
        is_better = score >= self._score if self._ties == "last" else score > self._score
        self._score.copy_(torch.where(is_better, score, self._score))
        for kept, one in zip(self._kept, self._model.parameters(), strict=True):
            kept.copy_(torch.where(is_better, one, kept))

    def look(self) -> None:
        self._look()

    def clear(self) -> None:
        self._score.fill_(-1.0)

    @torch.no_grad()
    def restore(self) -> float:
        """The best weights, into the model; their share of right answers."""
        for kept, one in zip(self._kept, self._model.parameters(), strict=True):
            one.copy_(kept)
        return float(self._score)
