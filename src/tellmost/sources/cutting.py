"""From chunks as they come to the spans that are wanted."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from tellmost.sources.source import Span

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
