"""Networks drawn by dropout: each leaves out the same units for every input.

Masks that differ between inputs, as training has them, would make what is left out independent
from input to input, and so the predictions' covariances zero. With masks that are fixed a draw is
one function, and two inputs that depend on the same units vary together.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from tellmost.finetune.hashing import mixed, shifted

UNITS = nn.Dropout
CHANNELS = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
FRACTION_BITS = 53  # of a float64


class Masks:
    """The masks of one draw, made when they are first needed."""

    def __init__(self, seed: int, member: int) -> None:
        self._key = seed, member
        self._made: dict[tuple[int, torch.Size], Tensor] = {}
        self._leaves_out = False

    def drop(self, number: int, layer: nn.Module, x: Tensor) -> Tensor:
        """x without the units that this draw leaves out at the layer of this number."""
        shape = x.shape[1:]
        if isinstance(layer, CHANNELS):
            shape = torch.Size((x.shape[1], *(1 for _ in x.shape[2:])))
        key = number, shape
        if key not in self._made:
            self._made[key] = self._mask(number, shape, rate_of(layer), x)
            self._leaves_out |= rate_of(layer) > 0
        return x * self._made[key]

    @property
    def are_used(self) -> bool:
        """Whether a layer that leaves units out was called."""
        return self._leaves_out

    def _mask(self, number: int, shape: torch.Size, rate: float, like: Tensor) -> Tensor:
        seed, member = self._key
        stream = mixed(torch.tensor([member, number]), seed)
        units = torch.arange(shape.numel(), device=like.device)
        bits = mixed(units, int((stream[0] ^ (stream[1] * 3)).item()))
        draws = shifted(bits, 64 - FRACTION_BITS).to(torch.float64) / 2**FRACTION_BITS
        kept = (draws >= rate).to(like.dtype) / max(1 - rate, torch.finfo(like.dtype).tiny)
        return kept.reshape(shape)


def rate_of(layer: nn.Module) -> float:
    return float(layer.p)  # type: ignore[arg-type]


@contextmanager
def dropping(model: nn.Module, masks: Masks) -> Iterator[None]:
    """The network in eval mode with the units of one draw left out."""
    layers = [module for module in model.modules() if isinstance(module, (UNITS, *CHANNELS))]
    if not any(rate_of(layer) > 0 for layer in layers):
        raise ValueError(
            "Predictive(members) draws networks by dropout, but the model has no nn.Dropout "
            "(or Dropout1d, 2d, 3d) with p above 0. Give several networks: members=(first, ...)."
        )
    handles = [leave_out(number, layer, masks) for number, layer in enumerate(layers)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def leave_out(number: int, layer: nn.Module, masks: Masks) -> RemovableHandle:
    def replace(module: nn.Module, inputs: tuple[Any, ...], outputs: Tensor) -> Tensor:
        return masks.drop(number, module, outputs)

    return layer.register_forward_hook(replace)
