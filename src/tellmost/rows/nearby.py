"""Rows that are near to given ones, such as the near-copies of test data in a pool."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.rows.checks import (
    check_features,
    check_finite,
    check_number,
    check_rows,
    check_shape,
)
from tellmost.rows.pool import Normalization, Pool
from tellmost.rows.record_files import name_both
from tellmost.rows.sources import named_alike, open_source, read_rows
from tellmost.running import workers
from tellmost.shapes import Bool


@torch.inference_mode()
@workers.team()
def near(
    pool: Any,
    rows: Any,
    cosine: float = 0.98,
    *,
    column: str | Sequence[str] | None = None,
    text: str | None = None,
    embed: str | None = None,
    progress: bool | None = None,
) -> Bool[np.ndarray, " n"]:
    r"""The mask of the pool rows that are as near as this to one of some other rows.

    .. math:: \max_z \frac{\langle x, z \rangle}{|x|\,|z|} \ge c

    for rows z, in float64 and on the rows as they are given. ``candidates=~near(pool, test)``
    keeps evaluation data and its near-copies out of a selection. The pool is whatever ``select``
    takes, and is read once, block by block. A row of zeros is near to nothing. ``column``, or
    ``text`` and ``embed``, say what is meant of pool and rows, as in ``select``.
    """
    least = check_number(cosine, "cosine", least=-1, most=1)
    pool, rows = name_both(pool, rows, "rows", column, None, text, embed, progress=progress)
    with closing(open_source(pool, "pool")) as source:
        others = read_rows(named_alike(rows, source), "rows").held
        others = others[None] if others.ndim == 1 else others
        check_rows(others, "rows")
        check_shape(source.shape, "pool")
        check_features(others.shape, "rows", source.shape)
        return _compare(Pool(source, source.device, numerics.BLOCK_BYTES), others, least)


def _compare(pool: Pool, others: Tensor, least: float) -> Bool[np.ndarray, " n"]:
    unit = Normalization(to_unit_length=True)
    directions = unit.apply(others.to(pool.device, torch.float64))
    found = torch.empty(len(pool), dtype=torch.bool, device=pool.device)
    bound = min(least, 1.0 - numerics.SAME_POINT)  # a copy is one up to rounding

    def compare(start: int, stop: int, block: Tensor) -> None:
        check_finite(start, block, pool.source, "pool")
        found[start:stop] = (unit.apply(block) @ directions.T).amax(dim=1) >= bound

    most = numerics.CHUNK_BYTES // (8 * max(len(others), 1))
    pool.each(compare, most=max(most, numerics.LEAST_BLOCK_ROWS))
    return found.cpu().numpy()
