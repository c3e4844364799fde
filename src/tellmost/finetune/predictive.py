r"""The predictions of several networks vary together: an ensemble, or draws by dropout.

For members :math:`f^1, \dots, f^M` and their mean :math:`\bar f`,

.. math:: k(x, z) = \frac{1}{M - 1} \sum_{m, c}
    \bigl(f^m_c(x) - \bar f_c(x)\bigr) \bigl(f^m_c(z) - \bar f_c(z)\bigr)

Lakshminarayanan et al. 2017; Gal and Ghahramani 2016; Holzmüller et al. 2023 (predictive kernel).

A draw by dropout leaves out the same units for every input, so that it is one function, and two
inputs that depend on the same units vary together. In training the masks differ between inputs:
that would make the predictions independent, and their covariances zero.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tellmost.finetune.embedding import evaluating
from tellmost.finetune.inputs import call
from tellmost.finetune.projections import seeded_bits
from tellmost.rows.checks import check_whole
from tellmost.rows.pool import shifted

UNITS = nn.Dropout
CHANNELS = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
FRACTION_BITS = 53  # of a float64


class Masks:
    """The masks of one draw. They are made when they are first needed."""

    def __init__(self, seed: int, member: int) -> None:
        self._key = seed, member
        self._made: dict[tuple[int, torch.Size], Tensor] = {}
        self.are_used = False  # whether a layer that leaves units out was called

    def drop(self, number: int, layer: nn.Module, inputs: tuple[Any, ...], x: Tensor) -> Tensor:
        """The outputs x without the units that this draw leaves out at layer ``number``."""
        shape, rate = x.shape[1:], rate_of(layer)
        if isinstance(layer, CHANNELS):
            shape = torch.Size((x.shape[1], *(1 for _ in x.shape[2:])))
        key = number, shape
        if key not in self._made:
            seed, member = self._key
            stream = seeded_bits(torch.tensor([member, number]), seed)
            units = torch.arange(shape.numel(), device=x.device)
            bits = seeded_bits(units, int((stream[0] ^ (stream[1] * 3)).item()))
            draws = shifted(bits, 64 - FRACTION_BITS).to(torch.float64) / 2**FRACTION_BITS
            kept = (draws >= rate).to(x.dtype) / max(1 - rate, torch.finfo(x.dtype).tiny)
            self._made[key] = kept.reshape(shape)
            self.are_used |= rate > 0
        return x * self._made[key]


def rate_of(layer: nn.Module) -> float:
    return float(layer.p)  # type: ignore[arg-type]


@contextmanager
def dropping(model: nn.Module, masks: Masks) -> Iterator[None]:
    """Leaves out the units of one draw while the network runs in eval mode."""
    layers = [module for module in model.modules() if isinstance(module, (UNITS, *CHANNELS))]
    if not any(rate_of(layer) > 0 for layer in layers):
        raise ValueError(
            "Predictive(members) draws networks by dropout, but the model has no nn.Dropout "
            "(or Dropout1d, 2d, 3d) with p above 0. Give several networks: members=(first, ...)."
        )
    handles = [
        layer.register_forward_hook(partial(masks.drop, number))
        for number, layer in enumerate(layers)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@dataclass(frozen=True)
class Predictive:
    """The deviations of the members' outputs from their mean, M c numbers for each input.

    Args:
        members: how many networks to draw by dropout; or the networks of an ensemble, which must
            differ and be on the device of the model. The model is a member only if it is named.
        seed: of the units that are left out.

    Dropout that is no module of its own, as inside an attention, is not seen and so not drawn.
    """

    members: int | Sequence[nn.Module] = 10
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.members, int):
            object.__setattr__(self, "members", tuple(self.members))  # which can be hashed
        count = self.members if isinstance(self.members, int) else len(self.members)
        check_whole(count, "members, which are to differ,", 2)

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[Callable[[Any], Tensor]]:
        with ExitStack() as entered:
            if isinstance(self.members, int):
                draws = [Masks(self.seed, member) for member in range(self.members)]
                run = partial(by_dropout, model, draws)
            else:
                for member in self.members:
                    entered.enter_context(evaluating(member))
                run = partial(by_ensemble, self.members)

            def deviations(batch: Any) -> Tensor:
                outputs = torch.stack(run(batch), dim=1)
                centred = outputs - outputs.mean(dim=1, keepdim=True)
                return centred.flatten(1) / (outputs.shape[1] - 1) ** 0.5

            yield deviations


def by_dropout(model: nn.Module, draws: list[Masks], batch: Any) -> list[Tensor]:
    """The outputs of every draw."""
    outputs = []
    for masks in draws:
        with dropping(model, masks):
            outputs.append(call(model, batch))
        if not masks.are_used:
            raise ValueError(
                "Predictive(members) draws networks by dropout, but the model's forward pass "
                "calls none of its nn.Dropout layers with p above 0, so that all draws are the "
                "same. Call one (torch.nn.functional.dropout is not seen), or give several "
                "networks: members=(first, ...)."
            )
    return outputs


def by_ensemble(members: Sequence[nn.Module], batch: Any) -> list[Tensor]:
    """The outputs of every member; members that are the same network are refused."""
    outputs, first = [call(member, batch) for member in members], members[0].state_dict()

    def is_first(number: int) -> bool:
        state = members[number].state_dict()
        return state.keys() == first.keys() and all(
            torch.equal(state[name], first[name]) for name in first
        )

    others = range(1, len(members))
    if all(torch.equal(outputs[i], outputs[0]) and is_first(i) for i in others):
        raise ValueError(
            f"Predictive(members) needs networks that differ; these {len(members)} have the same "
            f"weights and outputs. Train each from another start, or on other data."
        )
    return outputs
