"""A page about one selection: one HTML file that needs neither network nor script."""

from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from sightline.kernels import Linear
from sightline.neighbors import Nearest, find_nearest
from sightline.recalling import recall
from sightline.report.charts import draw_targets, draw_uncertainty
from sightline.report.levels import find_levels, is_uninformative, name_uncertainty, weigh
from sightline.report.rows import check_items, take_item
from sightline.report.tables import Column, describe_settings, number, write_table
from sightline.selection import Selection
from sightline.shapes import Float

SHOWN_PICKS = 1_000
SHOWN_TARGETS = 200
SHOWN_LEAST_HELPED = 10
ITEM_LENGTH = 200  # characters of an item that a table can bear
LINE_LENGTH = 24  # longer items get a column wide enough to read them in, also on a phone


def write_page(chosen: Selection, path: Path, pool: Any, targets: Any, items: Any = None) -> None:
    """Write the page, whole or not at all. ``pool`` and ``targets`` are those of the selection."""
    recalled = recall(chosen, pool, targets)
    check_items(items, len(recalled.pool))
    nearest = find_nearest(recalled.pool, recalled.targets, chosen.indices[:SHOWN_PICKS])
    text = render(chosen, nearest, items)
    unfinished = path.with_name(path.name + ".part")
    try:
        unfinished.write_text(text, encoding="utf-8", errors="replace")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def render(chosen: Selection, nearest: Nearest | None, items: Any) -> str:
    title = f"{len(chosen):,} picks by {chosen.settings['rule']}"
    style = files("sightline.report").joinpath("page.css").read_text(encoding="utf-8")
    body = (
        f"<h1>{escape(title)}</h1>{_summary(chosen)}{_cards(chosen)}{_notes(chosen)}"
        f"{_uncertainty(chosen)}{_targets(chosen)}{_least_helped(chosen)}"
        f"{_section('Settings', describe_settings(chosen))}{_picks(chosen, nearest, items)}"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Sightline: {escape(title)}</title>"
        f"<style>\n{style}</style></head>\n<body><main>{body}"
        '<footer class="small">Written by Sightline. Rows and targets are numbered from 0.'
        "</footer></main></body></html>\n"
    )


def _summary(chosen: Selection) -> str:
    settings, (before, after) = chosen.settings, chosen.uncertainty[[0, -1]]
    m = settings["targets"]
    about = f"{m:,} target{'s' if m != 1 else ''}" if m else "all candidates"
    mean = "weighted mean" if settings["target_weights"] is not None else "mean"
    share = f", {_share(before, after)}" if before > 0 else ""
    return (
        f'<p class="summary">Of {settings["candidates"]:,} candidates, '
        f"<strong>{len(chosen):,}</strong> were picked by {escape(settings['rule'])}; the {mean} "
        f"variance of {about} went from <strong>{before:.4g}</strong> to "
        f"<strong>{after:.4g}</strong>{share}.</p>"
    )


def _share(before: float, after: float) -> str:
    return f"{100 * (1 - after / before):.1f}% less"


def _cards(chosen: Selection) -> str:
    before, after = chosen.uncertainty[[0, -1]]
    cards = [
        ("picks", f"{len(chosen):,}", chosen.stop_reason),
        ("uncertainty before", f"{before:.4g}", name_uncertainty(chosen)),
        ("uncertainty after", f"{after:.4g}", _share(before, after) if before > 0 else ""),
    ]
    meaning = {
        "whole pool": "every candidate observed once, with noise",
        "floor": "every candidate known exactly",
    }
    for level in find_levels(chosen):
        remark = f"{level.remark}; {meaning[level.name]}" if level.remark else meaning[level.name]
        cards.append((level.name, level.shown, remark))
    inner = "".join(
        f"<div><dt>{escape(name)}</dt>"
        f"<dd>{escape(value)} <small>{escape(remark)}</small></dd></div>"
        for name, value, remark in cards
    )
    return f'<dl class="cards">{inner}</dl>'


def _notes(chosen: Selection) -> str:
    notes = "".join(f"<li>{escape(note)}</li>" for note in chosen.settings["notes"])
    return notes and _section("Please note", f"<ul>{notes}</ul>", kind="notes")


def _uncertainty(chosen: Selection) -> str:
    levels, name = find_levels(chosen), name_uncertainty(chosen)
    entries = [('<path class="line" d="M0 6h26"/>', name)]
    entries += [
        (
            f'<path class="level {level.name.replace(" ", "-")}" d="M0 6h26"/>',
            f"{level.name}: {level.text}",
        )
        for level in levels
    ]
    chart = draw_uncertainty(chosen.uncertainty, levels, name)
    return _section("Uncertainty after each pick", chart + _legend(entries))


