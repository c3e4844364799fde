"""The table of picks: what each is, what it was worth, and for whom.

Each target: before, after, with the whole pool, and how near the pool comes to it.

What to show for a row, and how near rows come to a target.

A map of pool, targets and picks: the rows on their two principal directions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.evaluation.health import Health, draw_rows
from tellmost.kernels import Linear
from tellmost.report.curves import RETRACED, retrace_in_parts
from tellmost.report.markup import Column, number, shorten
from tellmost.rows.pool import Normalization, Pool
from tellmost.selecting.replay import Nearest, Recalled, find_nearest
from tellmost.selecting.selection import Selection
from tellmost.shapes import Float, Int

ITEM_LENGTH = 200  # characters of an item that a table can bear
UNIT = Normalization(to_unit_length=True)


@dataclass(frozen=True)
class Items:
    """Something to show for each row or target, such as its text; None: its number alone."""

    given: Any

    def show(self, index: int, length: int) -> str:
        """Up to so many characters of one; by position, also from a pandas Series."""
        if self.given is None:
            return ""
        item = getattr(self.given, "iloc", self.given)[index]
        text = "" if item is None else str(item)
        return text if len(text) <= length else text[:length] + " …"


def check_items(items: Any, n: int, argument: str = "items", of: str = "pool row") -> Items:
    """One entry per row or target, or none at all."""
    if items is not None and len(items) != n:
        raise ValueError(
            f"{argument} must have one entry per {of}, {n}; got {len(items)}. An entry may be "
            f"None."
        )
    return Items(items)


def find_closeness(pool: Pool, targets: Tensor) -> Float[np.ndarray, " m"]:
    """The cosine similarity of each target to the pool row nearest to it, in one pass."""
    directions = UNIT.apply(targets)
    best = torch.full((len(targets),), -1.0, dtype=torch.float64, device=pool.device)
    most = max(numerics.CHUNK_BYTES // (8 * len(targets)), numerics.LEAST_BLOCK_ROWS)
    for _, _, block in pool.blocks(most):
        best = torch.maximum(best, (UNIT.apply(block) @ directions.T).amax(dim=0))
    return best.cpu().numpy()


SHOWN_PICKS = RETRACED
SERVED = 3  # targets named for each pick
STATIC_PICKS = 25  # rows that can be read without script


@dataclass(frozen=True)
class Picks:
    """The first picks, in their order."""

    indices: Int[np.ndarray, " k"]
    items: list[str] | None
    gains: Float[np.ndarray, " k"]
    served: list[list[int]] | None  # the targets whose variance each pick lowers most
    nearest: Nearest | None
    name_of_cosine: str
    unit: str
    total: int


def describe_picks(recalled: Recalled, items: Items, *, with_served: bool) -> Picks:
    """``with_served``: whether the picks can be retraced."""
    chosen = recalled.chosen
    indices = chosen.indices[:SHOWN_PICKS]
    texts = [items.show(index, ITEM_LENGTH) for index in indices.tolist()]
    return Picks(
        indices=indices,
        items=None if items.given is None else texts,
        gains=chosen.gains[: len(indices)],
        served=find_served(recalled, indices) if with_served else None,
        nearest=find_nearest(recalled.pool, recalled.targets, indices),
        name_of_cosine=name_cosine(chosen),
        unit=chosen.settings["unit"],
        total=len(chosen),
    )


def find_served(recalled: Recalled, indices: Int[np.ndarray, " k"]) -> list[list[int]]:
    """For each pick the targets whose variance it lowers most, the most first."""
    best = torch.empty(len(indices), 0, dtype=torch.float64)
    where = torch.empty(len(indices), 0, dtype=torch.int64)
    for start, stop, falls in retrace_in_parts(recalled, indices):
        numbers = torch.arange(start, stop).expand(len(indices), -1)
        best = torch.cat([best, torch.from_numpy(falls)], dim=1)
        where = torch.cat([where, numbers], dim=1)
        best, order = best.topk(min(SERVED, best.shape[1]), dim=1)
        where = where.gather(1, order)
    return [
        [target for target, fall in zip(*pair, strict=True) if fall > 0]
        for pair in zip(where.tolist(), best.tolist(), strict=True)
    ]


def name_cosine(chosen: Selection) -> str:
    """With another kernel the cosine is a property of the rows, not of what the rule saw."""
    is_plain = chosen.settings["kernel"] == repr(Linear())
    return "cosine similarity" if is_plain else "cosine of the rows"


def list_columns(picks: Picks, shown: int) -> list[Column]:
    """The table without script: the first rows."""
    columns = [
        Column("rank", map(str, range(1, shown + 1)), kind="number name"),
        Column("row", map(str, picks.indices[:shown])),
    ]
    if picks.items is not None:
        columns.append(Column("item", picks.items[:shown], kind="text"))
    columns.append(Column("gain", map(number, picks.gains[:shown])))
    if picks.served is not None:
        served = (", ".join(map(str, targets)) for targets in picks.served[:shown])
        columns.append(Column("serves most", served))
    if picks.nearest is not None:
        columns.append(Column("nearest target", map(str, picks.nearest.targets[:shown])))
        cosines = (f"{cosine:.3f}" for cosine in picks.nearest.cosines[:shown])
        columns.append(Column(picks.name_of_cosine, cosines))
    return columns


def pack_picks(picks: Picks) -> dict[str, Any]:
    """Columns of values, in the order of the static table."""
    ranks = list(range(1, len(picks.indices) + 1))
    columns: list[dict[str, Any]] = [
        {"name": "rank", "kind": "whole", "cells": ranks},
        {"name": "row", "kind": "whole", "cells": picks.indices.tolist()},
    ]
    if picks.items is not None:
        columns.append({"name": "item", "kind": "text", "cells": picks.items})
    columns.append({"name": "gain", "kind": "number", "cells": shorten(picks.gains)})
    if picks.served is not None:
        columns.append({"name": "serves most", "kind": "list", "cells": picks.served})
    if picks.nearest is not None:
        nearest = picks.nearest
        name = picks.name_of_cosine
        columns += [
            {"name": "nearest target", "kind": "whole", "cells": nearest.targets.tolist()},
            {"name": name, "kind": "cosine", "cells": shorten(nearest.cosines)},
        ]
    return {"columns": columns}


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


MAP_ROWS = 4_000  # points that a phone can draw
MAP_TARGETS = 1_000
MAP_PICKS = 2_000
HOVER_LENGTH = 120  # characters of an item in a label


@dataclass(frozen=True)
class Dots:
    """Places of some rows, their numbers, and what to show for them."""

    numbers: Int[np.ndarray, " b"]
    places: Float[np.ndarray, "b 2"]
    texts: list[str] | None
    total: int


@dataclass(frozen=True)
class Map:
    """Who is where; ``explained`` is the share of the pool's variance along each axis."""

    pool: Dots
    targets: Dots | None
    picks: Dots
    explained: tuple[float, float]


