"""Everything about amounts: noise, k, budget, costs, groups, least gains."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.eligibility import Limits
from tellmost.numerics import DEFAULT_NOISE_RATIO
from tellmost.rows.opening import check_all_positive, check_positive, check_vector, check_whole
from tellmost.rules import Rule
from tellmost.rules.rule import is_random
from tellmost.running.processes import Exchange
from tellmost.scene import Scene
from tellmost.shapes import Float, Int


def check_noise(
    noise_ratio: Any, noise_std: Any, scene: Scene
) -> tuple[float | None, float | Tensor | None]:
    """Either (ratio, None) or (None, standard deviation: a float or a vector)."""
    if noise_ratio is not None and noise_std is not None:
        raise ValueError(
            "give noise_ratio (noise variance / mean prior variance) or noise_std (in the unit of "
            "y), not both."
        )
    if noise_std is None:
        ratio = DEFAULT_NOISE_RATIO if noise_ratio is None else noise_ratio
        return check_positive(ratio, "noise_ratio"), None
    if np.ndim(noise_std) == 0:
        number = check_positive(noise_std, "noise_std")
        check_squares(torch.tensor([number], dtype=torch.float64))
        return None, number
    vector = check_vector(noise_std, "noise_std", len(scene.pool), "pool row")
    check_all_positive(vector, "noise_std")
    check_squares(vector)
    if scene.observed.features is not None:
        raise ValueError(
            "observed points outside the pool take the scalar noise; noise_std is per pool "
            "row here. Give one noise_std, or put the points into the pool."
        )
    return None, vector


def check_squares(noise_std: Float[Tensor, " c"]) -> None:
    squares = noise_std.square()
    bad = noise_std[(squares == 0) | (squares == torch.inf)]
    if len(bad):
        raise ValueError(
            f"noise_std must have a variance that float64 can hold; got {float(bad[0]):g}, whose "
            f"square is 0 or infinite. Measure y in another unit."
        )


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
        k = check_whole(k, "k")
    if budget is not None:
        budget = check_positive(budget, "budget")
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
    if rule.is_signed or is_random(rule):
        raise ValueError(
            f"{name} has no meaning for rule {rule.name!r}, whose gain is no amount of anything. "
            f"Give k, or use vtl, itl or mm-itl."
        )
    if not conditional:
        raise ValueError(
            f"{name} needs conditional=True, since a first score is no marginal gain; got "
            f"conditional=False. Give k instead."
        )
    return check_positive(value, name)


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
    n, exchange = len(scene.pool), scene.place.exchange
    with exchange.together():
        costs = check_cost(cost, budget, rule, n)
        most = check_max_per_group(groups, max_per_group)
        labels = None if most is None else check_labels(groups, n)
    observed = scene.pool_place.mine(scene.observed.indices)
    numbers, taken = None, None
    if labels is not None:
        numbers, count = number_labels(labels, exchange)
        taken = exchange.sum(torch.bincount(numbers[observed], minlength=count))
    blocked = torch.zeros(n, dtype=torch.bool, device=scene.pool.device)
    if not replace and len(observed):
        blocked[observed.to(blocked.device)] = True
    return Limits(
        blocked=scene.cut(blocked),
        replace=replace,
        cost=None if costs is None else scene.cut(costs),
        ranks_per_cost=not is_random(rule),
        budget=None if budget is None else check_positive(budget, "budget"),
        group=None if numbers is None else scene.cut(numbers),
        max_per_group=most,
        taken_of_group=None if taken is None else taken.to(scene.pool.device),
    )


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
    check_all_positive(vector, "cost")
    return vector


def check_max_per_group(groups: Any, max_per_group: Any) -> int | None:
    if groups is None and max_per_group is None:
        return None
    if groups is None or max_per_group is None:
        given = "max_per_group" if groups is None else "groups"
        raise ValueError(
            f"groups and max_per_group go together: give both or neither; got only {given}."
        )
    return check_whole(max_per_group, "max_per_group")


def check_labels(groups: Any, n: int) -> np.ndarray:
    try:
        labels = groups.cpu().numpy() if isinstance(groups, Tensor) else np.asarray(groups)
        np.unique(labels)
    except (TypeError, ValueError) as error:  # labels that have no order, nested lists
        raise TypeError(
            f"groups must be labels of one kind, all numbers or all strings; numpy says: "
            f"{str(error).rstrip('.')}."
        ) from error
    if labels.shape != (n,):
        raise ValueError(f"groups must have one label per pool row, ({n},); got {labels.shape}.")
    return labels


def number_labels(labels: np.ndarray, exchange: Exchange) -> tuple[Int[Tensor, " n"], int]:
    """The labels as numbers that mean the same on all processes, and how many there are."""
    names, numbers = np.unique(labels, return_inverse=True)
    if exchange.is_alone:
        return torch.from_numpy(numbers.astype(np.int64)), len(names)
    texts = exchange.texts(json.dumps(names.tolist(), default=str))
    everyone = [json.loads(text) for text in texts]
    _, common = np.unique([name for own in everyone for name in own], return_inverse=True)
    first = sum(len(own) for own in everyone[: exchange.rank])
    table = common.astype(np.int64)[first : first + len(names)]
    return torch.from_numpy(table[numbers]), int(common.max()) + 1


def check_enough(bounds: Bounds, limits: Limits, exchange: Exchange) -> None:
    """Whether there are k rows to pick, or anything that ends a selection with repeats."""
    if limits.replace:
        if bounds.k is None and bounds.budget is None and bounds.min_gain is None:
            raise ValueError(
                "replace=True needs k, a budget or min_gain; got only min_gain_share, which never "
                "ends a selection whose first gain is 0."
            )
        return
    open_rows = int(exchange.sum((~limits.blocked).sum()))
    if bounds.k is not None and bounds.k > open_rows:
        raise ValueError(
            f"k = {bounds.k} is larger than the {open_rows} candidates that may be picked. "
            f"Ask for fewer, or pass replace=True to allow repeats."
        )


def check_columns_ahead(columns_ahead: Any) -> int | None:
    return None if columns_ahead is None else check_whole(columns_ahead, "columns_ahead")
