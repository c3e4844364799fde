"""Everything about points: pool, candidates, targets, what was observed."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.checking.choices import check_device
from tellmost.checking.memory import check_memory, check_plan
from tellmost.kernels import Kernel
from tellmost.kernels.composed import feature_form, matrix_size
from tellmost.rows.opening import (
    check_distinct,
    check_indices,
    check_matrix_rows,
    check_rows,
    check_shape,
    check_vector,
    kind_of,
    open_source,
    read_array,
)
from tellmost.rows.pool import Pool
from tellmost.rows.sources import HeldRows, Source, as_tensor
from tellmost.rules import Rule
from tellmost.running.memory import Sizes
from tellmost.running.processes import Exchange, Place, agree
from tellmost.scene import ANOTHER_POOL, Observed, Scene
from tellmost.selection import Selection
from tellmost.shapes import Float, Int

NORMALIZATIONS = ("unit", "center", "center+unit")


def check_scene(
    pool: Any,
    targets: Any,
    kernel: Kernel,
    *,
    normalize: str | None,
    observed: Any,
    candidates: Any,
    target_weights: Any,
    rule: Rule,
    k: int | None,
    replace: bool,
    device: Any,
    memory: Any,
    exchange: Exchange,
) -> Scene:
    """Everything about points, before the pool's rows are read."""
    with exchange.together():
        _check_normalize(normalize, kernel)
        wanted = None if device is None else check_device(device)
        budget = check_memory(memory)
        source = check_source(pool, kernel)
    pool_place = Place.of(source.shape[0], exchange)
    agree(exchange, {"number of features": list(source.shape[1:])})
    with exchange.together():
        where = source.device if wanted is None else wanted
        points = None
        if targets is not None:
            points = check_points(targets, "targets", source.shape, kernel).to(where)
        weights = check_weights(target_weights, rule, points, where)
        shape = (pool_place.total, *source.shape[1:])
        seen = check_observed(observed, shape, kernel, where, replace)
        chosen = check_candidates(candidates, source.shape[0], is_alone=exchange.is_alone)
        sizes = sizes_of(source, points, kernel, rule, k)
        is_here = source.held is not None and source.device == where
        plan = check_plan(budget, sizes, where, is_here=is_here, processes=exchange.size)
    return Scene(
        pool=Pool(source, where, plan.block_bytes),
        kernel=kernel,
        candidates=chosen,
        targets=points,
        target_weights=weights,
        is_weighted=target_weights is not None,
        observed=seen,
        plan=plan,
        pool_place=pool_place,
        place=place_candidates(source.shape[0] if chosen is None else len(chosen), exchange),
    )


def place_candidates(count: int, exchange: Exchange) -> Place:
    place = Place.of(count, exchange)
    if place.total == 0:
        raise ValueError("candidates must name at least one row; got none on any process.")
    return place


def check_source(pool: Any, kernel: Kernel) -> Source:
    source = open_source(pool, "pool")
    if matrix_size(kernel) is None:
        check_shape(source.shape, "pool")
        return source
    return HeldRows(check_matrix_rows(source.read(0, source.shape[0]), "pool", kernel))


def sizes_of(
    source: Source, targets: Tensor | None, kernel: Kernel, rule: Rule, k: int | None
) -> Sizes:
    n, d = source.shape[0], torch.Size(source.shape[1:]).numel()
    return Sizes(
        rows=n,
        features=d,
        targets=0 if targets is None else len(targets),
        data_bytes=n * d * source.dtype.itemsize,
        picks=k or 0,
        has_weights=feature_form(kernel) is not None,
        sees_targets="variance_given_targets" in rule.needs,
    )


def _check_normalize(normalize: Any, kernel: Kernel) -> None:
    if normalize is None:
        return
    if normalize not in NORMALIZATIONS:
        raise ValueError(
            f"normalize must be None or one of {', '.join(map(repr, NORMALIZATIONS))}; got "
            f"{normalize!r}."
        )
    if matrix_size(kernel) is not None:
        raise ValueError(
            f"normalize has no meaning with a Precomputed kernel, whose points are row numbers; "
            f"got {normalize!r}. Drop it."
        )


