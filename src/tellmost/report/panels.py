"""The panels of picks, of targets, and of both among the rows of the pool, as a map."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.evaluation.health import Health, draw_rows
from tellmost.evaluation.runs import nearest_similarity
from tellmost.evaluation.statistics import count_of
from tellmost.kernels import Linear
from tellmost.report.curves import RETRACED, retrace_in_parts
from tellmost.report.markup import (
    ITEM_LENGTH,
    Column,
    number,
    percent,
    shorten,
    write_chart,
    write_image,
    write_paragraph,
    write_section,
    write_small,
    write_table,
)
from tellmost.report.page_items import PageItems
from tellmost.selecting.replay import Recalled
from tellmost.selecting.selection import Selection
from tellmost.shapes import Float, Int

SHOWN_PICKS = RETRACED
SERVED = 3  # so many targets are named for each pick
SERVED_LENGTH = 40  # characters of each
SHOWN_GROUPS, OPEN_GROUPS, SHOWN_MEMBERS = 50, 3, 10  # targets with their picks
STATIC_PICKS = 25  # so many rows can be read without script

SHOW: dict[str, Callable[[Any], str]] = {
    "whole": str,
    "number": number,
    "text": str,
    "list": lambda targets: ", ".join(map(str, targets)),
    "cosine": lambda cosine: f"{cosine:.3f}",
    "image": str,
}
"""The cells of each kind of column are written so. The page's script has the same table."""

SHOWN_TARGETS = 200
LEAST_HELPED = 10

MAP_ROWS = 4_000  # a phone can draw so many points
MAP_TARGETS = 1_000
MAP_PICKS = 2_000
HOVER_LENGTH = 120  # a label shows so many characters of an item


@dataclass(frozen=True)
class PickColumn:
    """A heading, the kind of the values below it, and one value per pick."""

    name: str
    kind: str
    cells: Any

    def static(self) -> Column:
        """The first rows, for readers without script."""
        texts = map(SHOW[self.kind], self.cells[:STATIC_PICKS])
        if self.name == "rank":
            return Column(self.name, texts, "number name")
        if self.kind == "image":
            return Column(self.name, texts, "image")
        return Column(self.name, texts, "text" if self.kind == "text" else "number")

    def pack(self) -> dict[str, Any]:
        is_rounded = self.kind in ("number", "cosine")
        cells = shorten(self.cells) if is_rounded else self.cells
        return {"name": self.name, "kind": self.kind, "cells": cells}


def describe_picks(
    recalled: Recalled, of_pool: PageItems, of_targets: PageItems, *, with_served: bool
) -> list[PickColumn]:
    """The table of the first picks. ``with_served`` says whether they can be retraced."""
    chosen = recalled.chosen
    indices = chosen.indices[:SHOWN_PICKS]
    k, texts = len(indices), of_pool.texts_of(indices, ITEM_LENGTH)
    columns = [PickColumn("rank", "whole", list(range(1, k + 1)))]
    columns.append(PickColumn("row", "whole", recalled.name_rows(indices).tolist()))
    if (images := of_pool.thumbnails(indices)) is not None:
        columns.append(PickColumn("image", "image", images))
    if texts is not None:
        columns.append(PickColumn("item", "text", texts))
    columns.append(PickColumn("gain", "number", chosen.gains[:k]))
    if with_served:
        columns.append(_describe_served(recalled, of_targets))
    if chosen.nearest_target is not None and chosen.similarity is not None:
        is_plain = chosen.settings["kernel"] == repr(Linear())
        name = "cosine similarity" if is_plain else "correlation"
        nearest = chosen.nearest_target[:k]
        texts = of_targets.texts_of(nearest, ITEM_LENGTH)
        cells = recalled.name_targets(nearest).tolist() if texts is None else texts
        kind = "whole" if texts is None else "text"
        columns.append(PickColumn("nearest target", kind, cells))
        columns.append(PickColumn(name, "cosine", chosen.similarity[:k]))
    return columns


def _describe_served(recalled: Recalled, of_targets: PageItems) -> PickColumn:
    """The targets that the picks serve most, by their texts where they have some."""
    served = find_served(recalled, recalled.chosen.indices[:SHOWN_PICKS])
    if of_targets.texts is None:
        names = [recalled.name_targets(np.array(some, np.int64)).tolist() for some in served]
        return PickColumn("serves most", "list", names)
    texts = [of_targets.texts_of(np.array(some, np.int64), SERVED_LENGTH) or [] for some in served]
    return PickColumn("serves most", "text", [" · ".join(some) for some in texts])


def find_served(recalled: Recalled, indices: Int[np.ndarray, " k"]) -> list[list[int]]:
    """The targets whose variance each pick lowers most, in descending order."""
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


