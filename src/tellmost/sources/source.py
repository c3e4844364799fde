"""What a source of rows is, and what a reader of rows has to do to become one."""

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from tellmost.shapes import Bool, Int

Span = tuple[int, int]
"""(first row, one past the last)."""

Piece = tuple[int, int, Tensor]
"""(first row, one past the last, the rows in their own dtype)."""


@runtime_checkable
class Source(Protocol):
    """Rows in their own dtype, in memory or not."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def held(self) -> Tensor | None:
        """All rows as one tensor; None where they are read whenever they are needed."""

    @property
    def jumps(self) -> bool:
        """Whether some rows can be had without reading those before them."""

    @property
    def passes(self) -> float:
        """How often the rows were read, by streams and by ``take``, in units of all of them."""

    def read(self, start: int, stop: int) -> Tensor:
        """Consecutive rows, to keep."""

    def take(self, indices: Int[Tensor, " b"]) -> Tensor:
        """Some rows, in the order asked for, to keep."""

    def stream(self, wanted: Sequence[Span]) -> Iterator[Piece]:
        """The rows of ascending spans; each piece is good until the next one is asked for."""

    def remember(self, indices: Int[Tensor, " b"]) -> None:
        """Keep these rows, or as many of the first of them as fit, when the next stream passes
        over them: ``take`` is then free."""

    def at_hand(self, indices: Int[Tensor, " b"]) -> Bool[Tensor, " b"]:
        """Which of these rows can be had without a pass."""

    def where(self, row: int) -> str:
        """The row in words, for error messages."""

    def close(self) -> None:
        """End what works in the background."""


@runtime_checkable
class Reader(Protocol):
    """Reads rows of one file, of several, or from the caller; ``StreamedRows`` does the rest."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def jumps(self) -> bool:
        """Whether some rows can be had without reading those before them."""

    @property
    def rows_read(self) -> int:
        """So far, with the rows that were only passed over."""

    def pieces(self, wanted: Sequence[Span]) -> Iterator[Tensor]:
        """The rows of ascending spans; each is good until the next but one is asked for."""

    def where(self, row: int) -> str:
        """The row in words, for error messages."""


def spans(count: int, step: int) -> Iterator[Span]:
    """(0, step), (step, 2 step), ... up to count."""
    for start in range(0, count, step):
        yield start, min(start + step, count)
