"""The map: pool, targets and picks on the two principal directions of the pool."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tellmost.evaluation.health import Health, draw_rows
from tellmost.report.markup import (
    percent,
    shorten,
    texts_of,
    write_chart,
    write_paragraph,
    write_section,
    write_small,
)
from tellmost.selecting.replay import Recalled
from tellmost.shapes import Float, Int

MAP_ROWS = 4_000  # a phone can draw so many points
MAP_TARGETS = 1_000
MAP_PICKS = 2_000
HOVER_LENGTH = 120  # a label shows so many characters of an item


@dataclass(frozen=True)
class Dots:
    """The places and the numbers of some rows, and what to show for them."""

    numbers: Int[np.ndarray, " b"]
    places: Float[np.ndarray, "b 2"]
    texts: list[str] | None
    total: int

    def pack(self) -> dict[str, Any]:
        x, y = map(shorten, self.places.T)
        return {"x": x, "y": y, "numbers": self.numbers.tolist(), "texts": self.texts}

    def cut(self, name: str, which: str) -> str:
        """A sentence that says how many are shown, unless all are."""
        shown = len(self.numbers)
        return f"Shown: {which}{shown:,} of {self.total:,} {name}." if shown < self.total else ""


@dataclass(frozen=True)
class Map:
    """The dots, and the share of the pool's variance that each axis explains."""

    pool: Dots
    targets: Dots | None
    picks: Dots
    explained: tuple[float, float]

    def pack(self) -> dict[str, Any]:
        return {
            "pool": self.pool.pack(),
            "targets": None if self.targets is None else self.targets.pack(),
            "picks": self.picks.pack(),
            "explained": list(self.explained),
        }


def draw_map(recalled: Recalled, health: Health, items: Any, target_items: Any) -> Map:
    """Take some of the pool at random, the first targets and the first picks."""
    pool, targets = recalled.pool, recalled.targets
    some = draw_rows(np.random.default_rng(0), len(pool), MAP_ROWS).numpy()
    picks, total = recalled.chosen.indices[:MAP_PICKS], len(recalled.chosen)

    def dots(numbers: Int[np.ndarray, " b"], total: int) -> Dots:
        places = health.project(pool.rows(torch.from_numpy(numbers)))
        texts = texts_of(items, numbers, HOVER_LENGTH)
        return Dots(recalled.name_rows(numbers), places, texts, total)

    aims = None
    if targets is not None:
        first = np.arange(min(len(targets), MAP_TARGETS))
        places = health.project(targets[: len(first)])
        texts = texts_of(target_items, first, HOVER_LENGTH)
        aims = Dots(recalled.name_targets(first), places, texts, len(targets))
    return Map(dots(some, len(pool)), aims, dots(picks, total), health.explained)


def write_map(map: Map | None) -> str:
    title = "Map of pool, targets and picks"
    if map is None:
        text = "Row numbers of a precomputed kernel: there are no rows to draw a map of."
        return write_section("map", title, write_paragraph(text))
    first, second = map.explained
    about = (
        f"{len(map.pool.numbers):,} pool rows, "
        f"{0 if map.targets is None else len(map.targets.numbers):,} targets and "
        f"{len(map.picks.numbers):,} picks on the pool's two principal directions"
    )
    legend = '<div class="legend" id="map-legend" role="group" aria-label="points"></div>'
    explain = write_small(
        f"Principal components of the pool: across {percent(first)}, up {percent(second)} of its "
        f"variance about the mean. What is near here need not be near in all dimensions.",
        map.pool.cut("pool rows, drawn at random", ""),
        "" if map.targets is None else map.targets.cut("targets", "the first "),
        map.picks.cut("picks", "the first "),
        "Point at a dot to see its item.",
    )
    chart = write_chart("map-chart", about)
    body = f'<div class="beside">{chart}<div>{legend}{explain}</div></div>'
    return write_section("map", title, body)