def _targets(chosen: Selection) -> str:
    m = chosen.target_variance.shape[1]
    if m == 0:
        return ""
    after = chosen.target_variance[1]
    shown = np.argsort(-after, kind="stable")[:SHOWN_TARGETS]
    floor = _telling_floor(chosen)
    entries = [
        ('<rect class="before" width="26" height="12"/>', "before"),
        ('<rect class="after" width="26" height="12"/>', "after"),
    ]
    if floor is not None:
        entries.append(('<path class="floor" d="M0 6h26"/>', "floor"))
    chart = draw_targets(
        chosen.target_variance[:, shown], shown, None if floor is None else floor[shown]
    )
    cut = _small(f"The {len(shown)} most uncertain of {m:,} targets.") if len(shown) < m else ""
    return _section("Variance of each target", cut + chart + _legend(entries))


def _telling_floor(chosen: Selection) -> Float[np.ndarray, " m"] | None:
    """The floor of each target, unless it is zero up to rounding."""
    if chosen.floor is None or is_uninformative(chosen, weigh(chosen, chosen.floor)):
        return None
    return chosen.floor


def _least_helped(chosen: Selection) -> str:
    """The targets that lost the smallest share of their variance."""
    before, after = chosen.target_variance
    open_targets = np.flatnonzero(before > 0)
    if len(open_targets) < 2:
        return ""
    removed = 1.0 - after[open_targets] / before[open_targets]
    order = np.argsort(removed, kind="stable")[:SHOWN_LEAST_HELPED]
    least = open_targets[order]
    columns = [
        Column("target", map(str, least), kind="number name"),
        Column("before", map(number, before[least])),
        Column("after", map(number, after[least])),
        Column("removed", (f"{100 * share:.1f}%" for share in removed[order])),
    ]
    bound = "" if chosen.settings["floor_is_exact"] else ", at most"
    if chosen.whole_pool is not None:
        columns.append(Column(f"whole pool{bound}", map(number, chosen.whole_pool[least])))
    floor = _telling_floor(chosen)
    if floor is not None:
        columns.append(Column(f"floor{bound}", map(number, floor[least])))
    intro = "These lost the smallest share of their variance."
    if chosen.whole_pool is not None:
        intro += " Whole pool: what is left if every candidate is observed once, with noise."
    return _section(
        "Targets helped least", _small(intro) + write_table(columns, "targets helped least")
    )


def _picks(chosen: Selection, nearest: Nearest | None, items: Any) -> str:
    indices = chosen.indices[:SHOWN_PICKS]
    shown = len(indices)
    if shown == 0:
        return _section("Picks", "<p>Nothing was picked.</p>")
    columns = [
        Column("rank", map(str, range(1, shown + 1)), kind="number name"),
        Column("row", map(str, indices)),
    ]
    if items is not None:
        columns.append(_items(items, indices.tolist()))
    columns.append(Column("gain", map(number, chosen.gains[:shown])))
    columns.append(Column("remaining uncertainty", map(number, chosen.uncertainty[1 : shown + 1])))
    if nearest is not None:
        columns.append(Column("nearest target", map(str, nearest.targets)))
        columns.append(Column(_name_cosine(chosen), (f"{c:.3f}" for c in nearest.cosines)))
    cut = f"The first {shown:,} of {len(chosen):,} picks. " if shown < len(chosen) else ""
    intro = _small(f"{cut}Unit of the gains: {escape(chosen.settings['unit'])}.")
    return _section("Picks", intro + write_table(columns, "picks"))


def _name_cosine(chosen: Selection) -> str:
    """With another kernel the cosine is a property of the rows, not of what the rule saw."""
    is_plain = chosen.settings["kernel"] == repr(Linear())
    return "cosine similarity" if is_plain else "cosine of the rows"


def _items(items: Any, indices: list[int]) -> Column:
    cells = []
    for index in indices:
        item = take_item(items, index)
        text = "" if item is None else str(item)
        cells.append(text if len(text) <= ITEM_LENGTH else text[:ITEM_LENGTH] + " …")
    is_long = max(map(len, cells)) > LINE_LENGTH
    return Column("item", cells, kind="long text" if is_long else "text")


def _legend(entries: list[tuple[str, str]]) -> str:
    inner = "".join(
        f'<li><svg viewBox="0 0 26 12" aria-hidden="true">{mark}</svg>{escape(text)}</li>'
        for mark, text in entries
    )
    return f'<ul class="legend">{inner}</ul>'


def _section(title: str, body: str, kind: str = "") -> str:
    return f'\n<section class="{kind}"><h2>{escape(title)}</h2>{body}</section>'


def _small(text: str) -> str:
    return f'<p class="small">{text}</p>'
