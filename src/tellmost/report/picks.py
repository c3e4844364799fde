"""The table of picks: what each is, what it was worth, and for whom."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tellmost.kernels import Linear
from tellmost.report.curves import RETRACED, retrace_in_parts
from tellmost.report.markup import Column, number
from tellmost.report.payload import shorten
from tellmost.report.rows import ITEM_LENGTH, Items
from tellmost.selecting.replay import Nearest, Recalled, find_nearest
from tellmost.selecting.selection import Selection
from tellmost.shapes import Float, Int

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
