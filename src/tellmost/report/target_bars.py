"""The panel of targets: their variances, and how near the pool comes to each of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.evaluation.health import UNIT
from tellmost.report.markup import (
    ITEM_LENGTH,
    Column,
    number,
    percent,
    shorten,
    texts_of,
    write_chart,
    write_paragraph,
    write_section,
    write_small,
    write_table,
)
from tellmost.rows.pool import Pool
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

    def columns(self, order: Int[np.ndarray, " s"]) -> list[Column]:
        """The names and the variances before and after, with the targets in this order."""
        columns = [Column("target", map(str, self.numbers[order]), kind="number name")]
        if self.items is not None:
            columns.append(Column("item", [self.items[i] for i in order], kind="text"))
        columns.append(Column("before", map(number, self.before[order])))
        return [*columns, Column("after", map(number, self.after[order]))]


def describe_targets(recalled: Recalled, items: Any) -> tuple[TargetBars, TargetBars] | None:
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
        closeness[both] = find_closeness(recalled.pool, some)

    def bars(numbers: Int[np.ndarray, " s"]) -> TargetBars:
        before, after = chosen.target_variance[:, numbers]
        whole = chosen.whole_pool
        near = None if closeness is None else closeness[numbers]
        left = None if whole is None else whole[numbers]
        texts = texts_of(items, numbers, ITEM_LENGTH)
        names, total = recalled.name_targets(numbers), chosen.target_variance.shape[1]
        return TargetBars(names, before, after, left, near, texts, total)

    return bars(shown), bars(least)


def find_closeness(pool: Pool, targets: Tensor) -> Float[np.ndarray, " m"]:
    """The cosine of each target and the pool row nearest to it, in one pass."""
    directions = UNIT.apply(targets)
    best = torch.full((len(targets),), -1.0, dtype=torch.float64, device=pool.device)
    most = max(numerics.CHUNK_BYTES // (8 * len(targets)), numerics.LEAST_BLOCK_ROWS)

    def cosines(start: int, stop: int, block: Tensor) -> Tensor:
        return (UNIT.apply(block) @ directions.T).amax(dim=0)

    pool.each(cosines, lambda found: torch.maximum(best, found, out=best), most)
    return best.cpu().numpy()


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
        f"{number(float(bars.after[0]))}, of target {bars.numbers[0]}"
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
