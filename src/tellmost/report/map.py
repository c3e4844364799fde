"""A map of pool, targets and picks: the rows on their two principal directions."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.evaluation.health import Health
from tellmost.report.payload import shorten
from tellmost.report.rows import Items
from tellmost.selecting.replay import Recalled
from tellmost.shapes import Float, Int

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
    some = np.sort(np.random.default_rng(0).choice(n, min(n, MAP_ROWS), replace=False))
    picks = chosen.indices[:MAP_PICKS]

    def dots(indices: Int[np.ndarray, " b"], total: int) -> Dots:
        texts = [items.show(index, HOVER_LENGTH) for index in indices.tolist()]
        places = _project(pool.rows(torch.from_numpy(indices)), health)
        return Dots(indices, places, None if items.given is None else texts, total)

    aims = None
    if targets is not None:
        places = _project(targets[:MAP_TARGETS], health)
        shown = [target_items.show(number, HOVER_LENGTH) for number in range(len(places))]
        texts = None if target_items.given is None else shown
        aims = Dots(np.arange(len(places)), places, texts, len(targets))
    return Map(dots(some, n), aims, dots(picks, len(chosen)), health.explained)


def _project(rows: Float[Tensor, "b d"], health: Health) -> Float[np.ndarray, "b 2"]:
    """Rows as the selection saw them, so normalised already."""
    return (rows.cpu().numpy() - health.mean) @ health.principal_directions.T


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
