"""Rows that are in memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tellmost.shapes import Bool, Int
from tellmost.sources.source import Piece, Source, Span


def plain_name(row: int) -> str:
    return f"row {row}"


@dataclass(frozen=True)
class HeldRows:
    """A tensor: the caller's own, or what was read of a file that is small enough."""

    held: Tensor
    where: Callable[[int], str] = plain_name
    passes: float = 0.0  # reading memory is not counted
    jumps: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.held.shape)

    @property
    def dtype(self) -> torch.dtype:
        return self.held.dtype

    @property
    def device(self) -> torch.device:
        return self.held.device

    def read(self, start: int, stop: int) -> Tensor:
        return self.held[start:stop]

    def take(self, indices: Int[Tensor, " b"]) -> Tensor:
        return self.held[indices.to(self.held.device)]

    def stream(self, wanted: Sequence[Span]) -> Iterator[Piece]:
        for start, stop in wanted:
            yield start, stop, self.held[start:stop]

    def remember(self, indices: Int[Tensor, " b"]) -> None:
        """Nothing to do: all rows are here."""

    def at_hand(self, indices: Int[Tensor, " b"]) -> Bool[Tensor, " b"]:
        return torch.ones_like(indices, dtype=torch.bool)

    def close(self) -> None:
        """Nothing to end."""


def hold(source: Source, device: torch.device, wanted: Sequence[Span]) -> HeldRows:
    """All rows of a source as one tensor on a device, read once, span by span."""
    if source.held is not None:
        return HeldRows(source.held.to(device), source.where)
    memory = torch.empty(source.shape, dtype=source.dtype, device=device)
    for start, stop, rows in source.stream(wanted):
        memory[start:stop] = rows
    source.close()
    return HeldRows(memory, source.where, source.passes)
