r"""Gradients of the loss, or of the outputs, with respect to a network's weights.

``LossGradients`` are those of the final layer, with the label that the network expects. For cross
entropy, :math:`\hat y = \arg\max_c f_c(x)` and :math:`f(x) = W h(x)`,

.. math:: \nabla_W\, \ell(f(x), \hat y) = r\, h(x)^\top, \quad
    r = \mathrm{softmax}(f(x)) - e_{\hat y}

Ash et al. 2020 (BADGE); Hübotter et al. 2024, App. H. A bias is a feature that is always 1.

``OutputGradients`` give the empirical tangent kernel of Jacot et al. 2018 (App. H as well):

.. math:: k(x, z) = \sum_c \langle \nabla_\theta f_c(x), \nabla_\theta f_c(z) \rangle

For the final layer the sum is :math:`c\, h(x)^\top h(z)`, and nothing needs to be differentiated.
Elsewhere ``torch.func`` differentiates every output for every input, in parts that fit in memory.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from tellmost.finetune.inputs import call
from tellmost.finetune.layers import at_the_head
from tellmost.kernels import Outer
from tellmost.shapes import Float

GRADIENT_BYTES = 256 * 2**20  # at once: six gradients of 10 million float32 parameters


@dataclass(frozen=True)
class LossGradients:
    """Residual and feature, [r, h], whose product is the gradient. A kernel compares the products.

    Args:
        layer: the final layer's name; None: the ``nn.Linear`` that makes the outputs.
        materialize: True: the gradients themselves, c d numbers for each input, class by class.
            Their inner products are the same kernel.
    """

    layer: str | None = None
    materialize: bool = False

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
    """softmax(f) - e_argmax. The argmax is minus the sum of the others, which keeps its digits."""
    if outputs.shape[1] < 2:
        raise ValueError(
            "gradients of cross entropy need outputs of two classes or more; got one. Give a "
            "network of one logit a second that is 0."
        )
    expected = outputs.argmax(dim=1, keepdim=True)
    r = outputs.softmax(dim=1).scatter(1, expected, 0.0)
    return r.scatter(1, expected, -r.sum(dim=1, keepdim=True))


def outer(r: Float[Tensor, "b c"], h: Float[Tensor, "b d"]) -> Float[Tensor, "b cd"]:
    """The product r h' of each row, written in one row."""
    return (r[:, :, None] * h[:, None, :].to(r)).flatten(1)


Pieces = Iterator[tuple[int, Tensor]]  # the first column of a part of some points, and its values


