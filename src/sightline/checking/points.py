"""Everything about points: pool, candidates, targets, what was observed."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sightline.checking.choices import check_device
from sightline.checking.values import (
    check_distinct,
    check_indices,
    check_matrix_rows,
    check_rows,
    check_vector,
    kind_of,
    read_array,
)
from sightline.kernels import Kernel
from sightline.kernels.algebra import matrix_size
from sightline.pools import Pool, as_tensor, normalized
from sightline.rules import Rule
from sightline.scene import Observed, Scene, fingerprint
from sightline.selection import Selection
from sightline.shapes import Float, Int

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
    replace: bool,
    device: Any,
) -> Scene:
    """Everything about points."""
    checked = check_pool(pool, kernel, normalize, device)
    points = None if targets is None else check_points(targets, "targets", checked, kernel)
    return Scene(
        pool=checked,
        kernel=kernel,
        candidates=check_candidates(candidates, len(checked)),
        targets=points,
        target_weights=check_weights(target_weights, rule, points, checked.device),
        is_weighted=target_weights is not None,
        observed=check_observed(observed, checked, kernel, replace),
    )


def check_pool(pool: Any, kernel: Kernel, normalize: str | None, device: Any) -> Pool:
    _check_normalize(normalize, kernel)
    wanted = None if device is None else check_device(device)
    data = read_array(pool, "pool")
    if matrix_size(kernel) is not None:
        data = check_matrix_rows(data, "pool", kernel)
    else:
        check_rows(data, "pool")
    where = data.device if wanted is None else wanted
    if data.device != where:
        data = data.to(where)  # asked for by device=
    return normalized(Pool(data, where), normalize)


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


def check_points(points: Any, name: str, pool: Pool, kernel: Kernel) -> Tensor:
    """Targets or outside observations as float64 rows, normalised as the pool is."""
    data = read_array(points, name)
    if matrix_size(kernel) is not None:
        return check_matrix_rows(data, name, kernel).to(pool.device)
    if data.ndim == 1 and len(data):
        data = data[None]
    check_rows(data, name)
    if data.shape[1] != pool.dimension:
        raise ValueError(
            f"pool and {name} must share their feature dimension; got pool "
            f"{tuple(pool.data.shape)} and {name} {tuple(data.shape)}."
        )
    return pool.normalization.apply(data.to(device=pool.device, dtype=torch.float64))


def check_candidates(candidates: Any, n: int) -> Int[Tensor, " c"] | None:
    """Rows that may be picked, ascending; None for all."""
    if candidates is None:
        return None
    values = as_tensor(candidates, "candidates").cpu()
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
    if len(indices) == 0:
        raise ValueError("candidates must name at least one row; the mask is False everywhere.")
    return indices


def check_observed(observed: Any, pool: Pool, kernel: Kernel, replace: bool) -> Observed:
    none = Observed(torch.empty(0, dtype=torch.int64))
    if observed is None:
        return none
    if isinstance(observed, Selection):
        return _observed_selection(observed, pool, kernel)
    values = read_array(observed, "observed")
    if values.numel() == 0:
        return none
    if values.ndim == 2:
        if matrix_size(kernel) is not None:
            raise ValueError(
                f"with a Precomputed kernel observed must be a vector of numbers of pool rows; "
                f"got {kind_of(values)}."
            )
        points = check_points(values, "observed", pool, kernel)
        return Observed(none.indices, values.to(torch.float64).cpu(), points)
    if values.ndim != 1 or values.is_floating_point() or values.dtype == torch.bool:
        raise TypeError(
            f"observed must be a vector of integers (numbers of pool rows), an (o, d) array of "
            f"points, or a Selection; got {kind_of(values)}. The rows of a mask are "
            f"np.flatnonzero(mask); a single point is point[None]."
        )
    indices = check_indices(values, "observed", len(pool))
    if not replace:
        check_distinct(indices, "observed", "Pass replace=True if it was observed repeatedly.")
    return Observed(indices)


def _observed_selection(earlier: Selection, pool: Pool, kernel: Kernel) -> Observed:
    if earlier.fingerprint != fingerprint(pool, kernel):
        raise ValueError(
            "observed is a Selection from another pool: its row numbers mean other points here. "
            "Pass the same pool, or the observed points themselves as an (o, d) array."
        )
    indices = np.concatenate([earlier.observed_indices, earlier.indices])
    points = earlier.observed_points
    if points is None:
        return Observed(torch.from_numpy(indices))
    kept = torch.from_numpy(points)
    return Observed(torch.from_numpy(indices), kept, check_points(kept, "observed", pool, kernel))


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
