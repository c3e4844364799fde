"""What lies near a row, and what to show for it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sightline import numerics
from sightline.pools import Normalization, Pool
from sightline.shapes import Float, Int
from sightline.sources import spans

UNIT = Normalization(to_unit_length=True)


@dataclass(frozen=True)
class Nearest:
    """For each row the other nearest in angle, and the cosine similarity to it."""

    targets: Int[np.ndarray, " k"]
    cosines: Float[np.ndarray, " k"]


@dataclass(frozen=True)
class Items:
    """Something to show for each pool row, such as its text; None: its number alone."""

    given: Any

    def show(self, index: int, length: int) -> str:
        """Up to so many characters of one; by position, also from a pandas Series."""
        if self.given is None:
            return ""
        item = getattr(self.given, "iloc", self.given)[index]
        text = "" if item is None else str(item)
        return text if len(text) <= length else text[:length] + " …"


def check_items(items: Any, n: int) -> Items:
    """One entry per pool row, or none at all."""
    if items is not None and len(items) != n:
        raise ValueError(
            f"items must have one entry per pool row, {n}; got {len(items)}. An entry may be None."
        )
    return Items(items)


def find_nearest(
    pool: Pool, targets: Tensor | None, indices: Int[np.ndarray, " k"]
) -> Nearest | None:
    """The target nearest to each of these rows.

    In float64, whatever the kernel; None where there are no rows or no targets to compare.
    """
    if targets is None or len(pool.shape) == 1:
        return None
    directions = UNIT.apply(targets)
    best, where = [torch.empty(0, dtype=torch.float64)], [torch.empty(0, dtype=torch.int64)]
    for start, stop in spans(len(indices), _rows_at_once(targets)):
        rows = UNIT.apply(pool.rows(torch.from_numpy(indices[start:stop])))
        values, numbers = (rows @ directions.T).max(dim=1)
        best.append(values.cpu())
        where.append(numbers.cpu())
    return Nearest(torch.cat(where).numpy(), torch.cat(best).numpy())


def find_closeness(pool: Pool, targets: Tensor) -> Float[np.ndarray, " m"]:
    """The cosine similarity of each target to the pool row nearest to it, in one pass."""
    directions = UNIT.apply(targets)
    best = torch.full((len(targets),), -1.0, dtype=torch.float64, device=pool.device)
    for _, _, block in pool.blocks(most=_rows_at_once(targets)):
        best = torch.maximum(best, (UNIT.apply(block) @ directions.T).amax(dim=0))
    return best.cpu().numpy()


def _rows_at_once(targets: Tensor) -> int:
    return max(numerics.CHUNK_BYTES // (8 * len(targets)), numerics.LEAST_BLOCK_ROWS)
