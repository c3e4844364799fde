"""Rows that lie one after the other in a file, each of the same number of bytes."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from tellmost.sources.files import File
from tellmost.sources.source import Span

Decode = Callable[[Tensor, tuple[int, ...]], Tensor]
"""From bytes and a shape to numbers, sharing the memory where that is possible."""


def bytes_of(memory: Tensor) -> memoryview:
    """A view that can be read into."""
    return memory.numpy().data


class FlatFile:
    """Reads blocks into two buffers in turn: one is being filled while the other is used."""

    jumps = True
    device = torch.device("cpu")

    def __init__(
        self, file: File, offset: int, shape: tuple[int, ...], row_bytes: int, decode: Decode
    ) -> None:
        self.shape = shape
        self.dtype = decode(torch.empty(0, dtype=torch.uint8), (0, *shape[1:])).dtype
        self.rows_read = 0
        self._file, self._offset, self._decode = file, offset, decode
        self._row_bytes = row_bytes

    def pieces(self, wanted: Sequence[Span]) -> Iterator[Tensor]:
        size = max((stop - start for start, stop in wanted), default=0) * self._row_bytes
        buffers = [torch.empty(0, dtype=torch.uint8)] * 2
        with self._file.opened() as descriptor:
            for number, (start, stop) in enumerate(wanted):
                if number < 2:
                    buffers[number] = torch.empty(size, dtype=torch.uint8)
                memory = buffers[number % 2][: (stop - start) * self._row_bytes]
                self._read(descriptor, memory, start)
                self.rows_read += stop - start
                yield self._decode(memory, (stop - start, *self.shape[1:]))

    def _read(self, descriptor: int, memory: Tensor, start: int) -> None:
        offset = self._offset + start * self._row_bytes
        what = f"the block from row {start:,}"
        self._file.read_into(descriptor, bytes_of(memory), offset, what)

    def where(self, row: int) -> str:
        return f"row {row} of {self._file.path.name}"


class FlatColumns:
    """The same of a file in Fortran order, column by column: a read per feature and block."""

    jumps = True
    device = torch.device("cpu")

    def __init__(
        self, file: File, offset: int, shape: tuple[int, int], item_bytes: int, decode: Decode
    ) -> None:
        self.shape = shape
        self.dtype = decode(torch.empty(0, dtype=torch.uint8), (0, 0)).dtype
        self.rows_read = 0
        self._file, self._offset, self._decode = file, offset, decode
        self._item_bytes = item_bytes

    def pieces(self, wanted: Sequence[Span]) -> Iterator[Tensor]:
        with self._file.opened() as descriptor:
            for start, stop in wanted:
                self.rows_read += stop - start
                yield self._read(descriptor, start, stop)

    def _read(self, descriptor: int, start: int, stop: int) -> Tensor:
        n, d = self.shape
        memory = torch.empty(d, (stop - start) * self._item_bytes, dtype=torch.uint8)
        for column, part in enumerate(memory):
            offset = self._offset + (column * n + start) * self._item_bytes
            what = f"feature {column} of the block from row {start:,}"
            self._file.read_into(descriptor, bytes_of(part), offset, what)
        return self._decode(memory.view(-1), (d, stop - start)).T

    def where(self, row: int) -> str:
        return f"row {row} of {self._file.path.name}"
