"""Derivatives of every output for every input, by ``torch.func``, in parts that fit in memory."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from tellmost import numerics
from tellmost.finetune.inputs import call
from tellmost.shapes import Float


@dataclass(frozen=True, eq=False)
class Tile:
    """A part of the points of a batch: where its first row and column belong, and its values."""

    row: int
    column: int
    values: Float[Tensor, "r w"]


@dataclass(frozen=True, eq=False)
class Jacobians:
    """A network as a function of some of its parameters."""

    model: nn.Module
    chosen: dict[str, Tensor]
    rest: dict[str, Tensor]  # other parameters, and buffers

    @staticmethod
    def of(model: nn.Module, names: tuple[str, ...] | None) -> "Jacobians":
        """With respect to the named parameters; None: to all that require a gradient."""
        parameters = dict(model.named_parameters())
        if names is None:
            names = tuple(name for name, p in parameters.items() if p.requires_grad)
        check_names(names, parameters)
        state = {**parameters, **dict(model.named_buffers())}
        held = {name: value.detach() for name, value in state.items()}
        chosen = {name: held.pop(name) for name in dict.fromkeys(names)}
        return Jacobians(model, chosen, held)

    @property
    def size(self) -> int:
        """P, the number of weights."""
        return sum(value.numel() for value in self.chosen.values())

    def tiles(self, batch: Any) -> Iterator["Tile"]:
        """All of the (b, c P) derivatives, output by output."""
        b, count = batch_length(batch), outputs_of(self, batch)
        at_once = max(1, numerics.GRADIENT_BYTES // (self.size * self._itemsize))
        inputs = min(b, at_once)
        outputs = max(1, min(count, at_once // inputs))
        for row in range(0, b, inputs):
            some = rows_of(batch, row, row + inputs)
            for start in range(0, count, outputs):
                values = self._derivatives(some, start, min(start + outputs, count))
                yield Tile(row, start * self.size, values)

    @property
    def _itemsize(self) -> int:
        return max(value.itemsize for value in self.chosen.values())

    def _derivatives(self, batch: Any, start: int, stop: int) -> Tensor:
        """Derivatives of outputs from start to stop: (b, (stop - start) P)."""

        def f(chosen: dict[str, Tensor], single: Any) -> Tensor:
            return self._run(chosen, single)[0, start:stop]

        with explaining(self.chosen):
            derivatives = vmap(jacrev(f), in_dims=(None, 0))(self.chosen, with_a_row(batch))
        return torch.cat([part.flatten(2) for part in derivatives.values()], dim=2).flatten(1)

    def _run(self, chosen: dict[str, Tensor], batch: Any) -> Tensor:
        def run(*inputs: Any, **named: Any) -> Any:
            return functional_call(self.model, {**self.rest, **chosen}, inputs, named)

        return call(run, batch)


@contextmanager
def explaining(chosen: Mapping[str, Tensor]) -> Iterator[None]:
    """Where a network that runs by itself fails under ``torch.func``, say what that is about."""
    try:
        yield
    except RuntimeError as error:
        if "memory" in str(error):
            raise
        raise ValueError(
            f"torch.func cannot differentiate the model's outputs with respect to its "
            f"{len(chosen)} parameters {next(iter(chosen))!r} ...: {error}. Beyond it are (a) "
            f"recurrent layers such as LSTM and GRU, (b) branches on values, and (c) some changes "
            f"in place. Use OutputGradients('last'), which differentiates nothing, or try names "
            f"of parameters that come after such a layer."
        ) from error


def check_names(names: tuple[str, ...], parameters: Mapping[str, Tensor]) -> None:
    known = ", ".join(parameters) or "none"
    for name in names:
        if name not in parameters:
            raise ValueError(f"the model has no parameter {name!r}; it has {known}.")
    if not names:
        raise ValueError(
            f"gradients need parameters: name some, or let some require a gradient. The model "
            f"has {known}."
        )


def assembled(tiles: Iterable[Tile]) -> Float[Tensor, "b p"]:
    """The points of a batch; tiles come row by row."""
    rows: dict[int, list[Tensor]] = {}
    for tile in tiles:
        rows.setdefault(tile.row, []).append(tile.values)
    return torch.cat([torch.cat(values, dim=1) for values in rows.values()])


def outputs_of(jacobians: Jacobians, batch: Any) -> int:
    """How many outputs the network has."""
    return jacobians._run(jacobians.chosen, rows_of(batch, 0, 1)).shape[1]


def batch_length(batch: Any) -> int:
    return len(next(iter(batch.values()))) if isinstance(batch, Mapping) else len(batch)


def rows_of(batch: Any, start: int, stop: int) -> Any:
    """Some of the inputs of a batch."""
    if isinstance(batch, Mapping):
        return {key: value[start:stop] for key, value in batch.items()}
    return batch[start:stop]


def with_a_row(batch: Any) -> Any:
    """Every input as a batch of one."""
    if isinstance(batch, Mapping):
        return {key: value[:, None] for key, value in batch.items()}
    return batch[:, None]
