"""How much memory a selection may take beyond what the caller holds, and what for.

With a budget of B bytes, n rows of d features, m targets, k picks, and s = min(d, n + m) for
kernels that are inner products, else 0:

    pool   = the pool's data, if they take at most HELD_SHARE B and fit; else 0, and it is streamed
    rows   = ROW_BYTES n                    running values, gains, and what they are made of,
             + 8 n k (1, or 2 + m / k)      and for other kernels a column per pick, or two and
                                            one per target for rules that see the targets first
    points = 8 (4 s^2 + 3 m d)              posteriors of the weights; targets, products with them
    blocks = BLOCKS b + RECENT_BYTES        blocks being read and worked on, and rows kept of them
    b      = min(BLOCK_BYTES, B / BLOCK_SHARE, what rows and points leave), but LEAST_BLOCK_ROWS
    kept   = B - pool - rows - points - blocks      columns and covariances that trackers may keep

The names in capitals are in ``numerics``. Arrays, and files that are streamed, cost no pool.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from tellmost import numerics

HELD_SHARE = 0.5
"""A pool that takes at most this share of the memory budget is read into memory once."""

BLOCK_SHARE = 32
"""A block takes at most this part of the memory budget: small budgets have small blocks."""

BLOCKS = 6
"""Blocks that exist at the same time: two that are read in turn, one as float64, and up to three
that a kernel or a checksum makes of it."""

ROW_BYTES = 112
"""Memory per row of the pool, beside columns: up to fourteen float64 values, of which five are
kept between picks (prior variance, running values, scores, row numbers) and the others are gains,
masks and temporaries of a rule."""


@dataclass(frozen=True)
class Sizes:
    """What the memory of a selection depends on."""

    rows: int
    features: int
    targets: int
    data_bytes: int  # of the pool, in its own dtype
    picks: int
    has_weights: bool  # whether the kernel is an inner product
    sees_targets: bool  # whether the rule conditions on the targets

    @property
    def for_rows(self) -> int:
        columns = 0 if self.has_weights else self.picks
        if columns and self.sees_targets:
            columns = 2 * columns + self.targets
        return (ROW_BYTES + 8 * columns) * self.rows

    @property
    def for_points(self) -> int:
        side = min(self.features, self.rows + self.targets) if self.has_weights else 0
        return 8 * (4 * side**2 + 3 * self.targets * self.features)

    def for_blocks(self, block_bytes: int) -> int:
        least = 8 * numerics.LEAST_BLOCK_ROWS * self.features
        return BLOCKS * max(block_bytes, least) + numerics.RECENT_BYTES


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
    free = max(budget - least_budget(sizes), 0)  # blocks are not to take what rows need
    block_bytes = min(most, budget // BLOCK_SHARE, free // BLOCKS)
    working = sizes.for_rows + sizes.for_points + sizes.for_blocks(block_bytes)
    fits = sizes.data_bytes <= min(int(HELD_SHARE * budget), budget - working)
    holds_pool = not is_here and fits
    kept = budget - working - (sizes.data_bytes if holds_pool else 0)
    return Plan(budget, holds_pool, block_bytes, max(kept, 0))


def least_budget(sizes: Sizes) -> int:
    """What has to fit: the running values, the points, and the smallest blocks."""
    return sizes.for_rows + sizes.for_points + sizes.for_blocks(0)


def chosen_budget(free: int, sizes: Sizes) -> int:
    """Where the caller gives none: half of what is free, or more if blocks would be tiny."""
    comfortable = least_budget(sizes) + BLOCKS * numerics.BLOCK_BYTES
    return max(free // 2, min(free, comfortable))


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
