r"""Gradients of a network's outputs with respect to its weights: the empirical tangent kernel.

.. math:: k(x, z) = \sum_c \langle \nabla_\theta f_c(x), \nabla_\theta f_c(z) \rangle

Jacot et al. 2018; Hübotter et al. 2024, App. H. For the final layer, :math:`f(x) = W h(x)`, the
sum is :math:`c\, h(x)^\top h(z)`, and nothing needs to be differentiated.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from tellmost.finetune.heads import Head, at_the_head
from tellmost.finetune.jacobians import Jacobians, Tile, assembled
from tellmost.shapes import Float


@dataclass(frozen=True)
class OutputGradients:
    """Gradients of all outputs, one after the other: c times as many numbers as weights.

    Args:
        parameters: "last": those of the final layer, as d numbers (d + 1 with a bias) and not c d,
            which give the same kernel; "all": every parameter that requires a gradient; or names.

    The network is differentiated in eval mode, one input at a time by ``torch.func``, so its
    normalisation uses its running statistics. Networks of many weights need a ``Projected``, which
    takes the gradients part by part.
    """

    parameters: str | Sequence[str] = "last"

    def __post_init__(self) -> None:
        given = self.parameters
        if not isinstance(given, str):
            object.__setattr__(self, "parameters", tuple(given))  # which can be hashed
        elif given not in ("last", "all"):
            raise ValueError(
                f"parameters must be 'last', 'all' or a tuple of names of parameters; got "
                f"{given!r}."
            )

    @property
    def name(self) -> str:
        which = {"last": "the final layer", "all": "all weights"}
        chosen = self.parameters
        words = which[chosen] if isinstance(chosen, str) else ", ".join(chosen)
        return f"output gradients of {words}"

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[Callable[[Any], Tensor]]:
        with self.tiles_on(model) as tiles_of:
            yield lambda batch: assembled(tiles_of(batch))

    @contextmanager
    def tiles_on(self, model: nn.Module) -> Iterator[Callable[[Any], Iterator[Tile]]]:
        """While entered: from a batch to its points in parts that fit into memory."""
        if not isinstance(self.parameters, str):
            yield Jacobians.of(model, tuple(self.parameters)).tiles
        elif self.parameters == "all":
            yield Jacobians.of(model, None).tiles
        else:
            with at_the_head(model, None) as run:
                yield lambda batch: iter([Tile(0, 0, last_layer_gradients(run(batch)))])

    def kernel(self, model: nn.Module, batch: Any) -> None:
        return None


def last_layer_gradients(head: Head) -> Float[Tensor, "b d"]:
    """sqrt(c) h: inner products of these are the sum over outputs."""
    return head.features * head.outputs.shape[1] ** 0.5