def write_groups(recalled: Recalled, of_pool: PageItems, of_targets: PageItems) -> str:
    """The picks below the target that each is nearest to, the target of the first pick first."""
    chosen = recalled.chosen
    if chosen.nearest_target is None or len(chosen) == 0:
        return ""
    targets = np.array(list(dict.fromkeys(chosen.nearest_target.tolist())), np.int64)
    listed = targets[:SHOWN_GROUPS]
    texts, images = of_targets.texts_of(listed, ITEM_LENGTH), of_targets.thumbnails(listed)
    numbers = recalled.name_targets(listed)
    groups = ""
    for place, target in enumerate(listed.tolist()):
        places = np.flatnonzero(chosen.nearest_target == target)
        title = escape((texts and texts[place]) or f"target {numbers[place]}")
        image = write_image(images[place]) if images else ""
        count = count_of(len(places), "pick", "picks")
        members = _write_members(recalled, of_pool, places)
        groups += f"<details{' open' * (place < OPEN_GROUPS)}><summary>{image}{title} "
        groups += f"<small>{count}</small></summary>{members}</details>"
    untouched = chosen.settings["targets"] - len(targets)
    more = f"{len(targets) - len(listed):,} more targets have picks." * (
        len(targets) > len(listed)
    )
    none = f"{count_of(untouched, 'target is', 'targets are')} nearest to no pick." * bool(
        untouched
    )
    return f"<h3>Picks by their nearest target</h3>{groups}{write_small(more, none)}"


def _write_members(recalled: Recalled, of_pool: PageItems, places: Int[np.ndarray, " b"]) -> str:
    """The first picks of a group, each with its rank."""
    indices = recalled.chosen.indices[places[:SHOWN_MEMBERS]]
    texts = of_pool.texts_of(indices, ITEM_LENGTH)
    images = of_pool.thumbnails(indices)
    numbers, lines = recalled.name_rows(indices), ""
    for place, rank in enumerate((places[:SHOWN_MEMBERS] + 1).tolist()):
        text = (texts and texts[place]) or f"row {numbers[place]}"
        lines += (
            f'<li value="{rank}">{write_image(images[place]) if images else ""}{escape(text)}</li>'
        )
    more = f"<p class='small'>and {len(places) - SHOWN_MEMBERS:,} more</p>"
    return f"<ol>{lines}</ol>{more * (len(places) > SHOWN_MEMBERS)}"


def write_picks(chosen: Selection, columns: list[PickColumn], groups: str = "") -> str:
    shown, total = len(columns[0].cells), len(chosen)
    if shown == 0:
        return write_section("picks", "Picks", write_paragraph("Nothing was picked."))
    has_served = any(column.name == "serves most" for column in columns)
    served = "Serves most: the targets whose variance the pick lowers most, the most first."
    intro = write_small(
        f"The first {shown:,} of {total:,} picks." if shown < total else "",
        f"Unit of the gains: {chosen.settings['unit']}.",
        served * has_served,
    )
    table = write_table([column.static() for column in columns], "picks", "picks-table")
    search = (
        '<div class="tools" id="picks-tools" hidden><label>Search '
        '<input type="search" id="picks-search" autocomplete="off" spellcheck="false"></label>'
        '<span id="picks-count" role="status"></span></div>'
    )
    pager = (
        '<div class="tools" id="picks-pager" hidden>'
        '<button type="button" id="picks-back">Previous</button>'
        '<span id="picks-place"></span><button type="button" id="picks-on">Next</button></div>'
    )
    return write_section("picks", "Picks", intro + search + table + pager + groups)


# ---- targets


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

    def pack(self) -> dict[str, Any]:
        def values(found: Float[np.ndarray, " s"] | None) -> list[float] | None:
            return None if found is None else shorten(found)

        return {
            "numbers": self.numbers.tolist(),
            "texts": self.items,
            "before": values(self.before),
            "after": values(self.after),
            "whole": values(self.whole_pool),
            "closeness": values(self.closeness),
        }

    def name(self, place: int) -> str:
        """A target in words: its text, if there is one, or its number."""
        text = "" if self.items is None else self.items[place]
        return f"“{text}”" if text else f"target {self.numbers[place]}"

    def columns(self, order: Int[np.ndarray, " s"]) -> list[Column]:
        """The names and the variances before and after, with the targets in this order."""
        columns = [Column("target", map(str, self.numbers[order]), kind="number name")]
        if self.items is not None:
            columns.append(Column("item", [self.items[i] for i in order], kind="text"))
        columns.append(Column("before", map(number, self.before[order])))
        return [*columns, Column("after", map(number, self.after[order]))]


