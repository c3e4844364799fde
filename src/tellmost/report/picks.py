"""The panel of picks: what each one is, what it was worth, and for which targets."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tellmost.kernels import Linear
from tellmost.report.curves import RETRACED, retrace_in_parts
from tellmost.report.markup import (
    ITEM_LENGTH,
    Column,
    number,
    shorten,
    texts_of,
    write_paragraph,
    write_section,
    write_small,
    write_table,
)
from tellmost.selecting.replay import Recalled
from tellmost.selecting.selection import Selection
from tellmost.shapes import Int

SHOWN_PICKS = RETRACED
SERVED = 3  # so many targets are named for each pick
STATIC_PICKS = 25  # so many rows can be read without script

SHOW: dict[str, Callable[[Any], str]] = {
    "whole": str,
    "number": number,
    "text": str,
    "list": lambda targets: ", ".join(map(str, targets)),
    "cosine": lambda cosine: f"{cosine:.3f}",
}
"""The cells of each kind of column are written so. The page's script has the same table."""


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
        return Column(self.name, texts, "text" if self.kind == "text" else "number")

    def pack(self) -> dict[str, Any]:
        is_rounded = self.kind in ("number", "cosine")
        cells = shorten(self.cells) if is_rounded else self.cells
        return {"name": self.name, "kind": self.kind, "cells": cells}


def describe_picks(
    recalled: Recalled, items: Any, target_items: Any = None, *, with_served: bool
) -> list[PickColumn]:
    """The table of the first picks. ``with_served`` says whether they can be retraced."""
    chosen = recalled.chosen
    indices = chosen.indices[:SHOWN_PICKS]
    k, texts = len(indices), texts_of(items, indices, ITEM_LENGTH)
    columns = [PickColumn("rank", "whole", list(range(1, k + 1)))]
    columns.append(PickColumn("row", "whole", recalled.name_rows(indices).tolist()))
    if texts is not None:
        columns.append(PickColumn("item", "text", texts))
    columns.append(PickColumn("gain", "number", chosen.gains[:k]))
    if with_served:
        columns.append(PickColumn("serves most", "list", find_served(recalled, indices)))
    if chosen.nearest_target is not None and chosen.similarity is not None:
        is_plain = chosen.settings["kernel"] == repr(Linear())
        name = "cosine similarity" if is_plain else "correlation"
        nearest = chosen.nearest_target[:k]
        texts = texts_of(target_items, nearest, ITEM_LENGTH)
        cells = recalled.name_targets(nearest).tolist() if texts is None else texts
        kind = "whole" if texts is None else "text"
        columns.append(PickColumn("nearest target", kind, cells))
        columns.append(PickColumn(name, "cosine", chosen.similarity[:k]))
    return columns


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
    names = recalled.name_targets(where.numpy()).tolist()
    return [
        [target for target, fall in zip(*pair, strict=True) if fall > 0]
        for pair in zip(names, best.tolist(), strict=True)
    ]


def write_picks(chosen: Selection, columns: list[PickColumn]) -> str:
    shown, total = len(columns[0].cells), len(chosen)
    if shown == 0:
        return write_section("picks", "Picks", write_paragraph("Nothing was picked."))
    has_served = any(column.kind == "list" for column in columns)
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
    return write_section("picks", "Picks", intro + search + table + pager)
