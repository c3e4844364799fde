"""A selection may take so much memory beyond what the caller holds, and for these uses.

With a budget of B bytes, n rows of d features, m targets, k picks, and s = min(d, n + m) for
kernels that are inner products, else 0:

    pool   = the pool's data, if they take at most HELD_SHARE B and fit; else 0, and it is streamed
    rows   = ROW_BYTES n + PICK_BYTES k     running values, gains, and what they are made of,
             + 8 n k (1, or 2 + m / k)      and for other kernels a column per pick, or two and
                                            one per target for rules that see the targets first
    points = 8 (4 s^2 + 3 m d)              posteriors of the weights; targets, products with them
             + 8 (3 s^2 + 2 a)              and if targets are examples: the moment of what stands
                                            for them, and a sampled distances
    blocks = BLOCKS b + RECENT_BYTES        blocks being read and worked on, and rows kept of them
             + THREAD_BLOCKS b (t - 1)      where t threads share the work
    t      = as many as a quarter of the rest has room for, but MOST_THREADS; fewer may be there
    b      = min(BLOCK_BYTES, B / BLOCK_SHARE, what rows and points leave), but LEAST_BLOCK_ROWS
    kept   = B - pool - rows - points - blocks      columns and covariances that trackers may keep

The names in capitals are constants below or in ``numerics``. A pool that is an array, or a file
that is streamed, costs nothing.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tellmost import numerics

HELD_SHARE = 0.5  # a pool of at most this share of the budget is read into memory once
BLOCK_SHARE = 32  # small budgets have small blocks: at most this part of the budget

BLOCKS = 6
"""Blocks that exist at the same time: two that are read in turn, one as float64, and up to three
that a kernel or a checksum makes of it."""

THREAD_BLOCKS = 4  # of another thread: the one it works on, and up to three made of it

MOST_THREADS = 128
"""So many threads at most share a pass. The plan does not ask how many there are, since results
must not depend on it."""

ROW_BYTES = 112
"""Memory per row of the pool, beside columns: up to fourteen float64 values, of which five are
kept between picks (prior variance, running values, scores, row numbers) and the others are gains,
masks and temporaries of a rule."""

CONTROL_GROUPS = {
    "": ("", "memory.max", "memory.current", "inactive_file"),
    "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""Controllers of a group in versions 2 and 1 of Linux: folder, limit, use, and files in use."""

NO_LIMIT = 2**62  # version 1 writes a larger number where a group has no limit
PICK_BYTES = 400  # of a pick in lists and in the result, as Python objects

UNITS = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGT", start=1)},
    **{f"{letter}IB": 1024**power for power, letter in enumerate("KMGT", start=1)},
}
SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?B)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Sizes:
    """The memory of a selection depends on these sizes."""

    rows: int
    features: int
    targets: int
    data_bytes: int  # of the pool, in its own dtype
    picks: int
    has_weights: bool  # whether the kernel is an inner product
    sees_targets: bool  # whether the rule conditions on the targets
    sampled: int = 0  # distances that tell what targets are examples of; 0: they are all

    @property
    def for_rows(self) -> int:
        columns = 0 if self.has_weights else self.picks
        if columns and self.sees_targets:
            columns = 2 * columns + self.targets
        return (ROW_BYTES + 8 * columns) * self.rows + PICK_BYTES * self.picks

    @property
    def for_points(self) -> int:
        side = min(self.features, self.rows + self.targets) if self.has_weights else 0
        squares = 7 if self.sampled else 4
        return 8 * (squares * side**2 + 3 * self.targets * self.features + 2 * self.sampled)

    def for_blocks(self, block_bytes: int, threads: int = 1) -> int:
        block = max(block_bytes, 8 * numerics.LEAST_BLOCK_ROWS * self.features)
        return (BLOCKS + THREAD_BLOCKS * (threads - 1)) * block + numerics.RECENT_BYTES


@dataclass(frozen=True)
class Plan:
    """A plan says what becomes of a budget of memory."""

    budget: int
    holds_pool: bool  # whether a pool that is elsewhere is brought where the work is done
    block_bytes: int
    kept: int  # what is left for columns and covariances
    threads: int = 1  # so many have room for blocks of their own


def check_memory(memory: Any) -> int | None:
    """The budget in bytes; None leaves it to the machine."""
    if memory is None:
        return None
    is_number = isinstance(memory, int | np.integer) and not isinstance(memory, bool)
    count = int(memory) if is_number else 0
    if isinstance(memory, str) and (found := SIZE.fullmatch(memory)):
        count = int(float(found[1]) * UNITS.get(found[2].upper(), 0))
    if count < 1:
        kind = ValueError if is_number or isinstance(memory, str) else TypeError
        is_short = isinstance(memory, str | int | float | np.integer)
        raise kind(
            f"memory must be a whole number of bytes or a size such as '500MB', '4GB' or '2GiB'; "
            f"got {repr(memory) if is_short else type(memory).__name__}. None takes half of what "
            f"is available."
        )
    return count