@dataclass(frozen=True, eq=False)
class Jacobians:
    """A network as a function of some of its parameters."""

    model: nn.Module
    chosen: dict[str, Tensor]
    rest: dict[str, Tensor]  # other parameters, and buffers

    @staticmethod
    def of(model: nn.Module, names: tuple[str, ...] | None) -> "Jacobians":
        """``names`` says which parameters; None: all that require a gradient."""
        parameters = dict(model.named_parameters())
        if names is None:
            names = tuple(name for name, p in parameters.items() if p.requires_grad)
        known = ", ".join(parameters) or "none"
        for name in names:
            if name not in parameters:
                raise ValueError(f"the model has no parameter {name!r}; it has {known}.")
        if not names:
            raise ValueError(
                f"gradients need parameters: name some, or let some require a gradient. The model "
                f"has {known}."
            )
        state = {**parameters, **dict(model.named_buffers())}
        held = {name: value.detach() for name, value in state.items()}
        chosen = {name: held.pop(name) for name in dict.fromkeys(names)}
        return Jacobians(model, chosen, held)

    @property
    def size(self) -> int:
        """P, the number of weights."""
        return sum(value.numel() for value in self.chosen.values())

    def pieces(self, batch: Any) -> Iterator[Pieces]:
        """The (b, c P) derivatives: some inputs after the others, and of these some outputs."""
        b = len(next(iter(batch.values()))) if isinstance(batch, Mapping) else len(batch)
        count = self._run(self.chosen, cut(batch, slice(0, 1))).shape[1]
        itemsize = max(value.itemsize for value in self.chosen.values())
        at_once = max(1, GRADIENT_BYTES // (self.size * itemsize))
        inputs = min(b, at_once)
        for row in range(0, b, inputs):
            some = cut(batch, slice(row, row + inputs))
            step = max(1, min(count, at_once // inputs))
            yield (
                (first * self.size, self._derivatives(some, first, min(first + step, count)))
                for first in range(0, count, step)
            )

    def _derivatives(self, batch: Any, start: int, stop: int) -> Tensor:
        """The derivatives of outputs from start to stop, (b, (stop - start) P)."""

        def f(chosen: dict[str, Tensor], single: Any) -> Tensor:
            return self._run(chosen, single)[0, start:stop]

        singles = cut(batch, np.s_[:, None])  # every input is a batch of one
        try:
            derivatives = vmap(jacrev(f), in_dims=(None, 0))(self.chosen, singles)
        except RuntimeError as error:
            if "memory" in str(error):
                raise
            raise ValueError(
                f"torch.func cannot differentiate the model's outputs with respect to its "
                f"{len(self.chosen)} parameters {next(iter(self.chosen))!r} ...: {error}. Beyond "
                f"it are (a) recurrent layers such as LSTM and GRU, (b) branches on values, and "
                f"(c) some changes in place. Use OutputGradients('last'), which differentiates "
                f"nothing, or try names of parameters that come after such a layer."
            ) from error
        return torch.cat([part.flatten(2) for part in derivatives.values()], dim=2).flatten(1)

    def _run(self, chosen: dict[str, Tensor], batch: Any) -> Tensor:
        def run(*inputs: Any, **named: Any) -> Any:
            return functional_call(self.model, {**self.rest, **chosen}, inputs, named)

        return call(run, batch)


def cut(batch: Any, part: Any) -> Any:
    """Select items of a batch. The index is applied to each of its tensors."""
    if isinstance(batch, Mapping):
        return {key: value[part] for key, value in batch.items()}
    return batch[part]


@dataclass(frozen=True)
class OutputGradients:
    """Gradients of all outputs, one after the other: c times as many numbers as weights.

    Args:
        parameters: "last" for those of the final layer, as d numbers (d + 1 with a bias) instead
            of c d, which give the same kernel; "all" that require a gradient; or their names.

    ``torch.func`` differentiates the network in eval mode, one input at a time, so normalisation
    uses its running statistics. Networks of many weights need a ``Projected``, which takes the
    gradients part by part.
    """

    parameters: str | Sequence[str] = "last"

    def __post_init__(self) -> None:
        given = self.parameters
        if not isinstance(given, str):
            object.__setattr__(self, "parameters", tuple(given))  # which can be hashed
        elif given not in ("last", "all"):
            raise ValueError(
                f"parameters must be 'last', 'all' or a tuple of names; got {given!r}."
            )

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[Callable[[Any], Tensor]]:
        with self.pieces_on(model) as pieces_of:

            def whole(batch: Any) -> Tensor:
                some = [torch.cat([v for _, v in pieces], dim=1) for pieces in pieces_of(batch)]
                return torch.cat(some)

            yield whole

    @contextmanager
    def pieces_on(self, model: nn.Module) -> Iterator[Callable[[Any], Iterator[Pieces]]]:
        """Gives the function from a batch to its points in pieces that fit into memory."""
        if not isinstance(self.parameters, str):
            yield Jacobians.of(model, tuple(self.parameters)).pieces
        elif self.parameters == "all":
            yield Jacobians.of(model, None).pieces
        else:
            with at_the_head(model, None) as run:

                def last(batch: Any) -> Iterator[Pieces]:
                    head = run(batch)  # sqrt(c) h, whose inner products are the sum over outputs
                    yield iter([(0, head.features * head.outputs.shape[1] ** 0.5)])

                yield last
