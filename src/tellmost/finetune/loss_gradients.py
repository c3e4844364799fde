r"""Gradients of the loss with respect to the final layer, with the label that the network expects.

For cross entropy, :math:`\hat y = \arg\max_c f_c(x)` and :math:`f(x) = W h(x)`,

.. math:: \nabla_W\, \ell(f(x), \hat y) = r\, h(x)^\top, \quad
    r = \mathrm{softmax}(f(x)) - e_{\hat y}

Ash et al. 2020 (BADGE); Hübotter et al. 2024, App. H. A bias is a feature that is always 1.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tellmost.finetune.heads import at_the_head
from tellmost.kernels import Outer
from tellmost.shapes import Float


@dataclass(frozen=True)
class LossGradients:
    """Residual and feature, [r, h], whose product is the gradient; compared as such products.

    Args:
        layer: the final layer's name; None: the ``nn.Linear`` that makes the outputs.
        materialize: True: the gradients themselves, c d numbers for each input, class by class;
            inner products of these are the same kernel.
    """

    layer: str | None = None
    materialize: bool = False

    @property
    def name(self) -> str:
        return "loss gradients"

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[Callable[[Any], Tensor]]:
        with at_the_head(model, self.layer) as run:

            def gradients(batch: Any) -> Tensor:
                head = run(batch)
                r, h = residuals(head.outputs), head.features
                return outer(r, h) if self.materialize else torch.cat([r, h.to(r)], dim=1)

            yield gradients

    def kernel(self, model: nn.Module, batch: Any) -> Outer | None:
        if self.materialize:
            return None
        with at_the_head(model, self.layer) as run:
            return Outer(run(batch).outputs.shape[1])


def residuals(outputs: Float[Tensor, "b c"]) -> Float[Tensor, "b c"]:
    """softmax(f) - e_argmax; the entry of the argmax from the others, which keeps its digits."""
    if outputs.shape[1] < 2:
        raise ValueError(
            "gradients of cross entropy need outputs of two classes or more; got one. Give a "
            "network of one logit a second that is 0."
        )
    expected = outputs.argmax(dim=1, keepdim=True)
    r = outputs.softmax(dim=1).scatter(1, expected, 0.0)
    return r.scatter(1, expected, -r.sum(dim=1, keepdim=True))


def outer(r: Float[Tensor, "b c"], h: Float[Tensor, "b d"]) -> Float[Tensor, "b cd"]:
    """r h' of each row, in one row."""
    return (r[:, :, None] * h[:, None, :].to(r)).flatten(1)
