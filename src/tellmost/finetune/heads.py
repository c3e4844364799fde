"""The final layer of a network, f(x) = W h(x) + b, as one forward pass shows it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tellmost.finetune.layers import Call, is_returned, watching
from tellmost.shapes import Float


@dataclass(frozen=True, eq=False)
class Head:
    """A batch at the final layer; ``features`` end in a 1 if the layer has a bias."""

    features: Float[Tensor, "b d"]
    outputs: Float[Tensor, "b c"]
    layer: nn.Linear

    @property
    def weights(self) -> Float[Tensor, "c d"]:
        """W, and b as its last column if there is one."""
        W, b = self.layer.weight.detach(), self.layer.bias
        return W if b is None else torch.cat([W, b.detach()[:, None]], dim=1)


@contextmanager
def at_the_head(model: nn.Module, layer: str | None) -> Iterator[Callable[[Any], Head]]:
    """While entered: from a batch to what its final layer sees and says."""
    with watching(model, layer) as watched:

        def run(batch: Any) -> Head:
            last, outputs = watched.run(model, batch)
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
    if last.is_changed or not is_returned(last.outputs, outputs):
        raise ValueError(
            f"the model's outputs must be those of its final layer {last.name!r}, but it "
            f"changes them afterwards or has another layer there. Name the layer that makes the "
            f"outputs (layer=), or return logits: a softmax belongs into the loss."
        )
    return last.layer


def at_least_float32(values: Tensor) -> Tensor:
    """Gradients and curvatures of networks in half precision are made in single precision."""
    return values.detach().to(torch.promote_types(values.dtype, torch.float32))
