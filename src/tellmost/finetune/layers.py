r"""One forward pass shows the inputs and the outputs of a network's last layer.

With f(x) = W h(x), and independent weights of variance one, every output has the covariance

.. math:: k(x, z) = h(x)^\top h(z)

Hübotter et al. 2024, Sec. 4. ``LastLayer`` is h, ``Outputs`` is f itself (the empirical NNGP).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tellmost.finetune.inputs import call, in_words
from tellmost.shapes import Float

MOST_LISTED = 40  # how many layers an error names


@dataclass(frozen=True, eq=False)
class Call:
    """The inputs and the outputs of a layer in one call."""

    name: str
    layer: nn.Module
    inputs: Any
    outputs: Any
    version: int | None  # counts changes of the outputs in place

    @property
    def features(self) -> Tensor:
        """The (b, d) inputs of the layer."""
        if not isinstance(self.inputs, Tensor) or self.inputs.ndim != 2:
            raise ValueError(
                f"layer {self.name!r} must be given (b, d) features, a row per input; got "
                f"{in_words(self.inputs)}. Name a layer that comes after pooling: layer=."
            )
        return self.inputs


@contextmanager
def watching(
    model: nn.Module, layer: str | None
) -> Iterator[Callable[[Any], tuple[Call, Tensor]]]:
    """Gives the function from a batch to the call of the final layer, and the network's outputs.

    That is the named layer; None: the ``nn.Linear`` that made these outputs, else the last called.
    """
    calls: list[Call] = []

    def see(name: str, module: nn.Module, inputs: tuple[Any, ...], outputs: Any) -> None:
        is_uncounted = isinstance(outputs, Tensor) and outputs.is_inference()
        kept = outputs.clone() if is_uncounted else outputs
        earlier = calls[-1].inputs if calls else None
        if calls and not (isinstance(earlier, Tensor) and earlier.ndim == 2):
            calls.pop()  # not the last layer's, such as a single token's: there may be many, large
        calls.append(Call(name, module, inputs[0] if inputs else None, kept, version_of(outputs)))

    def run(batch: Any) -> tuple[Call, Tensor]:
        calls.clear()
        outputs = call(model, batch)
        made = calls.copy()
        calls.clear()
        if not made:
            raise ValueError(
                "the model called no nn.Linear (or not the named layer) in its forward pass, so "
                "it has no last layer. Name one that it calls: layer=."
            )
        final = [one for one in made if is_returned(one.outputs, outputs)]
        return (final or made)[-1], outputs

    layers = watched_layers(model, layer)
    handles = [module.register_forward_hook(partial(see, name)) for name, module in layers]
    try:
        yield run
    finally:
        for handle in handles:
            handle.remove()


def is_returned(said: Any, returned: Tensor) -> bool:
    """Say if a layer's outputs are the network's: the same numbers, of whatever shape."""
    if not isinstance(said, Tensor) or said.ndim == 0:
        return False
    if len(said) != len(returned) or said.numel() != returned.numel():
        return False
    if said.data_ptr() == returned.data_ptr():  # also where some are NaN
        return True
    return torch.equal(said.reshape(returned.shape), returned)


def version_of(outputs: Any) -> int | None:
    """Count the changes of a tensor in place. Under inference_mode torch does not count."""
    is_counted = isinstance(outputs, Tensor) and not outputs.is_inference()
    return outputs._version if is_counted else None


def watched_layers(model: nn.Module, layer: str | None) -> list[tuple[str, nn.Module]]:
    """The layer of this name; None: all that are linear."""
    layers = {name: module for name, module in model.named_modules() if name}
    if layer is None:
        if linear := [pair for pair in model.named_modules() if isinstance(pair[1], nn.Linear)]:
            return linear
        raise ValueError(
            f"the model has no nn.Linear to take for its last layer; name one: layer=. "
            f"It has {layers_in_words(layers)}."
        )
    if layer not in layers:
        raise ValueError(f"the model has no layer {layer!r}; it has {layers_in_words(layers)}.")
    return [(layer, layers[layer])]


def layers_in_words(layers: dict[str, nn.Module]) -> str:
    """The names and types of layers; of many, only the last."""
    named = [f"{name} ({type(module).__name__})" for name, module in layers.items()]
    hidden = len(named) - MOST_LISTED
    if hidden > 0:
        named = [f"{hidden} more", *named[hidden:]]
    return ", ".join(named) or "no layers"


@dataclass(frozen=True, eq=False)
class Head:
    """A batch at the final layer. ``features`` end in a 1 if the layer has a bias."""

    features: Float[Tensor, "b d"]
    outputs: Float[Tensor, "b c"]
    layer: nn.Linear

    @property
    def weights(self) -> Float[Tensor, "c d"]:
        """W, with b as its last column if there is one."""
        W, b = self.layer.weight.detach(), self.layer.bias
        return W if b is None else torch.cat([W, b.detach()[:, None]], dim=1)


@contextmanager
def at_the_head(model: nn.Module, layer: str | None) -> Iterator[Callable[[Any], Head]]:
    """Gives the function from a batch to what its final layer is given and returns."""
    with watching(model, layer) as last_call:

        def run(batch: Any) -> Head:
            last, outputs = last_call(batch)
            h, final = last.features, final_layer(last, outputs)
            if final.bias is not None:
                h = torch.cat([h, h.new_ones(len(h), 1)], dim=1)
            return Head(at_least_float32(h), at_least_float32(outputs), final)

        yield run


def final_layer(last: Call, outputs: Tensor) -> nn.Linear:
    """The watched layer, if the network's outputs are what it returned."""
    if not isinstance(last.layer, nn.Linear):
        raise ValueError(
            f"layer must be the final nn.Linear, W h + b, for gradients with respect to it; "
            f"{last.name!r} is a {type(last.layer).__name__}."
        )
    is_changed = version_of(last.outputs) != last.version  # in place, after the layer returned
    if is_changed or not is_returned(last.outputs, outputs):
        raise ValueError(
            f"the model's outputs must be those of its final layer {last.name!r}, but it "
            f"changes them afterwards or has another layer there. Name the layer that makes the "
            f"outputs (layer=), or return logits: a softmax belongs into the loss."
        )
    return last.layer


def at_least_float32(values: Tensor) -> Tensor:
    """Gradients and curvatures of networks in half precision are made in single precision."""
    return values.detach().to(torch.promote_types(values.dtype, torch.float32))


@dataclass(frozen=True)
class LastLayer:
    """The inputs of the last layer: the penultimate activations.

    Args:
        layer: the name of a layer whose inputs are meant; None: the ``nn.Linear`` that makes the
            network's outputs. Where none does, as before a softmax, it is the ``nn.Linear`` that
            the forward pass calls last.
    """

    layer: str | None = None

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[Callable[[Any], Tensor]]:
        with watching(model, self.layer) as last_call:
            yield lambda batch: last_call(batch)[0].features


@dataclass(frozen=True)
class Outputs:
    """The outputs of the network: its logits, or predictions of several values."""

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[Callable[[Any], Tensor]]:
        yield lambda batch: call(model, batch)
