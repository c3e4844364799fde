"""A page about one selection: a single HTML file that needs no network and no server."""

import warnings
from contextlib import closing
from dataclasses import replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from tellmost.evaluation.health import Health
from tellmost.evaluation.suitability import check
from tellmost.report.curves import RETRACED, follow_curves, write_curves
from tellmost.report.levels import telling_levels, with_levels
from tellmost.report.markup import (
    percent,
    write_facts,
    write_list,
    write_payload,
    write_section,
    write_small,
)
from tellmost.report.page_items import PageItems, note_unreadable
from tellmost.report.panels import (
    describe_picks,
    describe_targets,
    draw_map,
    write_groups,
    write_map,
    write_picks,
    write_targets,
)
from tellmost.report.summary import About, title_of, write_settings, write_summary
from tellmost.running.extras import import_extra
from tellmost.running.workers import team
from tellmost.running.writing import check_writable, written_whole
from tellmost.selecting.replay import Recalled, recall
from tellmost.selecting.selection import Selection

BLIND_TO_NOISE = frozenset({"random", "cosine", "top-k", "mmr", "k-center", "k-means++"})
"""These rules look at similarities or distances alone, so other noise would change no pick."""

NOISE_FACTORS = {0.1: "a tenth of the noise", 10.0: "ten times the noise"}

# the browser makes sure that nothing is loaded, whatever an item says
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:"
)

# this runs before anything is drawn, so that the words for readers without script never show
SCRIPTED = "document.documentElement.classList.add('scripted')"


@team()
def write_page(
    chosen: Selection,
    path: Path,
    pool: Any,
    targets: Any,
    of_pool: PageItems,
    of_targets: PageItems,
    about: About,
) -> None:
    """Write the page, whole or not at all. ``pool`` and ``targets`` are those of the selection."""
    plotly = import_plotly()  # before any long work, since it may be missing
    if path.suffix not in (".html", ".htm"):
        raise ValueError(f"path must end in .html, since a page is written; got {path.name!r}.")
    check_writable(path, "path")
    recalled = recall(chosen, pool, targets)
    recalled = replace(recalled, pool_rows=of_pool.numbers, target_rows=of_targets.numbers)
    with closing(recalled.pool.source):
        of_pool.check(len(recalled.pool), ("items", "images"), "pool row")
        names = ("target_items", "target_images")
        of_targets.check(chosen.settings["targets"], names, "target")
        text = compose(recalled, of_pool, of_targets, about, plotly.get_plotlyjs())
    with written_whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", errors="replace")
    if note := note_unreadable(of_pool, of_targets):
        warnings.warn(note, UserWarning, stacklevel=4)


def import_plotly() -> Any:
    return import_extra("plotly.offline", "report", "a page needs plotly")


def compose(
    recalled: Recalled, of_pool: PageItems, of_targets: PageItems, about: About, library: str
) -> str:
    """Compute what each panel shows, with a few passes over the pool, and write it as a page."""
    recalled = replace(recalled, chosen=with_levels(recalled))
    chosen, has_rows = recalled.chosen, len(recalled.pool.shape) == 2
    curves = follow_curves(recalled)
    normalize = chosen.settings["normalize"]
    health = None
    if has_rows:
        options = {"kernel": chosen.kernel, "normalize": normalize, "progress": False}
        health = check(recalled.given_pool, **options).health
    shown = of_pool, of_targets
    picks = describe_picks(recalled, *shown, with_served=curves.obstacle is None)
    map = None if health is None else draw_map(recalled, health, *shown)
    targets = describe_targets(recalled, of_targets)
    groups = write_groups(recalled, *shown)
    groups += write_small(note_unreadable(*shown))
    body = (
        write_summary(chosen, about)
        + write_curves(chosen, curves)
        + write_picks(chosen, picks, groups)
        + write_map(map)
        + write_targets(chosen, targets)
        + write_health(health, recalled)
        + write_settings(chosen)
    )
    payload = {
        "rule": chosen.settings["rule"],
        "curves": curves.pack(),
        "levels": [level.pack() for level in telling_levels(chosen)],
        "picks": {"columns": [column.pack() for column in picks]},
        "map": map,
        "targets": None if targets is None else targets[0].pack(),
    }
    body += (
        '<footer class="small">Written by Tellmost. Rows and targets are numbered from 0, '
        "picks from 1.</footer>"
    )
    script = files("tellmost.report").joinpath("page.js").read_text("utf-8")
    return write_document(about.title or title_of(chosen), body, payload, library, script)


def write_document(
    title: str, body: str, payload: dict[str, Any], library: str, script: str
) -> str:
    """The whole page. ``script`` draws with ``library`` what ``payload`` has."""
    style = files("tellmost.report").joinpath("page.css").read_text("utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Tellmost: {escape(title)}</title>"
        f"<style>\n{style}</style>"
        f"<script>{SCRIPTED}</script></head>\n<body><main>{body}</main>\n"
        f'<script type="application/json" id="payload">{write_payload(payload)}</script>\n'
        f"<script>{library}</script>\n<script>\n{script}</script></body></html>\n"
    )


def measure_overlap(recalled: Recalled) -> tuple[dict[float, float], str | None]:
    """The share of the picks that stays with other noise, or the reason why it is not known.

    Limits of cost or groups are not kept, so then all selections are made without them.
    """
    chosen, obstacle = recalled.chosen, _obstacle(recalled)
    if obstacle is not None:
        return {}, obstacle
    rule, k = chosen.rule, min(len(chosen), RETRACED)
    assert rule is not None  # else there is an obstacle
    own, shares = chosen.indices[:k], {}
    if chosen.settings["limits"]:
        own = recalled.select(rule, k).indices
    for factor in NOISE_FACTORS:
        others = recalled.select(rule, k, noise_factor=factor).indices
        shares[factor] = len(np.intersect1d(own, others)) / len(np.unique(own))
    return shares, None


def _obstacle(recalled: Recalled) -> str | None:
    rule = recalled.chosen.settings["rule"]
    if len(recalled.chosen) == 0:
        return "nothing was picked"
    if rule in BLIND_TO_NOISE:
        return f"the picks of {rule} do not depend on the noise"
    if recalled.chosen.rule is None:
        return f"the rule {rule} is not one of Tellmost's, and only its name is kept"
    return recalled.obstacle


def write_health(health: Health | None, recalled: Recalled) -> str:
    shares, obstacle = measure_overlap(recalled)
    facts = [("pool", "Row numbers of a precomputed kernel: there are no rows to examine.")]
    facts, remarks = (facts, []) if health is None else ([*health.facts()], health.remarks)
    if obstacle is not None:
        facts.append(("other noise", f"Not compared: {obstacle}."))
        explained = ""
    else:
        explained = (
            f"Overlap of the first {min(len(recalled.chosen), RETRACED):,} picks: the closer to "
            f"100%, the less depends on the choice of the noise."
        )
        if recalled.chosen.settings["limits"]:
            explained += " All three selections are made without the limits."
    for factor, share in shares.items():
        facts.append((f"at {NOISE_FACTORS[factor]}", f"{percent(share)} of the picks stay"))
    inner = write_list(remark[0].upper() + remark[1:] for remark in remarks)
    notes = f'<div class="notes">{inner}</div>' if remarks else ""
    body = write_facts(facts) + write_small(explained) + notes
    return write_section("health", "Health of the pool", body)