def check_points(points: Any, name: str, shape: tuple[int, ...], kernel: Kernel) -> Tensor:
    """Targets or outside observations as float64 rows, for a pool of this shape."""
    data = read_array(points, name)
    if matrix_size(kernel) is not None:
        return check_matrix_rows(data, name, kernel)
    if data.ndim == 1 and len(data):
        data = data[None]
    check_rows(data, name)
    if data.shape[1] != shape[1]:
        raise ValueError(
            f"pool and {name} must share their feature dimension; got pool {shape} and {name} "
            f"{tuple(data.shape)}."
        )
    return data.to(torch.float64)


def check_candidates(
    candidates: Any, n: int, *, is_alone: bool = True
) -> Int[Tensor, " c"] | None:
    """Rows that may be picked, ascending; None for all. None at all only if others have some."""
    if candidates is None:
        return None
    values = as_tensor(candidates, "candidates").cpu()
    if values.numel() == 0 and not is_alone:
        return torch.empty(0, dtype=torch.int64)
    if values.numel() == 0:
        raise ValueError("candidates must name at least one row; got none. None allows all rows.")
    if values.dtype == torch.bool:
        if values.shape != (n,):
            raise ValueError(
                f"candidates, as a mask, must have an entry per pool row, ({n},); got "
                f"{tuple(values.shape)}."
            )
        indices = values.nonzero()[:, 0]
    else:
        indices = check_indices(values, "candidates", n)
        check_distinct(indices, "candidates", "Name each row once.")
        indices = indices.sort().values
    if len(indices) == n:
        return None
    if len(indices) == 0 and is_alone:
        raise ValueError("candidates must name at least one row; the mask is False everywhere.")
    return indices


def check_observed(
    observed: Any, shape: tuple[int, ...], kernel: Kernel, device: torch.device, replace: bool
) -> Observed:
    """For rows of this shape, those of all processes together."""
    none = Observed(torch.empty(0, dtype=torch.int64))
    if observed is None:
        return none
    if isinstance(observed, Selection):
        return _observed_selection(observed, shape, kernel, device)
    values = read_array(observed, "observed")
    if values.numel() == 0:
        return none
    if values.ndim == 2:
        if matrix_size(kernel) is not None:
            raise ValueError(
                f"with a Precomputed kernel observed must be a vector of numbers of pool rows; "
                f"got {kind_of(values)}."
            )
        points = check_points(values, "observed", shape, kernel)
        return Observed(none.indices, points.cpu(), points.to(device))
    if values.ndim != 1 or values.is_floating_point() or values.dtype == torch.bool:
        raise TypeError(
            f"observed must be a vector of integers (numbers of pool rows), an (o, d) array of "
            f"points, or a Selection; got {kind_of(values)}. The rows of a mask are "
            f"np.flatnonzero(mask); a single point is point[None]."
        )
    indices = check_indices(values, "observed", shape[0])
    if not replace:
        check_distinct(indices, "observed", "Pass replace=True if it was observed repeatedly.")
    return Observed(indices)


def _observed_selection(
    earlier: Selection, shape: tuple[int, ...], kernel: Kernel, device: torch.device
) -> Observed:
    """What it knows; whether it knows it of this pool is seen once the pool has been read."""
    indices = torch.from_numpy(np.concatenate([earlier.observed_indices, earlier.indices]))
    if earlier.settings["rows"] != shape[0]:
        raise ValueError(ANOTHER_POOL)
    points = earlier.observed_points
    if points is None:
        return Observed(indices, fingerprint=earlier.fingerprint)
    kept = torch.from_numpy(points)
    features = check_points(kept, "observed", shape, kernel).to(device)
    return Observed(indices, kept, features, earlier.fingerprint)


def check_weights(
    weights: Any, rule: Rule, targets: Tensor | None, device: torch.device
) -> Float[Tensor, " m"] | None:
    if targets is None:
        if weights is not None:
            raise ValueError("target_weights needs targets; got none. Pass targets or drop it.")
        return None
    m = len(targets)
    if weights is None:
        return torch.full((m,), 1.0 / m, dtype=torch.float64, device=device)
    if not rule.weighs_targets:
        raise ValueError(
            f"target_weights has no meaning for rule {rule.name!r}, whose gain weighs no single "
            f"targets; use vtl, mm-itl, ctl or cosine, or drop it."
        )
    values = check_vector(weights, "target_weights", m, "target").to(device)
    least, largest = float(values.min()), float(values.max())
    if least < 0 or largest == 0:
        raise ValueError(
            f"target_weights must be non-negative with a positive sum; got values from {least:g} "
            f"to {largest:g}."
        )
    values = values / largest  # so that no sum overflows
    return values / values.sum()
