"""What to show for a row, and how near rows come to a target."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.rows.pool import Normalization, Pool
from tellmost.shapes import Float

ITEM_LENGTH = 200  # characters of an item that a table can bear
UNIT = Normalization(to_unit_length=True)


@dataclass(frozen=True)
class Items:
    """Something to show for each row or target, such as its text; None: its number alone."""

    given: Any

    def show(self, index: int, length: int) -> str:
        """Up to so many characters of one; by position, also from a pandas Series."""
        if self.given is None:
            return ""
        item = getattr(self.given, "iloc", self.given)[index]
        text = "" if item is None else str(item)
        return text if len(text) <= length else text[:length] + " …"


def check_items(items: Any, n: int, argument: str = "items", of: str = "pool row") -> Items:
    """One entry per row or target, or none at all."""
    if items is not None and len(items) != n:
        raise ValueError(
            f"{argument} must have one entry per {of}, {n}; got {len(items)}. An entry may be "
            f"None."
        )
    return Items(items)


def find_closeness(pool: Pool, targets: Tensor) -> Float[np.ndarray, " m"]:
    """The cosine similarity of each target to the pool row nearest to it, in one pass."""
    directions = UNIT.apply(targets)
    best = torch.full((len(targets),), -1.0, dtype=torch.float64, device=pool.device)
    most = max(numerics.CHUNK_BYTES // (8 * len(targets)), numerics.LEAST_BLOCK_ROWS)
    for _, _, block in pool.blocks(most):
        best = torch.maximum(best, (UNIT.apply(block) @ directions.T).amax(dim=0))
    return best.cpu().numpy()
