"""Each target: before, after, with the whole pool, and how near the pool comes to it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tellmost.report.payload import shorten
from tellmost.report.rows import ITEM_LENGTH, Items, find_closeness
from tellmost.selecting.replay import Recalled
from tellmost.selecting.selection import Selection
from tellmost.shapes import Float, Int

SHOWN_TARGETS = 200
LEAST_HELPED = 10


@dataclass(frozen=True)
class TargetBars:
    """Some targets, the most uncertain after the picks first."""

    numbers: Int[np.ndarray, " s"]
    before: Float[np.ndarray, " s"]
    after: Float[np.ndarray, " s"]
    whole_pool: Float[np.ndarray, " s"] | None
    closeness: Float[np.ndarray, " s"] | None  # cosine to the nearest pool row
    items: list[str] | None
    total: int


def describe_targets(recalled: Recalled, items: Items) -> tuple[TargetBars, TargetBars] | None:
    """Those shown as bars, and those that are helped least; None where there are no targets."""
    if recalled.targets is None:
        return None
    after = recalled.chosen.target_variance[1]
    shown = np.argsort(-after, kind="stable")[:SHOWN_TARGETS]
    least = find_least_helped(recalled.chosen)
    both = np.unique(np.concatenate([shown, least]))
    closeness = None
    if len(recalled.pool.shape) == 2:
        closeness = np.full(len(after), np.nan)
        some = recalled.targets[torch.from_numpy(both).to(recalled.targets.device)]
        closeness[both] = find_closeness(recalled.pool, some)
    chosen = recalled.chosen
    return _take(chosen, shown, closeness, items), _take(chosen, least, closeness, items)


def find_least_helped(chosen: Selection) -> Int[np.ndarray, " s"]:
    """Targets that keep the largest share: with the whole pool observed, or else the picks."""
    before, after = chosen.target_variance
    left = after if chosen.whole_pool is None else chosen.whole_pool
    uncertain = np.flatnonzero(before > 0)
    share = left[uncertain] / before[uncertain]
    return uncertain[np.argsort(-share, kind="stable")[:LEAST_HELPED]]


def _take(
    chosen: Selection,
    numbers: Int[np.ndarray, " s"],
    closeness: Float[np.ndarray, " m"] | None,
    items: Items,
) -> TargetBars:
    before, after = chosen.target_variance[:, numbers]
    whole = chosen.whole_pool
    texts = [items.show(number, ITEM_LENGTH) for number in numbers.tolist()]
    return TargetBars(
        numbers=numbers,
        before=before,
        after=after,
        whole_pool=None if whole is None else whole[numbers],
        closeness=None if closeness is None else closeness[numbers],
        items=None if items.given is None else texts,
        total=chosen.target_variance.shape[1],
    )


def pack_targets(bars: TargetBars) -> dict[str, Any]:
    values = {
        "before": bars.before,
        "after": bars.after,
        "whole": bars.whole_pool,
        "closeness": bars.closeness,
    }
    packed = {name: None if v is None else shorten(v) for name, v in values.items()}
    return {"numbers": bars.numbers.tolist(), "texts": bars.items, **packed}
