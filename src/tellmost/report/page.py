"""A page about one selection: one HTML file that needs neither network nor server."""

from contextlib import closing
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from tellmost.evaluation.health import Health, examine
from tellmost.report.curves import (
    Curves,
    Stop,
    follow_curves,
    pack_curves,
    suggest_stop,
    with_levels,
)
from tellmost.report.markup import shorten, write_payload
from tellmost.report.panels import (
    write_curves,
    write_health,
    write_map,
    write_picks,
    write_settings,
    write_summary,
    write_targets,
)
from tellmost.report.picks import (
    Items,
    Map,
    Picks,
    TargetBars,
    check_items,
    describe_picks,
    describe_targets,
    draw_map,
    pack_map,
    pack_picks,
    pack_targets,
)
from tellmost.report.summary import Overlap, measure_overlap, summarize, telling_levels
from tellmost.running.writing import check_writable, written_whole
from tellmost.selecting.replay import Recalled, recall
from tellmost.selecting.selection import Selection

# the browser itself sees to it that nothing is loaded, whatever an item may say
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:"
)

# told before anything is drawn, so that no word for those without script appears and goes
SCRIPTED = "document.documentElement.classList.add('scripted')"


@dataclass(frozen=True)
class Findings:
    """Everything that the page shows, computed."""

    chosen: Selection
    stop: Stop | None
    curves: Curves
    picks: Picks
    map: Map | None
    targets: tuple[TargetBars, TargetBars] | None  # all that are shown, those helped least
    health: Health | None
    overlap: Overlap


def write_page(
    chosen: Selection,
    path: Path,
    pool: Any,
    targets: Any,
    items: Any = None,
    target_items: Any = None,
) -> None:
    """Write the page, whole or not at all. ``pool`` and ``targets`` are those of the selection."""
    library = read_plotly()  # before any long work, since it may be missing
    check_writable(path, "path")
    recalled = recall(chosen, pool, targets)
    with closing(recalled.pool.source):
        of_rows = check_items(items, len(recalled.pool))
        m = chosen.settings["targets"]
        of_targets = check_items(target_items, m, "target_items", "target")
        findings = find_out(recalled, of_rows, of_targets)
    text = render(findings, library)
    with written_whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", errors="replace")


def read_plotly() -> str:
    """The script that draws the charts; it goes into the page."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError("report() needs plotly; pip install 'tellmost[report]'.") from error
    return get_plotlyjs()


def find_out(recalled: Recalled, items: Items, target_items: Items) -> Findings:
    """A few passes over the pool, and the selections that the picks are compared with."""
    recalled = replace(recalled, chosen=with_levels(recalled))
    chosen, has_rows = recalled.chosen, len(recalled.pool.shape) == 2
    curves = follow_curves(recalled)
    normalize = chosen.settings["normalize"]
    health = examine(recalled.given_pool, normalize=normalize) if has_rows else None
    return Findings(
        chosen=chosen,
        stop=suggest_stop(chosen.uncertainty),
        curves=curves,
        picks=describe_picks(recalled, items, with_served=curves.obstacle is None),
        map=None if health is None else draw_map(recalled, health, items, target_items),
        targets=describe_targets(recalled, target_items),
        health=health,
        overlap=measure_overlap(recalled),
    )


def render(found: Findings, library: str) -> str:
    summary = summarize(found.chosen, found.stop)
    body = (
        write_summary(summary)
        + write_curves(found.chosen, found.curves, found.stop)
        + write_picks(found.picks)
        + write_map(found.map)
        + write_targets(found.chosen, found.targets)
        + write_health(found.health, found.overlap)
        + write_settings(found.chosen)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Tellmost: {escape(summary.title)}</title>"
        f"<style>\n{_read('page.css')}</style>"
        f"<script>{SCRIPTED}</script></head>\n<body><main>{body}"
        '<footer class="small">Written by Tellmost. Rows and targets are numbered from 0, '
        "picks from 1.</footer></main>\n"
        f'<script type="application/json" id="payload">{write_payload(pack(found))}</script>\n'
        f"<script>{library}</script>\n<script>\n{_read('page.js')}</script></body></html>\n"
    )


def pack(found: Findings) -> dict[str, Any]:
    """What the script draws."""
    levels = telling_levels(found.chosen)
    values = shorten(np.array([level.value for level in levels]))
    return {
        "rule": found.chosen.settings["rule"],
        "curves": pack_curves(found.curves),
        "levels": [
            {"name": level.name, "value": value, "text": level.text}
            for level, value in zip(levels, values, strict=True)
        ],
        "stop": None if found.stop is None else found.stop.picks,
        "picks": pack_picks(found.picks),
        "map": None if found.map is None else pack_map(found.map),
        "targets": None if found.targets is None else pack_targets(found.targets[0]),
    }


def _read(name: str) -> str:
    return files("tellmost.report").joinpath(name).read_text(encoding="utf-8")
