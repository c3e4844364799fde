"""Rows that are read whenever they are needed, one block ahead of the arithmetic.

Rows that were read lately, so that they need not be read again.

From chunks as they come to the spans that are wanted.

Rows that the caller makes, block by block, whenever they are asked for.

Several files as one pool, their rows one after the other.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from tellmost.rows.sources import Piece, Reader, Span, as_tensor
from tellmost.shapes import Bool, Int


class StreamedRows:
    """A reader with read-ahead on one thread of its own, and a few rows kept from earlier.

    The thread starts with the first read and ends with ``close``, or with this object.
    """

    held = None

    def __init__(self, reader: Reader, recent_bytes: int) -> None:
        self.shape, self.dtype, self.device = reader.shape, reader.dtype, reader.device
        self.jumps, self.where = reader.jumps, reader.where
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
        """The reader's pieces, each read on the thread while the one before it is used."""
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
    """The rows that were asked for last, at most so many, in memory taken once.

    Not a row at a time: small pieces between large blocks that come and go keep the memory of
    the blocks from being used again.
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

    Copied, because whoever makes the chunks may use the same memory for the next one.
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
                position, chunk = next(chunks)  # whoever makes them sees to it that there is one
            end = min(stop, position + len(chunk))
            piece[done - start : end - start] = chunk[done - position : end - position]
            done = end
        yield piece


def empty_rows(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.empty(0, *shape[1:], dtype=dtype, device=device)


class CallerBlocks:
    """An iterable of (b, d) blocks that gives the same rows each time.

    Goes through it once to count the rows. Later iterations must give blocks of the same sizes
    with the same first rows: a shuffled iterable would silently number other points.
    """

    jumps = False

    def __init__(self, blocks: Iterable[Any], argument: str) -> None:
        self._blocks, self._argument = blocks, argument
        self.rows_read = 0
        self._starts = [0]
        self._marks: list[int] = []  # of the first row of each block
        for number, block in enumerate(self._given()):
            if number == 0:
                self.shape: tuple[int, ...] = tuple(block.shape)
                self.dtype, self.device = block.dtype, block.device
            self._starts.append(self._starts[-1] + len(block))
            self._marks.append(_mark(block))
        if not self._marks:
            raise ValueError(f"{argument} must not be empty; got an iterable without blocks.")
        self.rows_read = self._starts[-1]
        self.shape = (self._starts[-1], *self.shape[1:])

    def pieces(self, wanted: Sequence[Span]) -> Iterator[Tensor]:
        chunks = self._chunks()
        like = empty_rows(self.shape, self.dtype, self.device)
        for (_, stop), piece in zip(wanted, cut(chunks, wanted, like), strict=True):
            if stop == self.shape[0]:
                for _ in chunks:  # empty blocks, or an error if there are more rows than at first
                    pass
            yield piece

    def where(self, row: int) -> str:
        number = bisect_right(self._starts, row) - 1
        return f"row {row - self._starts[number]} of block {number} (row {row:,} of the pool)"

    def _chunks(self) -> Iterator[Chunk]:
        count = len(self._marks)
        number = -1
        for number, block in enumerate(self._given()):
            if number >= count:
                raise self._differs(f"it had {count} blocks at first, and now has more")
            start, stop = self._starts[number], self._starts[number + 1]
            if len(block) != stop - start:
                raise self._differs(
                    f"block {number} (from row {start:,} of the pool) had {stop - start:,} rows "
                    f"at first, and now has {len(block):,}"
                )
            if _mark(block) != self._marks[number]:
                raise self._differs(
                    f"block {number} (from row {start:,} of the pool) starts with another row "
                    f"than at first"
                )
            self.rows_read += len(block)
            yield start, block
        if number + 1 < count:
            raise self._differs(
                f"it had {count} blocks at first, and now ends after {number + 1}, at row "
                f"{self._starts[number + 1]:,} of the pool"
            )

    def _differs(self, how: str) -> ValueError:
        return ValueError(
            f"{self._argument}, as an iterable of blocks, must give the same rows in the same "
            f"order each time; {how}. Turn shuffling off, or write the blocks to files."
        )

    def _given(self) -> Iterator[Tensor]:
        """The blocks as tensors, each of two dimensions and like the first."""
        for number, given in enumerate(self._blocks):
            block = as_tensor(given, f"{self._argument}: block {number}")
            if block.ndim != 2 or (number == 0 and 0 in block.shape):
                raise ValueError(
                    f"{self._argument}: block {number} must be rows x features, (b, d); got shape "
                    f"{tuple(block.shape)}."
                )
            self._check_like_first(number, block)
            yield block

    def _check_like_first(self, number: int, block: Tensor) -> None:
        if not self._marks and number == 0:
            return  # this is the first
        d, dtype = self.shape[1], self.dtype
        if block.shape[1] != d or block.dtype != dtype:
            raise ValueError(
                f"{self._argument}: all blocks must have the same number of features and one "
                f"dtype; block 0 has {dtype} of shape (b, {d}), block {number} has "
                f"{block.dtype} of shape {tuple(block.shape)}. Convert them alike."
            )


def _mark(block: Tensor) -> int:
    """A short name for the first row of a block; 0 where it has none."""
    if len(block) == 0:
        return 0
    return hash(block[0].contiguous().view(torch.uint8).cpu().numpy().tobytes())


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
