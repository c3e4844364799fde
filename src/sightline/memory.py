r"""How much memory a selection may take beyond what the caller holds, and what for.

With a budget of B bytes, n rows of d features (of ``itemsize`` bytes each), m targets, and
s = min(d, n + m) for kernels that are inner products, else 0:

.. math::
    \text{pool}    &= n\, d\, \text{itemsize} \text{ if it is read into memory, which it is up to }
                      B / 2 \text{, else } 0 \\
    \text{rows}    &= \text{ROW\_BYTES} \cdot n
                      \quad\text{(running values, gains and what they are made of)} \\
    \text{points}  &= 8 \cdot 4 s^2 + 8 \cdot 3\, m d
                      \quad\text{(posteriors of the weights; targets and products with them)} \\
    \text{blocks}  &= \text{BLOCKS} \cdot \min(\text{BLOCK\_BYTES}, B / 16)
                      \quad\text{(two being read, one as float64, what is made of it)} \\
    \text{kept}    &= B - \text{pool} - \text{rows} - \text{points} - \text{blocks}
                      \quad\text{(columns and covariances that trackers may keep)}
"""

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from sightline import numerics


@dataclass(frozen=True)
class Sizes:
    """What the memory of a selection depends on."""

    rows: int
    features: int
    targets: int
    data_bytes: int  # of the pool, in its own dtype
    has_weights: bool  # whether the kernel is an inner product

    @property
    def for_rows(self) -> int:
        return numerics.ROW_BYTES * self.rows

    @property
    def for_points(self) -> int:
        side = min(self.features, self.rows + self.targets) if self.has_weights else 0
        return 8 * (4 * side**2 + 3 * self.targets * self.features)

    def for_blocks(self, block_bytes: int) -> int:
        least = 8 * numerics.LEAST_BLOCK_ROWS * self.features
        return numerics.BLOCKS * max(block_bytes, least)


@dataclass(frozen=True)
class Plan:
    """What becomes of a budget."""

    budget: int
    holds_pool: bool  # whether a pool that is elsewhere is brought where the work is done
    block_bytes: int
    kept: int  # what is left for columns and covariances


def plan(sizes: Sizes, budget: int, device: torch.device, *, is_here: bool) -> Plan:
    """The formula above; a pool that is in its place already (``is_here``) costs nothing."""
    most = numerics.BLOCK_BYTES if device.type == "cpu" else numerics.GPU_BLOCK_BYTES
    block_bytes = min(most, budget // numerics.BLOCK_SHARE)
    working = sizes.for_rows + sizes.for_points + sizes.for_blocks(block_bytes)
    fits = sizes.data_bytes <= min(budget // 2, budget - working)
    holds_pool = not is_here and fits
    kept = budget - working - (sizes.data_bytes if holds_pool else 0)
    return Plan(budget, holds_pool, block_bytes, max(kept, 0))


def least_budget(sizes: Sizes) -> int:
    """What has to fit: the running values, the points, and the smallest blocks.

    Blocks take BLOCKS / BLOCK_SHARE of a budget, or the smallest size if that is more.
    """
    fixed = sizes.for_rows + sizes.for_points
    by_share = fixed * numerics.BLOCK_SHARE // (numerics.BLOCK_SHARE - numerics.BLOCKS) + 1
    return max(fixed + sizes.for_blocks(0), by_share)


def available(device: torch.device) -> int:
    """Bytes that could be allocated on a device now."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def in_words(count: int) -> str:
    """Bytes as a person would write them: 1_500_000 is 1.5 MB."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"
