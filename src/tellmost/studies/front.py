"""The first rows of a source, seen as a source: for trials."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from tellmost.rows.sources import HeldRows, Piece, Source, Span
from tellmost.shapes import Bool, Int


def front_of(source: Source, count: int) -> Source:
    """Of rows in memory a view; of others the same reading, of fewer rows."""
    if source.held is not None:
        return HeldRows(source.held[:count], source.where)
    return Front(source, count)


class Front:
    """The first rows of a source that is read whenever rows are needed; closing is left to it."""

    held = None

    def __init__(self, source: Source, count: int) -> None:
        self._source = source
        self.shape = (count, *source.shape[1:])
        self.jumps, self.where = source.jumps, source.where

    @property
    def dtype(self) -> torch.dtype:
        return self._source.dtype

    @property
    def device(self) -> torch.device:
        return self._source.device

    @property
    def passes(self) -> float:
        return self._source.passes * self._source.shape[0] / self.shape[0]

    def read(self, start: int, stop: int) -> Tensor:
        return self._source.read(start, stop)

    def take(self, indices: Int[Tensor, " b"]) -> Tensor:
        return self._source.take(indices)

    def stream(self, wanted: Sequence[Span]) -> Iterator[Piece]:
        return self._source.stream(wanted)

    def remember(self, indices: Int[Tensor, " b"]) -> None:
        self._source.remember(indices)

    def at_hand(self, indices: Int[Tensor, " b"]) -> Bool[Tensor, " b"]:
        return self._source.at_hand(indices)

    def close(self) -> None:
        """Nothing: the source goes on."""