def draw_map(recalled: Recalled, health: Health, items: Items, target_items: Items) -> Map:
    """Some of the pool at random, the first targets, the first picks."""
    pool, chosen, targets = recalled.pool, recalled.chosen, recalled.targets
    n = len(pool)
    some = draw_rows(np.random.default_rng(0), n, MAP_ROWS).numpy()
    picks = chosen.indices[:MAP_PICKS]

    def dots(indices: Int[np.ndarray, " b"], total: int) -> Dots:
        texts = [items.show(index, HOVER_LENGTH) for index in indices.tolist()]
        places = health.project(pool.rows(torch.from_numpy(indices)))
        return Dots(indices, places, None if items.given is None else texts, total)

    aims = None
    if targets is not None:
        places = health.project(targets[:MAP_TARGETS])
        shown = [target_items.show(number, HOVER_LENGTH) for number in range(len(places))]
        texts = None if target_items.given is None else shown
        aims = Dots(np.arange(len(places)), places, texts, len(targets))
    return Map(dots(some, n), aims, dots(picks, len(chosen)), health.explained)


def pack_map(map: Map) -> dict[str, Any]:
    return {
        "pool": _pack(map.pool),
        "targets": None if map.targets is None else _pack(map.targets),
        "picks": _pack(map.picks),
        "explained": list(map.explained),
    }


def _pack(dots: Dots) -> dict[str, Any]:
    x, y = dots.places.T
    numbers = dots.numbers.tolist()
    return {"x": shorten(x), "y": shorten(y), "numbers": numbers, "texts": dots.texts}
