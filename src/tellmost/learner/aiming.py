"""From what the caller calls targets and candidates to points and rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels import Kernel
from tellmost.kernels.kernel import Points
from tellmost.rows.sources import as_tensor
from tellmost.selecting.arguments import check_candidates, check_points
from tellmost.shapes import Bool
from tellmost.targets import Known, NoTargetsLeft, Region, Sampled, Targets
from tellmost.targets.box import Box


@dataclass(frozen=True)
class Asked:
    """Targets that a function of the posterior names anew each round."""

    function: Callable[[Known], Any]

    is_fixed: ClassVar[bool] = False

    def choose(self, known: Known) -> Any:
        return self.function(known)


def check_targets(targets: Any) -> Targets | None:
    """An object with ``choose``; arrays, masks and boxes are regions."""
    if targets is None:
        return None
    if isinstance(targets, type):
        raise TypeError(
            f"targets must be an instance, such as {targets.__name__}(...); got the class itself."
        )
    if isinstance(targets, Targets):
        return targets
    if callable(targets) and not isinstance(targets, Box | Tensor | np.ndarray):
        return Asked(targets)
    return Region(targets)


def points_of(answer: Any, pool: Points, kernel: Kernel) -> Points:
    """Targets as points: of a mask the pool's rows, else the points themselves."""
    values = as_tensor(answer, "targets")
    if values.dtype != torch.bool:
        checked = check_points(values, "targets", tuple(pool.shape), kernel)
        return checked.to(pool.device, copy=True)
    if values.shape != (len(pool),):
        raise ValueError(
            f"targets, as a mask, must have an entry per pool row, ({len(pool)},); got "
            f"{tuple(values.shape)}."
        )
    if not bool(values.any()):
        raise NoTargetsLeft(
            "no point of the pool belongs to the targets: nothing is left to learn about (or a "
            "mask is False everywhere)."
        )
    return pool[values.to(pool.device)]


def reported_points(targets: Targets, chosen: Points, pool: Points, kernel: Kernel) -> Points:
    """What the uncertainty is about: all that may be drawn, where a few are drawn each round."""
    whole = targets.all_points if isinstance(targets, Sampled) else None
    return chosen if whole is None else points_of(whole, pool, kernel)


def open_rows(candidates: Any, known: Callable[[], Known], n: int) -> Bool[Tensor, " n"]:
    """Which rows may be asked for: all, a mask, row numbers, or what a function says of now."""
    answer = candidates(known()) if callable(candidates) else candidates
    rows = check_candidates(answer, n)
    mask = torch.ones(n, dtype=torch.bool)
    if rows is not None:
        mask = torch.zeros_like(mask)
        mask[rows] = True
    return mask
