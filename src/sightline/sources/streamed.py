"""Rows that are read whenever they are needed, one block ahead of the arithmetic."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from sightline.shapes import Int
from sightline.sources.source import Piece, Reader, Span


class StreamedRows:
    """A reader with read-ahead on one thread of its own, and a few rows kept from earlier.

    The thread starts with the first stream and ends with ``close``, or with this object.
    """

    held = None

    def __init__(self, reader: Reader, recent_bytes: int) -> None:
        self.shape, self.dtype, self.device = reader.shape, reader.dtype, reader.device
        self.jumps, self.where = reader.jumps, reader.where
        self._reader = reader
        self._thread: ThreadPoolExecutor | None = None
        self._recent = RecentRows(max(recent_bytes // bytes_per_row(reader), 1))
        self._wanted = torch.empty(0, dtype=torch.int64)

    @property
    def passes(self) -> float:
        return self._reader.rows_read / max(self.shape[0], 1)

    def read(self, start: int, stop: int) -> Tensor:
        return next(self._reader.pieces([(start, stop)]))

    def take(self, indices: Int[Tensor, " b"]) -> Tensor:
        asked = indices.cpu()
        numbers, places = torch.unique(asked, return_inverse=True)
        rows = self._recent.find(numbers.tolist())
        missing = [number for number in numbers.tolist() if number not in rows]
        for number, piece in zip(missing, self._fetch(missing), strict=True):
            rows[number] = piece[0].clone()
        self._recent.keep(rows)
        if not rows:
            return torch.empty(0, *self.shape[1:], dtype=self.dtype, device=self.device)
        return torch.stack([rows[number] for number in numbers.tolist()])[places]

    def _fetch(self, numbers: list[int]) -> Iterator[Tensor]:
        return self._reader.pieces([(n, n + 1) for n in numbers]) if numbers else iter(())

    def stream(self, wanted: Sequence[Span]) -> Iterator[Piece]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "sightline-read-ahead")
        keep, self._wanted = self._wanted, self._wanted[:0]
        pieces = self._reader.pieces(wanted)
        coming = self._thread.submit(next, pieces)
        try:
            for number, (start, stop) in enumerate(wanted, start=1):
                rows = coming.result()
                if number < len(wanted):
                    coming = self._thread.submit(next, pieces)
                self._keep_wanted(keep, start, stop, rows)
                yield start, stop, rows
        finally:
            coming.cancel()

    def _keep_wanted(self, keep: Tensor, start: int, stop: int, rows: Tensor) -> None:
        here = keep[(keep >= start) & (keep < stop)].tolist()
        self._recent.keep({number: rows[number - start].clone() for number in here})

    def remember(self, indices: Int[Tensor, " b"]) -> None:
        self._wanted = torch.unique(indices.cpu())[: self._recent.most]

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)
            self._thread = None


class RecentRows:
    """The rows that were asked for last; ``most`` bounds how many."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._rows: OrderedDict[int, Tensor] = OrderedDict()

    def find(self, numbers: list[int]) -> dict[int, Tensor]:
        return {number: self._rows[number] for number in numbers if number in self._rows}

    def keep(self, rows: dict[int, Tensor]) -> None:
        for number, row in rows.items():
            self._rows[number] = row
            self._rows.move_to_end(number)
        while len(self._rows) > self.most:
            self._rows.popitem(last=False)


def bytes_per_row(reader: Reader) -> int:
    row = torch.Size(reader.shape[1:]).numel()
    return max(row * reader.dtype.itemsize, 1)