def check_plan(
    budget: int | None, sizes: Sizes, device: torch.device, *, is_here: bool, processes: int = 1
) -> Plan:
    """Plan what becomes of the budget, of which each process of a machine has its share."""
    sharers = processes if device.type == "cpu" else 1
    limit = available(device) // sharers if budget is None else budget
    least = least_budget(sizes)
    if least > limit:
        blocks = least - sizes.for_rows - sizes.for_points
        came = "that much is not available" if budget is None else f"got {in_words(limit)}"
        raise ValueError(
            f"memory must be at least {least:,} bytes ({in_words(least)}) for a pool of "
            f"{sizes.rows:,} rows of {sizes.features:,} features and {sizes.targets:,} targets: "
            f"{in_words(sizes.for_rows)} for values per row and {sizes.picks:,} picks, "
            f"{in_words(sizes.for_points)} for the targets and the posterior, {in_words(blocks)} "
            f"for blocks of rows; {came}. Give more, ask for fewer picks, or split the pool."
        )
    if budget is None:  # half of what is free, or more if blocks would be tiny
        comfortable = least + BLOCKS * numerics.BLOCK_BYTES
        budget = max(limit // 2, min(limit, comfortable))
    return plan(sizes, budget, device, is_here=is_here)


def plan(sizes: Sizes, budget: int, device: torch.device, *, is_here: bool) -> Plan:
    """The formula above. A pool that is in its place already (``is_here``) costs nothing."""
    most = numerics.BLOCK_BYTES if device.type == "cpu" else numerics.GPU_BLOCK_BYTES
    free = max(budget - least_budget(sizes), 0)  # blocks are not to take what rows need
    block_bytes = min(most, budget // BLOCK_SHARE, free // BLOCKS)
    working = sizes.for_rows + sizes.for_points + sizes.for_blocks(block_bytes)
    fits = sizes.data_bytes <= min(int(HELD_SHARE * budget), budget - working)
    holds_pool = not is_here and fits
    kept = max(budget - working - (sizes.data_bytes if holds_pool else 0), 0)
    threads = 1
    if device.type == "cpu":
        of_thread = sizes.for_blocks(block_bytes, 2) - sizes.for_blocks(block_bytes)
        threads = min(1 + kept // (4 * of_thread), MOST_THREADS)
        kept -= (threads - 1) * of_thread
    return Plan(budget, holds_pool, block_bytes, kept, threads)


def least_budget(sizes: Sizes) -> int:
    """The running values, the points, and the smallest blocks have to fit."""
    return sizes.for_rows + sizes.for_points + sizes.for_blocks(0)


def available(device: torch.device) -> int:
    """Bytes that could be allocated now, within the limits of the process and its container."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    page = os.sysconf("SC_PAGE_SIZE")
    machine = _number_after("MemAvailable:", "/proc/meminfo")
    if machine is None:
        return os.sysconf("SC_PHYS_PAGES") * page
    import resource  # only where there is /proc, so not where it is missing

    left, mapped = 1024 * machine, resource.getrlimit(resource.RLIMIT_AS)[0]  # ulimit -v
    if mapped != resource.RLIM_INFINITY:
        left = min(left, mapped - int(Path("/proc/self/statm").read_text().split()[0]) * page)
    return max(min([left, *left_of_containers(enough=left)]), 0)


def left_of_containers(
    membership: Path = Path("/proc/self/cgroup"),
    root: Path = Path("/sys/fs/cgroup"),
    *,
    enough: int = NO_LIMIT,
) -> Iterator[int]:
    """The bytes that each control group around the process still allows, in version 2 and 1.

    Cached files count as used there, but those that were not read lately give way. Nobody asks
    for these where there is ``enough`` without them.
    """
    for line in _text_in(membership).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in CONTROL_GROUPS:
            continue
        folder, limit, used, cached = CONTROL_GROUPS[controllers]
        names = [name for name in path.split("/") if name]
        for depth in range(len(names), -1, -1):
            group = os.path.join(root, folder, *names[:depth])
            most = _text_in(os.path.join(group, limit)).strip()
            if most.isdigit() and int(most) < NO_LIMIT:  # else "max"
                left = int(most) - int(_text_in(os.path.join(group, used)))
                if left < enough:
                    left += _number_after(cached, os.path.join(group, "memory.stat")) or 0
                yield left


def _number_after(word: str, path: str) -> int | None:
    """The number after the word that begins a line of a file; either may be missing."""
    for line in _text_in(path).splitlines():
        if line.startswith(f"{word} "):
            return int(line.split()[1])
    return None


def _text_in(path: str | Path) -> str:
    """What a file says; nothing if it is missing."""
    try:
        with open(path, "rb", buffering=0) as file:  # twice as fast as text
            return file.read().decode()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def in_words(count: int) -> str:
    """Bytes as a person would write them: 1_500_000 is 1.5 MB."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"
