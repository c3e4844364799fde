"""The map: pool, targets and picks on the two principal directions of the pool."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

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
from tellmost.shapes import Int

MAP_ROWS = 4_000  # a phone can draw so many points
MAP_TARGETS = 1_000
MAP_PICKS = 2_000
HOVER_LENGTH = 120  # a label shows so many characters of an item


def draw_map(recalled: Recalled, health: Health, items: Any, target_items: Any) -> dict[str, Any]:
    """The map for the script: some of the pool at random, the first targets, the first picks."""
    pool, targets, chosen = recalled.pool, recalled.targets, recalled.chosen.indices

    def dots(rows: Tensor, names: np.ndarray, texts: list[str] | None, total: int) -> Any:
        x, y = map(shorten, health.project(rows).T)
        return {"x": x, "y": y, "numbers": names.tolist(), "texts": texts, "total": total}

    def some_rows(numbers: Int[np.ndarray, " b"], total: int) -> Any:
        texts, rows = texts_of(items, numbers, HOVER_LENGTH), pool.rows(torch.from_numpy(numbers))
        return dots(rows, recalled.name_rows(numbers), texts, total)

    aims = None
    if targets is not None:
        first = np.arange(min(len(targets), MAP_TARGETS))
        texts = texts_of(target_items, first, HOVER_LENGTH)
        aims = dots(targets[: len(first)], recalled.name_targets(first), texts, len(targets))
    standing = recalled.rows_for_targets()
    shown = draw_rows(np.random.default_rng(0), len(standing), MAP_ROWS).numpy()
    drawn = draw_rows(np.random.default_rng(0), len(pool), MAP_ROWS).numpy()
    return {
        "pool": some_rows(drawn, len(pool)),
        "examples": some_rows(standing[shown], len(standing)) if len(standing) else None,
        "targets": aims,
        "picks": some_rows(chosen[:MAP_PICKS], len(chosen)),
        "explained": list(health.explained),
    }


def cut(dots: dict[str, Any] | None, name: str, which: str) -> str:
    """A sentence that says how many dots are shown, unless all are."""
    shown, total = (0, 0) if dots is None else (len(dots["numbers"]), dots["total"])
    return f"Shown: {which}{shown:,} of {total:,} {name}." if shown < total else ""


def write_map(map: dict[str, Any] | None) -> str:
    title = "Map of pool, targets and picks"
    if map is None:
        text = "Row numbers of a precomputed kernel: there are no rows to draw a map of."
        return write_section("map", title, write_paragraph(text))
    first, second = map["explained"]
    pool, targets, picks = (map[name] for name in ("pool", "targets", "picks"))
    shown = [0 if dots is None else len(dots["numbers"]) for dots in (pool, targets, picks)]
    about = (
        f"{shown[0]:,} pool rows, {shown[1]:,} targets and {shown[2]:,} picks on the pool's two "
        f"principal directions"
    )
    legend = '<div class="legend" id="map-legend" role="group" aria-label="points"></div>'
    explain = write_small(
        f"Principal components of the pool: across {percent(first)}, up {percent(second)} of its "
        f"variance about the mean. What is near here need not be near in all dimensions.",
        cut(pool, "pool rows, drawn at random", ""),
        cut(map["examples"], "rows that stand for the targets, drawn at random", ""),
        cut(targets, "targets", "the first "),
        cut(picks, "picks", "the first "),
        "Point at a dot to see its item.",
    )
    chart = write_chart("map-chart", about)
    body = f'<div class="beside">{chart}<div>{legend}{explain}</div></div>'
    return write_section("map", title, body)
