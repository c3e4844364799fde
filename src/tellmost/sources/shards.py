"""Several files as one pool, their rows one after the other."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from tellmost.sources.source import Reader, Span


class Shards:
    """Readers in a row; a span may begin in one and end in another."""

    def __init__(self, readers: Sequence[Reader], argument: str) -> None:
        for reader in readers:
            _check_alike(readers[0], reader, argument)
        self._readers = readers
        self._starts = [0, *accumulate(reader.shape[0] for reader in readers)]
        self.shape = (self._starts[-1], *readers[0].shape[1:])
        self.dtype, self.device = readers[0].dtype, readers[0].device
        self.jumps = all(reader.jumps for reader in readers)

    @property
    def rows_read(self) -> int:
        return sum(reader.rows_read for reader in self._readers)

    def pieces(self, wanted: Sequence[Span]) -> Iterator[Tensor]:
        parts: list[Tensor] = []  # of a span that ends in a later file
        for reader, offset, here in self._by_reader(wanted):
            local = [(start - offset, stop - offset) for start, stop, _ in here]
            for (_, _, is_end), piece in zip(here, reader.pieces(local), strict=True):
                if is_end and not parts:
                    yield piece
                elif is_end:
                    yield torch.cat([*parts, piece])
                    parts = []
                else:
                    parts.append(piece.clone())

    def where(self, row: int) -> str:
        number = self._shard_of(row)
        local = self._readers[number].where(row - self._starts[number])
        return f"{local} (row {row:,} of the pool)"

    def _shard_of(self, row: int) -> int:
        return bisect_right(self._starts, row) - 1

    def _by_reader(
        self, wanted: Sequence[Span]
    ) -> Iterator[tuple[Reader, int, list[tuple[int, int, bool]]]]:
        """Each reader with its first row and its parts of the spans, and whether a part ends
        its span."""
        shares: dict[int, list[tuple[int, int, bool]]] = {}
        for start, stop in wanted:
            while start < stop:
                number = self._shard_of(start)
                end = min(stop, self._starts[number + 1])
                shares.setdefault(number, []).append((start, end, end == stop))
                start = end
        for number, here in shares.items():
            yield self._readers[number], self._starts[number], here


def _check_alike(first: Reader, other: Reader, argument: str) -> None:
    if len(other.shape) != 2:
        raise ValueError(
            f"{argument}, as a list of files, must have rows x features in each; "
            f"{_file_of(other)} has shape {other.shape}."
        )
    if other.shape[1:] != first.shape[1:] or other.dtype != first.dtype:
        raise ValueError(
            f"{argument}: all files must have the same number of features and one dtype; "
            f"{_file_of(first)} has {_kind(first)}, {_file_of(other)} has {_kind(other)}. Convert "
            f"them alike first."
        )


def _file_of(reader: Reader) -> str:
    return reader.where(0).removeprefix("row 0 of ")


def _kind(reader: Reader) -> str:
    return f"{str(reader.dtype).removeprefix('torch.')} of shape {reader.shape}"
