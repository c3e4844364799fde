"""Arguments of select, checked before any long work: each error says what came and the way out."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sightline.eligibility import Limits
from sightline.files import load_array
from sightline.kernels import Kernel, Linear, matrix_size
from sightline.numerics import DEFAULT_NOISE_RATIO
from sightline.pools import Pool, as_tensor, first_bad_row, normalized
from sightline.posterior import STATE_FIELDS, TARGET_FIELDS
from sightline.rules import BY_NAME, Rule
from sightline.scene import Observed, Scene
from sightline.selection import Selection
from sightline.shapes import Float, Int

NORMALIZATIONS = ("unit", "center", "center+unit")

NOT_NUMBERS = (str, bytes, bool, np.bool_)  # although float() and int() take them


def check_rule(rule: str | Rule) -> Rule:
    if isinstance(rule, str):
        if rule not in BY_NAME:
            raise ValueError(
                f"unknown rule {rule!r}; the rules are {', '.join(BY_NAME)}, or an object with "
                f"the attributes of sightline.rules.Rule."
            )
        return BY_NAME[rule]()
    if isinstance(rule, type) or not isinstance(rule, Rule):
        raise TypeError(
            f"rule must be a name or an instance of a rule, such as sl.rules.VTL(); got {rule!r}."
        )
    unknown = rule.needs - STATE_FIELDS
    if unknown:
        raise ValueError(
            f"rule {rule.name!r} needs {', '.join(sorted(unknown))}, which a State does not have; "
            f"it has {', '.join(sorted(STATE_FIELDS))}."
        )
    if rule.needs & TARGET_FIELDS and not rule.needs_targets:
        raise ValueError(f"rule {rule.name!r} reads targets but says needs_targets = False.")
    return rule


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


def check_limits(
    scene: Scene,
    rule: Rule,
    *,
    cost: Any,
    budget: Any,
    groups: Any,
    max_per_group: Any,
    replace: bool,
) -> Limits:
    """Everything that closes a candidate."""
    n = len(scene.pool)
    costs = check_cost(cost, budget, rule, n)
    labels, most = check_groups(groups, max_per_group, n)
    blocked = torch.zeros(n, dtype=torch.bool)
    if not replace:
        blocked[scene.observed.indices] = True
    return Limits(
        blocked=scene.cut(blocked),
        replace=replace,
        cost=None if costs is None else scene.cut(costs),
        ranks_per_cost=rule.name != "random",
        budget=None if budget is None else _positive(budget, "budget"),
        group=None if labels is None else scene.cut(labels),
        max_per_group=most,
    )


def check_kernel(kernel: Any) -> Kernel:
    if kernel is None:
        return Linear()
    if isinstance(kernel, type):
        raise TypeError(
            f"kernel must be an instance, such as {kernel.__name__}(...); got the class itself."
        )
    if isinstance(kernel, Kernel):
        return kernel
    if type(kernel).__module__.startswith("gpytorch") or hasattr(kernel, "covar_dist"):
        from sightline.integrations.gpytorch import GPyTorchKernel

        return GPyTorchKernel(kernel)
    raise TypeError(
        f"kernel must come from sl.kernels, be a gpytorch kernel, or have the methods block, "
        f"column and diagonal; got {type(kernel).__name__}."
    )


def check_pool(pool: Any, kernel: Kernel, normalize: str | None, device: Any) -> Pool:
    _check_normalize(normalize, kernel)
    wanted = None if device is None else check_device(device)
    data = read_array(pool, "pool")
    if matrix_size(kernel) is not None:
        data = _check_matrix_rows(data, "pool", kernel)
    else:
        _check_rows(data, "pool")
    where = data.device if wanted is None else wanted
    if data.device != where:
        data = data.to(where)  # asked for by device=
    return normalized(Pool(data, where), normalize)


def check_device(device: Any) -> torch.device:
    try:
        return torch.empty(0, device=device).device
    except (TypeError, RuntimeError, AssertionError) as error:  # unknown, or not on this machine
        raise ValueError(
            f"device must be one that torch can use here, such as 'cpu'; got {device!r}: "
            f"{str(error).splitlines()[0].rstrip('.')}."
        ) from error


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
        return _check_matrix_rows(data, name, kernel).to(pool.device)
    if data.ndim == 1 and len(data):
        data = data[None]
    _check_rows(data, name)
    if data.shape[1] != pool.dimension:
        raise ValueError(
            f"pool and {name} must share their feature dimension; got pool "
            f"{tuple(pool.data.shape)} and {name} {tuple(data.shape)}."
        )
    return pool.normalization.apply(data.to(device=pool.device, dtype=torch.float64))


def read_array(array: Any, name: str) -> Tensor:
    if isinstance(array, str | os.PathLike):
        return load_array(Path(array), name)
    if array is None:
        raise TypeError(f"{name} must be an array, a tensor or the path of a file; got None.")
    return as_tensor(array, name)


def _check_rows(data: Tensor, name: str) -> None:
    if 0 in data.shape:
        raise ValueError(f"{name} must not be empty; got shape {tuple(data.shape)}.")
    if data.ndim != 2:
        raise ValueError(
            f"{name} must have two dimensions, rows x features; got shape {tuple(data.shape)}. "
            f"Reshape it first; rows of one feature are (n, 1)."
        )
    bad = first_bad_row(data)
    if bad is not None:
        raise ValueError(
            f"{name} must be finite; row {bad} has a NaN or an infinity. Drop or repair such rows "
            f"first."
        )


def _check_matrix_rows(data: Tensor, name: str, kernel: Kernel) -> Int[Tensor, " n"]:
    if data.numel() == 0:
        raise ValueError(f"{name} must not be empty; got shape {tuple(data.shape)}.")
    if data.ndim != 1 or data.is_floating_point() or data.dtype == torch.bool:
        raise ValueError(
            f"with a Precomputed kernel {name} must be a vector of row numbers of its matrix; got "
            f"{_kind(data)}."
        )
    data = data.to(torch.int64)
    _check_range(data, matrix_size(kernel) or 0, name, "rows of the kernel's matrix")
    return data


def _check_range(indices: Tensor, count: int, name: str, what: str) -> None:
    outside = indices[(indices < 0) | (indices >= count)]
    if len(outside):
        raise ValueError(f"{name} must name {what}, 0 to {count - 1}; got {int(outside[0])}.")


def _kind(values: Tensor) -> str:
    """What came, in words."""
    return f"{str(values.dtype).removeprefix('torch.')} of shape {tuple(values.shape)}"


def check_indices(values: Any, name: str, n: int) -> Int[Tensor, " b"]:
    """Numbers of pool rows."""
    indices = as_tensor(values, name)
    if indices.ndim != 1 or indices.is_floating_point() or indices.dtype == torch.bool:
        raise TypeError(
            f"{name} must be a vector of integers, numbers of pool rows; got {_kind(indices)}."
        )
    indices = indices.to(device="cpu", dtype=torch.int64)
    _check_range(indices, n, name, "rows of the pool")
    return indices


def _check_distinct(indices: Tensor, name: str, way_out: str) -> None:
    values, counts = torch.unique(indices, return_counts=True)
    if bool((counts > 1).any()):
        raise ValueError(f"{name} has row {int(values[counts > 1][0])} more than once. {way_out}")


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
        _check_distinct(indices, "candidates", "Name each row once.")
        indices = indices.sort().values
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
                f"got {_kind(values)}."
            )
        points = check_points(values, "observed", pool, kernel)
        return Observed(none.indices, values.to(torch.float64).cpu(), points)
    if values.ndim != 1 or values.is_floating_point() or values.dtype == torch.bool:
        raise TypeError(
            f"observed must be a vector of integers (numbers of pool rows), an (o, d) array of "
            f"points, or a Selection; got {_kind(values)}. The rows of a mask are "
            f"np.flatnonzero(mask); a single point is point[None]."
        )
    indices = check_indices(values, "observed", len(pool))
    if not replace:
        _check_distinct(indices, "observed", "Pass replace=True if it was observed repeatedly.")
    return Observed(indices)


def _observed_selection(earlier: Selection, pool: Pool, kernel: Kernel) -> Observed:
    if earlier.fingerprint != pool.fingerprint():
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


def check_vector(values: Any, name: str, count: int, per: str) -> Float[Tensor, " c"]:
    vector = as_tensor(values, name)
    if vector.shape != (count,):
        raise ValueError(
            f"{name} must have one entry per {per}, ({count},); got {tuple(vector.shape)}."
        )
    vector = vector.to(torch.float64)
    bad = (~torch.isfinite(vector)).nonzero()[:, 0]
    if len(bad):
        raise ValueError(f"{name} must be finite; entry {int(bad[0])} is {vector[bad[0]]:g}.")
    return vector


def check_noise(
    noise_ratio: Any, noise_std: Any, n: int
) -> tuple[float | None, float | Tensor | None]:
    """Either (ratio, None) or (None, standard deviation: a float or a vector)."""
    if noise_ratio is not None and noise_std is not None:
        raise ValueError(
            "give noise_ratio (noise variance / mean prior variance) or noise_std (in the unit of "
            "y), not both."
        )
    if noise_std is None:
        ratio = DEFAULT_NOISE_RATIO if noise_ratio is None else noise_ratio
        return _positive(ratio, "noise_ratio"), None
    if np.ndim(noise_std) == 0:
        number = _positive(noise_std, "noise_std")
        _check_squares(torch.tensor([number], dtype=torch.float64))
        return None, number
    vector = check_vector(noise_std, "noise_std", n, "pool row")
    _check_positive(vector, "noise_std")
    _check_squares(vector)
    return None, vector


def _check_squares(noise_std: Float[Tensor, " c"]) -> None:
    squares = noise_std.square()
    bad = noise_std[(squares == 0) | (squares == torch.inf)]
    if len(bad):
        raise ValueError(
            f"noise_std must have a variance that float64 can hold; got {float(bad[0]):g}, whose "
            f"square is 0 or infinite. Measure y in another unit."
        )


def _check_positive(vector: Float[Tensor, " c"], name: str) -> None:
    bad = (vector <= 0).nonzero()[:, 0]
    if len(bad):
        row = int(bad[0])
        raise ValueError(f"{name} must be positive; row {row} has {float(vector[row]):g}.")


def _positive(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name} must be a number; got {type(value).__name__}.") from error
    if isinstance(value, NOT_NUMBERS):
        raise TypeError(f"{name} must be a number; got {value!r}.")
    if not 0 < number < float("inf"):
        raise ValueError(f"{name} must be a positive finite number; got {value}.")
    return number


@dataclass(frozen=True)
class Bounds:
    """How far a selection may go."""

    k: int | None
    budget: float | None
    min_gain: float | None
    min_gain_share: float | None


def check_bounds(
    k: Any, budget: Any, min_gain: Any, min_gain_share: Any, rule: Rule, conditional: bool
) -> Bounds:
    if k is None and budget is None and min_gain is None and min_gain_share is None:
        raise ValueError(
            "say how much to pick: k picks, a budget with cost, min_gain or min_gain_share."
        )
    if k is not None:
        k = _whole(k, "k")
    if budget is not None:
        budget = _positive(budget, "budget")
    min_gain = _check_least_gain(min_gain, "min_gain", rule, conditional)
    min_gain_share = _check_least_gain(min_gain_share, "min_gain_share", rule, conditional)
    if min_gain_share is not None and min_gain_share > 1:
        raise ValueError(
            f"min_gain_share is a share of the first gain, at most 1; got {min_gain_share:g}."
        )
    return Bounds(k, budget, min_gain, min_gain_share)


def _check_least_gain(value: Any, name: str, rule: Rule, conditional: bool) -> float | None:
    if value is None:
        return None
    if rule.is_signed or rule.name == "random":
        raise ValueError(
            f"{name} has no meaning for rule {rule.name!r}, whose gain is no amount of anything. "
            f"Give k, or use vtl, itl or mm-itl."
        )
    if not conditional:
        raise ValueError(
            f"{name} needs conditional=True, since a first score is no marginal gain; got "
            f"conditional=False. Give k instead."
        )
    return _positive(value, name)


def _whole(value: Any, name: str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError) as error:
        came = repr(value) if isinstance(value, str | float) else type(value).__name__
        raise TypeError(f"{name} must be a whole number of at least 1; got {came}.") from error
    if isinstance(value, NOT_NUMBERS):
        raise TypeError(f"{name} must be a whole number of at least 1; got {value!r}.")
    if number != value or number < 1:
        raise ValueError(f"{name} must be a whole number of at least 1; got {value}.")
    return number


def check_cost(cost: Any, budget: Any, rule: Rule, n: int) -> Float[Tensor, " n"] | None:
    if cost is None:
        if budget is not None:
            raise ValueError(
                f"budget needs cost, a positive number per pool row; got budget {budget} without."
            )
        return None
    if rule.is_signed:
        raise ValueError(
            f"cost has no meaning for rule {rule.name!r}: its gain may be negative, and gain per "
            f"cost would then prefer the dearer point. Use vtl, itl or mm-itl."
        )
    vector = check_vector(cost, "cost", n, "pool row")
    _check_positive(vector, "cost")
    return vector


def check_groups(
    groups: Any, max_per_group: Any, n: int
) -> tuple[Int[Tensor, " n"] | None, int | None]:
    if groups is None and max_per_group is None:
        return None, None
    if groups is None or max_per_group is None:
        given = "max_per_group" if groups is None else "groups"
        raise ValueError(
            f"groups and max_per_group go together: give both or neither; got only {given}."
        )
    most = _whole(max_per_group, "max_per_group")
    try:
        labels = groups.cpu().numpy() if isinstance(groups, Tensor) else np.asarray(groups)
        _, numbers = np.unique(labels, return_inverse=True)
    except (TypeError, ValueError) as error:  # labels that have no order, nested lists
        raise TypeError(
            f"groups must be labels of one kind, all numbers or all strings; numpy says: "
            f"{str(error).rstrip('.')}."
        ) from error
    if labels.shape != (n,):
        raise ValueError(f"groups must have one label per pool row, ({n},); got {labels.shape}.")
    return torch.from_numpy(numbers.astype(np.int64)), most


def check_combination(
    rule: Rule, has_targets: bool, replace: bool, conditional: bool, floor: bool
) -> None:
    """Options that have no meaning together."""
    if rule.needs_targets and not has_targets:
        free = [name for name, make in BY_NAME.items() if not make().needs_targets]
        raise ValueError(
            f"rule {rule.name!r} needs targets; the rules without are {', '.join(free)}."
        )
    is_blind = not rule.needs - {"correlation", "prior_variance"} and rule.name != "random"
    if replace and (is_blind or not conditional):
        which = f"rule {rule.name!r}" if is_blind else "conditional=False"
        raise ValueError(
            f"replace=True has no meaning with {which}: the best point would be picked every time."
        )
    if floor and not has_targets:
        raise ValueError("floor=True needs targets; got none. Pass targets or drop it.")


def check_enough(bounds: Bounds, limits: Limits) -> int:
    """How many rows may be picked, and whether k of them can be."""
    if limits.replace:
        if bounds.k is None and bounds.budget is None and bounds.min_gain is None:
            raise ValueError(
                "replace=True needs k, a budget or min_gain; got only min_gain_share, which never "
                "ends a selection whose first gain is 0."
            )
        return len(limits.blocked)
    open_rows = int((~limits.blocked).sum())
    if bounds.k is not None and bounds.k > open_rows:
        raise ValueError(
            f"k = {bounds.k} is larger than the {open_rows} candidates that may be picked. "
            f"Ask for fewer, or pass replace=True to allow repeats."
        )
    return open_rows