def describe_targets(
    recalled: Recalled, shown_as: PageItems
) -> tuple[TargetBars, TargetBars] | None:
    """The targets that are shown as bars, and those that are helped least."""
    if recalled.targets is None:
        return None
    chosen = recalled.chosen
    after = chosen.target_variance[1]
    shown = np.argsort(-after, kind="stable")[:SHOWN_TARGETS]
    least = find_least_helped(chosen)
    closeness = None
    if len(recalled.pool.shape) == 2:
        both = np.unique(np.concatenate([shown, least]))
        closeness = np.full(len(after), np.nan)
        some = recalled.targets[torch.from_numpy(both).to(recalled.targets.device)]
        closeness[both] = nearest_similarity(recalled.pool, some).cpu().numpy()

    def bars(numbers: Int[np.ndarray, " s"]) -> TargetBars:
        before, after = chosen.target_variance[:, numbers]
        whole = chosen.whole_pool
        near = None if closeness is None else closeness[numbers]
        left = None if whole is None else whole[numbers]
        texts = shown_as.texts_of(numbers, ITEM_LENGTH)
        names, total = recalled.name_targets(numbers), chosen.target_variance.shape[1]
        return TargetBars(names, before, after, left, near, texts, total)

    return bars(shown), bars(least)


def find_least_helped(chosen: Selection) -> Int[np.ndarray, " s"]:
    """The targets that keep most of their variance, after the whole pool or else the picks."""
    before, after = chosen.target_variance
    left = after if chosen.whole_pool is None else chosen.whole_pool
    uncertain = np.flatnonzero(before > 0)
    share = left[uncertain] / before[uncertain]
    return uncertain[np.argsort(-share, kind="stable")[:LEAST_HELPED]]


def write_targets(chosen: Selection, targets: tuple[TargetBars, TargetBars] | None) -> str:
    if targets is None:
        text = "The selection had no targets: its uncertainty is that of the candidates."
        return write_section("targets", "Targets", write_paragraph(text))
    bars, least = targets
    shown = len(bars.numbers)
    about = (
        f"variance of {shown:,} targets before and after the picks; the largest that remains is "
        f"{number(float(bars.after[0]))}, of {bars.name(0)}"
    )
    legend = '<div class="legend" id="targets-legend" role="group" aria-label="bars"></div>'
    cut = f"The {shown:,} most uncertain of {bars.total:,} targets." if shown < bars.total else ""
    body = legend + write_chart("targets-variance", about, "Variance of each target")
    if bars.closeness is not None:
        lowest = float(bars.closeness.min())
        about = f"similarity of the nearest pool row to each target, at least {lowest:.3f}"
        body += write_chart("targets-closeness", about, "Cosine to the nearest pool row")
    body += write_small(cut, "The most uncertain after the picks come first.")
    body += _write_least_helped(chosen, least)
    if bars.items is not None:
        table = write_table(bars.columns(np.argsort(bars.numbers)), "targets")
        body += f"<details><summary>All targets shown, by number</summary>{table}</details>"
    return write_section("targets", "Targets", body)


def _write_least_helped(chosen: Selection, least: TargetBars) -> str:
    """Write a hint, since no more can be said without labels."""
    if len(least.numbers) < 2:
        return ""
    columns = least.columns(np.arange(len(least.numbers)))
    left, means = least.after, "the picks"
    if least.whole_pool is not None:
        left, means = least.whole_pool, "observing every candidate once"
        bound = "" if chosen.settings["floor_is_exact"] else ", at most"
        columns.append(Column(f"whole pool{bound}", map(number, left)))
    columns.append(Column("share left", map(percent, left / least.before)))
    if least.closeness is not None:
        columns.append(Column("nearest pool row", (f"{c:.3f}" for c in least.closeness)))
    hint = (
        f"A hint: the pool helps these targets least. Of all targets they keep the largest share "
        f"of their variance after {means}, up to {percent(left[0] / least.before[0])}. If they "
        f"matter, look for data that is more like them."
    )
    title = "<h3>Targets that the pool helps least</h3>"
    return title + write_paragraph(hint) + write_table(columns, "targets helped least")


# ---- the map


def draw_map(
    recalled: Recalled, health: Health, of_pool: PageItems, of_targets: PageItems
) -> dict[str, Any]:
    """The map for the script: some of the pool at random, the first targets, the first picks."""
    pool, targets, chosen = recalled.pool, recalled.targets, recalled.chosen.indices

    def dots(rows: Tensor, names: np.ndarray, texts: list[str] | None, total: int) -> Any:
        x, y = map(shorten, health.project(rows).T)
        return {"x": x, "y": y, "numbers": names.tolist(), "texts": texts, "total": total}

    def some_rows(numbers: Int[np.ndarray, " b"], total: int) -> Any:
        texts, rows = of_pool.texts_of(numbers, HOVER_LENGTH), pool.rows(torch.from_numpy(numbers))
        return dots(rows, recalled.name_rows(numbers), texts, total)

    aims = None
    if targets is not None:
        first = np.arange(min(len(targets), MAP_TARGETS))
        texts = of_targets.texts_of(first, HOVER_LENGTH)
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
