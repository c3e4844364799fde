"""Rows that no selection can use, since a number is missing or not finite, or the text is empty.

They stay in their file. What is selected from are the other rows, so that the picks are those of a
file without them. Files, ids and messages go on speaking of all rows of the file.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.rows.records import Records
from tellmost.rows.sources import Piece, open_source, spans
from tellmost.shapes import Bool


@dataclass(frozen=True, eq=False)
class FiniteRows:
    """The usable rows of a file as blocks, read again whenever they are asked for."""

    vectors: Any
    argument: str
    is_good: Bool[Tensor, " n"]

    def __iter__(self) -> Iterator[Tensor]:
        for start, stop, rows in read_blocks(self.vectors, self.argument):
            if self.is_good[start:stop].any():
                yield rows[self.is_good[start:stop]]


def skip_bad_rows(records: Records) -> Records:
    """Leave out the vectors that are not finite. This takes a pass over the file."""
    argument = records.table.file.argument
    blocks = read_blocks(records.vectors, argument)
    is_good = torch.cat([rows.isfinite().all(dim=1) for _, _, rows in blocks])
    if is_good.all():
        return records
    vectors = records.vectors
    if isinstance(vectors, np.ndarray | Tensor):
        vectors = vectors[is_good.numpy()]
    else:
        vectors = FiniteRows(vectors, argument, is_good)
        vectors = vectors if argument == "pool" else torch.cat(list(vectors))  # targets are held
    return replace(keep_rows(records, is_good.numpy()), vectors=vectors)


def keep_rows(records: Records, is_good: Bool[np.ndarray, " n"]) -> Records:
    """Say which rows the vectors are of."""
    if not is_good.any():
        raise ValueError(
            f"{records.table.file.label}: at least one row must be usable; each of its "
            f"{len(records):,} is empty or not finite."
        )
    return records if is_good.all() else replace(records, rows=np.flatnonzero(is_good))


def read_blocks(vectors: Any, argument: str) -> Iterator[Piece]:
    """All rows, in blocks of a size that fits in memory."""
    with closing(open_source(vectors, argument)) as source:
        n, d = source.shape
        yield from source.stream(list(spans(n, max(numerics.BLOCK_BYTES // (8 * d), 1))))
