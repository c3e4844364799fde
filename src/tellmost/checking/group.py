"""The group of processes that choose together, and whether they were asked the same."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import distributed as dist

from tellmost.checking.amounts import Bounds
from tellmost.identity import describe, digest
from tellmost.numerics import FLOOR_EXACT_ROWS
from tellmost.posterior.floor import can_compute_floor
from tellmost.posterior.problem import Problem
from tellmost.rules import Rule
from tellmost.running.processes import ALONE, Exchange, Group, agree
from tellmost.scene import Scene


def check_group(group: Any) -> Exchange:
    """None for one process that holds all rows."""
    if group is None:
        return ALONE
    if not dist.is_available() or not dist.is_initialized():
        raise ValueError(
            "group needs torch.distributed to be initialised; call "
            "torch.distributed.init_process_group() first, on every process, and start them with "
            "torchrun."
        )
    if not isinstance(group, dist.ProcessGroup):
        raise TypeError(
            f"group must be a process group of torch.distributed that this process belongs to, "
            f"such as torch.distributed.group.WORLD; got {type(group).__name__}."
        )
    return Group.of(group)


def check_floor(floor: bool, problem: Problem) -> None:
    if floor and not can_compute_floor(problem):
        raise ValueError(
            f"floor=True with group needs inner products, or at most {FLOOR_EXACT_ROWS:,} "
            f"candidates; got {problem.kernel!r} and {problem.place.total:,} candidates. Drop it, "
            f"or compute it on one process that holds all rows."
        )


def check_agreement(scene: Scene, rule: Rule, bounds: Bounds, settings: Mapping[str, Any]) -> None:
    """Whether all processes were given the same, apart from their rows; settings as they came."""
    exchange = scene.place.exchange
    if exchange.is_alone:
        return
    facts = {
        "rule": describe(rule),
        "kernel": describe(scene.kernel),
        "targets": digest(scene.targets),
        "target_weights": digest(scene.target_weights),
        "observed": [digest(scene.observed.indices), digest(scene.observed.points)],
        "k": bounds.k,
        "budget": bounds.budget,
        "min_gain": bounds.min_gain,
        "min_gain_share": bounds.min_gain_share,
        "kind of device": scene.pool.device.type,
    }
    given = {name: in_short(value) for name, value in settings.items()}
    agree(exchange, facts | given)


def in_short(value: Any) -> str | None:
    """A number or a word as it is; of a list only that it was given."""
    if value is None:
        return None
    return repr(value) if np.ndim(value) == 0 else "an entry per row"
