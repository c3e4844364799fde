"""The learner's arguments, checked, and made into points and rows."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels import Kernel
from tellmost.kernels.kernel import Points
from tellmost.kernels.linear import matrix_size
from tellmost.learner.record import OUTSIDE, Noise, Told
from tellmost.numerics import SOBOL_POINTS
from tellmost.posterior.gp import GP
from tellmost.rows.checks import (
    check_features,
    check_indices,
    check_mask,
    check_matrix_rows,
    check_positives,
    check_rows,
    check_vector,
    kind_of,
)
from tellmost.rows.sources import as_tensor, read_array
from tellmost.rules import KMeansPlusPlus, Random, Rule
from tellmost.running.memory import available, in_words
from tellmost.selecting.arguments import check_candidates, check_points
from tellmost.shapes import Bool
from tellmost.targets import Known, NoTargetsLeft, Region, Targets
from tellmost.targets.box import Box


def check_pool(pool: Any, gp: GP, seed: int, *, replace: bool, noise_std: Any) -> Points:
    """The rows to ask for, in float64: as given, or spread over a box."""
    kernel = gp.kernel
    if not isinstance(pool, Box):
        data = read_array(pool, "pool")
        if matrix_size(kernel) is not None:
            points = check_matrix_rows(data, "pool", kernel)
        else:
            check_rows(data, "pool")
            points = data.to(torch.float64, copy=True)  # the caller may change the array later
    elif not replace:
        raise ValueError(
            "replace=False has no meaning in a Box: its points are not numbered, and other points "
            "lie next to each that was measured. Leave it out, or pass (n, d) points as pool."
        )
    elif not callable(noise_std) and np.ndim(noise_std) > 0:
        raise ValueError(
            f"noise_std in a Box must be a number, or a function from (b, d) points to (b,) "
            f"values; got an array of shape {np.shape(noise_std)}."
        )
    elif matrix_size(kernel) is not None:
        raise ValueError(
            "pool must not be a Box with a Precomputed kernel, which knows no points between "
            "its rows. Pass row numbers of the matrix as pool."
        )
    else:
        points = pool.sobol(SOBOL_POINTS, seed)
    if gp.data is not None:
        check_features(gp.data.points.shape, "the data of the prior", points.shape)
    return points


def seeded(rule: Rule, name: Any, seed: int) -> Rule:
    """The rule; a random one that was given by its name takes the learner's seed."""
    if isinstance(name, str) and isinstance(rule, Random | KMeansPlusPlus):
        return type(rule)(seed)
    return rule


def check_asked(count: int, told: int, rows: int, columns: int) -> None:
    """Refuse to ask for more points than half of the memory that is left can hold.

    Each takes columns over the rows of the pool, and a row of a factor, which is copied to grow.
    """

    def needed(ahead: int) -> int:
        return 8 * (columns * rows * ahead + 2 * (told + ahead) ** 2)

    left = available(torch.device("cpu")) // 2
    if needed(count) > left:
        most = bisect_right(range(count), left, key=needed) - 1
        raise ValueError(
            f"ask({count:,}) would hold {in_words(needed(count))}, a column of the pool and the "
            f"covariances with all others for each point; {in_words(left)} may be taken. Ask for "
            f"at most {most:,} at once."
        )


def check_told(
    where: Any, y: Any, noise_std: Any, pool: Points, kernel: Kernel, noise: Noise, is_box: bool
) -> list[Told]:
    """Observations, from row numbers or points, from values and from noise."""
    if np.size(_numbers(where)) == 0 and np.size(_numbers(y)) == 0:
        return []
    rows, points = _check_where(where, pool, kernel, is_box)
    values = check_vector(np.atleast_1d(_numbers(y)), "y", len(points), "observation")
    if noise_std is not None:
        std = check_positives(_numbers(noise_std), "noise_std", len(points), "observation")
        variance = std.square()
    else:
        variance = noise.at(points) if rows is None else noise.of_rows[rows]
    numbers = _rows_of(points, pool) if rows is None else rows.tolist()
    parts = zip(numbers, points[:, None], values.tolist(), variance.tolist(), strict=True)
    return [Told(*one) for one in parts]


def _rows_of(points: Points, pool: Points) -> list[int]:
    """The first row that equals each point, or OUTSIDE."""
    rows = []
    for point in points:
        same = (pool == point).reshape(len(pool), -1).all(dim=1).nonzero()[:1, 0]
        rows.append(int(same) if len(same) else OUTSIDE)
    return rows


def _check_where(
    where: Any, pool: Points, kernel: Kernel, is_box: bool
) -> tuple[Tensor | None, Points]:
    """Row numbers, if they were given, and points."""
    values = read_array(np.atleast_1d(_numbers(where)), "indices_or_points")
    is_rows = values.ndim == 1 and not values.is_floating_point() and values.dtype != torch.bool
    if is_rows and is_box:
        raise TypeError(
            f"a learner in a Box is told (n, d) points, as ask() gives them; got integers of "
            f"shape {tuple(values.shape)}."
        )
    if is_rows:
        rows = check_indices(values, "indices_or_points", len(pool))
        return rows, pool[rows.to(pool.device)]
    if matrix_size(kernel) is not None or values.dtype == torch.bool:
        raise TypeError(
            f"indices_or_points must be numbers of pool rows; got {kind_of(values)}. The rows of "
            f"a mask are np.flatnonzero(mask)."
        )
    shape = tuple(pool.shape)
    return None, check_points(values, "indices_or_points", shape, kernel).to(pool.device)


def _numbers(values: Any) -> Any:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else values


@dataclass(frozen=True)
class Asked(Targets):
    """Targets that a function of the posterior chooses anew each round."""

    function: Callable[[Known], Any]

    def choose(self, known: Known) -> Any:
        return self.function(known)


def check_targets(targets: Any) -> Targets | None:
    """Targets have ``choose`` or are a function; arrays, masks and boxes become a Region."""
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
    """Targets as points: the pool's rows for a mask, else the points themselves."""
    values = as_tensor(answer, "targets")
    if values.dtype != torch.bool:
        checked = check_points(values, "targets", tuple(pool.shape), kernel)
        return checked.to(pool.device, copy=True)
    check_mask(values, "targets", len(pool))
    if not bool(values.any()):
        raise NoTargetsLeft(
            "no point of the pool belongs to the targets: nothing is left to learn about (or a "
            "mask is False everywhere)."
        )
    return pool[values.to(pool.device)]


def open_rows(candidates: Any, known: Callable[[], Known], n: int) -> Bool[Tensor, " n"]:
    """Mark the rows that may be asked for. ``candidates`` may be a function of the posterior."""
    answer = candidates(known()) if callable(candidates) else candidates
    rows = check_candidates(answer, n)
    mask = torch.ones(n, dtype=torch.bool)
    if rows is not None:
        mask = torch.zeros_like(mask)
        mask[rows] = True
    return mask
