"""The memory budget: a number of bytes, or a size as people write it."""

import re
from typing import Any

import numpy as np
import torch

from tellmost.running.memory import (
    Plan,
    Sizes,
    available,
    chosen_budget,
    in_words,
    least_budget,
    plan,
)

UNITS = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGT", start=1)},
    **{f"{letter}IB": 1024**power for power, letter in enumerate("KMGT", start=1)},
}
SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?B)\s*", re.IGNORECASE)


def check_memory(memory: Any) -> int | None:
    """In bytes; None for what Tellmost thinks fit."""
    if memory is None:
        return None
    if isinstance(memory, str):
        found = SIZE.fullmatch(memory)
        if found is None or found[2].upper() not in UNITS:
            raise ValueError(_message(repr(memory)))
        count = int(float(found[1]) * UNITS[found[2].upper()])
    elif isinstance(memory, int | np.integer) and not isinstance(memory, bool):
        count = int(memory)
    else:
        came = repr(memory) if isinstance(memory, bool | float) else type(memory).__name__
        raise TypeError(_message(came))
    if count < 1:
        raise ValueError(_message(repr(memory)))
    return count


def _message(came: str) -> str:
    return (
        f"memory must be a whole number of bytes or a size such as '500MB', '4GB' or '2GiB'; got "
        f"{came}. None takes half of what is available."
    )


def check_plan(
    budget: int | None,
    sizes: Sizes,
    device: torch.device,
    *,
    is_here: bool,
    processes: int = 1,
) -> Plan:
    """What becomes of the budget; an error if it is too small to work at all.

    Processes have a GPU each, but share the memory of a machine.
    """
    sharers = processes if device.type == "cpu" else 1
    limit = available(device) // sharers if budget is None else budget
    least = least_budget(sizes)
    if least > limit:
        blocks = least - sizes.for_rows - sizes.for_points
        came = "that much is not available" if budget is None else f"got {in_words(limit)}"
        raise ValueError(
            f"memory must be at least {least:,} bytes ({in_words(least)}) for a pool of "
            f"{sizes.rows:,} rows of {sizes.features:,} features and {sizes.targets:,} targets: "
            f"{in_words(sizes.for_rows)} for values per row, {in_words(sizes.for_points)} for the "
            f"targets and the posterior, {in_words(blocks)} for blocks of rows; {came}. Give "
            f"more, or split the pool."
        )
    return plan(sizes, budget or chosen_budget(limit, sizes), device, is_here=is_here)
