"""Rows that the caller makes, block by block, whenever they are asked for."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from tellmost.rows.sources import Span, as_tensor
from tellmost.rows.streamed import Chunk, cut, empty_rows


class CallerBlocks:
    """An iterable of (b, d) blocks that gives the same rows each time.

    The first iteration counts the rows. Later ones must give blocks of the same sizes with the
    same first rows: a shuffled iterable would silently give the numbers to other points.
    """

    jumps = False
    ids = None

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
    """A short name for the first row of a block; 0 if the block is empty."""
    if len(block) == 0:
        return 0
    return hash(block[0].contiguous().view(torch.uint8).cpu().numpy().tobytes())
