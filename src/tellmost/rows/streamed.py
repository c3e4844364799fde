"""Rows that are read whenever they are needed, one block ahead of the arithmetic."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from tellmost.rows.sources import Piece, Reader, Span
from tellmost.shapes import Bool, Int


class StreamedRows:
    """A reader with read-ahead on one thread of its own, and a few rows kept from earlier.

    The thread starts with the first read and ends with ``close``, or with this object.
    """

    held = None

    def __init__(self, reader: Reader, recent_bytes: int) -> None:
        self.shape, self.dtype, self.device = reader.shape, reader.dtype, reader.device
        self.jumps, self.where, self.ids = reader.jumps, reader.where, reader.ids
        self._reader = reader
        self._thread: ThreadPoolExecutor | None = None
        most = max(recent_bytes // bytes_per_row(reader), 1)
        self._recent = RecentRows(most, reader.shape[1:], reader.dtype)
        self._wanted = torch.empty(0, dtype=torch.int64)

    @property
    def passes(self) -> float:
        return self._reader.rows_read / max(self.shape[0], 1)

    def read(self, start: int, stop: int) -> Tensor:
        return next(self._pieces([(start, stop)]))

    def take(self, indices: Int[Tensor, " b"]) -> Tensor:
        numbers, places = torch.unique(indices.cpu(), return_inverse=True)
        rows = torch.empty(len(numbers), *self.shape[1:], dtype=self.dtype, device=self.device)
        missing = {}
        for place, number in enumerate(numbers.tolist()):
            row = self._recent.find(number)
            if row is None:
                missing[number] = place
            else:
                rows[place] = row
        self._fetch(missing, rows)
        return rows[places]

    def _fetch(self, missing: dict[int, int], rows: Tensor) -> None:
        """Read the rows of these numbers to their places."""
        wanted = [(number, number + 1) for number in missing]
        for (number, place), piece in zip(missing.items(), self._pieces(wanted), strict=True):
            rows[place] = piece[0]
            self._recent.keep(number, piece[0])

    def stream(self, wanted: Sequence[Span]) -> Iterator[Piece]:
        keep, self._wanted = self._wanted, self._wanted[:0]
        for (start, stop), rows in zip(wanted, self._pieces(wanted), strict=True):
            self._keep_wanted(keep, start, stop, rows)
            yield start, stop, rows

    def _pieces(self, wanted: Sequence[Span]) -> Iterator[Tensor]:
        """The reader's pieces; each is read on the thread while the one before it is used."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "tellmost-read-ahead")
        pieces = self._reader.pieces(wanted)
        coming = self._thread.submit(next, pieces) if wanted else None
        for left in range(len(wanted) - 1, -1, -1):
            assert coming is not None
            rows = coming.result()
            coming = self._thread.submit(next, pieces) if left else None
            yield rows

    def _keep_wanted(self, keep: Tensor, start: int, stop: int, rows: Tensor) -> None:
        for number in keep[(keep >= start) & (keep < stop)].tolist():
            self._recent.keep(number, rows[number - start])

    def remember(self, indices: Int[Tensor, " b"]) -> None:
        self._wanted = torch.unique(indices[: self._recent.most].cpu())

    def at_hand(self, indices: Int[Tensor, " b"]) -> Bool[Tensor, " b"]:
        known = [self.jumps or self._recent.has(number) for number in indices.tolist()]
        return torch.tensor(known, dtype=torch.bool, device=indices.device)

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)
            self._thread = None


def bytes_per_row(reader: Reader) -> int:
    row = torch.Size(reader.shape[1:]).numel()
    return max(row * reader.dtype.itemsize, 1)


class RecentRows:
    """The rows that were asked for last, ``most`` at most, in memory that is taken once.

    If it were taken a row at a time, small pieces would lie between the large blocks that come
    and go, and the memory of these blocks could not be used again.
    """

    def __init__(self, most: int, row: tuple[int, ...], dtype: torch.dtype) -> None:
        self.most = most
        self._size, self._dtype = (most, *row), dtype
        self._memory: Tensor | None = None
        self._places: OrderedDict[int, int] = OrderedDict()  # the longest unused comes first

    def find(self, number: int) -> Tensor | None:
        """A row, good until another one is kept."""
        if self._memory is None or number not in self._places:
            return None
        self._places.move_to_end(number)
        return self._memory[self._places[number]]

    def has(self, number: int) -> bool:
        return number in self._places

    def keep(self, number: int, row: Tensor) -> None:
        if self._memory is None:
            self._memory = torch.empty(self._size, dtype=self._dtype, device=row.device)
        place = self._places.pop(number, len(self._places))
        if place == self.most:
            place = self._places.popitem(last=False)[1]
        self._memory[place] = row
        self._places[number] = place


Chunk = tuple[int, Tensor]
"""(first row, rows)."""


def cut(chunks: Iterator[Chunk], wanted: Sequence[Span], like: Tensor) -> Iterator[Tensor]:
    """The rows of ascending spans out of ascending chunks, copied into two buffers in turn.

    They are copied, because the maker of the chunks may use the same memory for the next one.
    ``like`` is an empty tensor with the rows' shape, dtype and device.
    """
    longest = max((stop - start for start, stop in wanted), default=0)
    buffers: list[Tensor] = []
    position, chunk = 0, like
    for number, (start, stop) in enumerate(wanted):
        if number < 2:
            buffers.append(like.new_empty(longest, *like.shape[1:]))
        piece = buffers[number % 2][: stop - start]
        done = start
        while done < stop:
            while done >= position + len(chunk):
                position, chunk = next(chunks)  # the maker sees to it that there is one
            end = min(stop, position + len(chunk))
            piece[done - start : end - start] = chunk[done - position : end - position]
            done = end
        yield piece


def empty_rows(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.empty(0, *shape[1:], dtype=dtype, device=device)
