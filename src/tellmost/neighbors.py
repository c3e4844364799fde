"""What lies near each pick."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.rows.pool import Normalization, Pool
from tellmost.rows.sources import spans
from tellmost.shapes import Float, Int


@dataclass(frozen=True)
class Nearest:
    """For each pick the target nearest in angle, and the cosine similarity to it."""

    targets: Int[np.ndarray, " k"]
    cosines: Float[np.ndarray, " k"]


def find_nearest(
    pool: Pool, targets: Tensor | None, indices: Int[np.ndarray, " k"]
) -> Nearest | None:
    """In float64, whatever the kernel; None where there are no rows or no targets to compare."""
    if targets is None or len(pool.shape) == 1:
        return None
    unit = Normalization(to_unit_length=True)
    directions = unit.apply(targets)
    best, where = [torch.empty(0, dtype=torch.float64)], [torch.empty(0, dtype=torch.int64)]
    step = max(numerics.CHUNK_BYTES // (8 * len(targets)), 1)
    for start, stop in spans(len(indices), step):
        rows = unit.apply(pool.rows(torch.from_numpy(indices[start:stop])))
        values, numbers = (rows @ directions.T).max(dim=1)
        best.append(values.cpu())
        where.append(numbers.cpu())
    return Nearest(torch.cat(where).numpy(), torch.cat(best).numpy())
