r"""Embeddings that one forward pass gives: what the last layer sees, and what it says.

With f(x) = W h(x), and independent weights of variance one, every output has the covariance

.. math:: k(x, z) = h(x)^\top h(z)

Hübotter et al. 2024, Sec. 4. ``LastLayer`` is h, ``Outputs`` is f itself (the empirical NNGP).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from tellmost.finetune.inputs import call
from tellmost.finetune.layers import watching


@dataclass(frozen=True)
class LastLayer:
    """What goes into the last layer: the penultimate activations.

    Args:
        layer: the name of a layer whose inputs are meant; None: the ``nn.Linear`` that makes the
            network's outputs, whatever else is called after it; where none does, as before a
            softmax, the last that is called in the forward pass.
    """

    layer: str | None = None

    @property
    def name(self) -> str:
        return "last layer" if self.layer is None else f"inputs of {self.layer}"

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[Callable[[Any], Tensor]]:
        with watching(model, self.layer) as watched:

            def features(batch: Any) -> Tensor:
                last, _ = watched.run(model, batch)
                return last.features

            yield features

    def kernel(self, model: nn.Module, batch: Any) -> None:
        return None


@dataclass(frozen=True)
class Outputs:
    """What the network returns: its logits, or predictions of several values."""

    @property
    def name(self) -> str:
        return "outputs"

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[Callable[[Any], Tensor]]:
        yield lambda batch: call(model, batch)

    def kernel(self, model: nn.Module, batch: Any) -> None:
        return None
