"""The panels of the page, as far as they are words: what is drawn is left to the script."""

from dataclasses import replace
from html import escape

import numpy as np

from tellmost.evaluation.health import Health
from tellmost.numerics import STOP_SHARE
from tellmost.report.curves import RANDOM_DRAWS, Curves, Stop, find_levels, name_uncertainty
from tellmost.report.markup import (
    Column,
    number,
    percent,
    write_chart,
    write_facts,
    write_list,
    write_paragraph,
    write_section,
    write_small,
    write_table,
)
from tellmost.report.picks import STATIC_PICKS, Dots, Map, Picks, TargetBars, list_columns
from tellmost.report.summary import (
    Overlap,
    Summary,
    describe_health,
    describe_overlap,
    describe_settings,
    explain_overlap,
)
from tellmost.selecting.selection import Selection

PANELS = {
    "summary": "Summary",
    "curve": "Curve",
    "picks": "Picks",
    "map": "Map",
    "targets": "Targets",
    "health": "Health",
}


def write_summary(summary: Summary) -> str:
    links = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title in PANELS.items())
    cards = "".join(
        f"<div><dt>{escape(card.name)}</dt>"
        f"<dd>{escape(card.value)} <small>{escape(card.remark)}</small></dd></div>"
        for card in summary.cards
    )
    lead, *rest = summary.sentences
    body = write_paragraph(lead, "lead") + "".join(map(write_paragraph, rest))
    notes = ""
    if summary.notes:
        notes = f'<div class="notes"><h3>Please note</h3>{write_list(summary.notes)}</div>'
    return (
        f'<header><h1>{escape(summary.title)}</h1><nav aria-label="panels"><ul>{links}</ul></nav>'
        '<p class="notes unscripted">Charts, search and sorting need JavaScript. The summary, the '
        f"first {STATIC_PICKS} picks and the tables can be read without.</p></header>"
        + write_section("summary", "Summary", f'{body}<dl class="cards">{cards}</dl>{notes}')
    )


def write_curves(chosen: Selection, curves: Curves, stop: Stop | None) -> str:
    name, k = name_uncertainty(chosen), len(chosen)
    before, after = curves.own[[0, -1]]
    about = f"{name}: {number(before)} before the first pick, {number(after)} after pick {k:,}"
    about += "" if stop is None else f"; a stop is suggested at pick {stop.picks:,}"
    finals = (
        f"{other} {number(course.mean[-1])} after {len(course.mean) - 1:,}"
        for other, course in curves.others.items()
    )
    charts = write_chart("curve-mean", "; ".join([about, *finals]), name.capitalize())
    if curves.worst is not None:
        first, last = curves.worst[[0, -1]]
        about = f"worst target variance: {number(first)} before the first pick, {number(last)} "
        about += f"after pick {curves.retraced:,}"
        charts += write_chart("curve-worst", about, "Variance of the worst target")
    legend = '<div class="legend" id="curve-legend" role="group" aria-label="lines"></div>'
    body = f'{legend}<div class="pair">{charts}</div>{_explain_curves(chosen, curves)}'
    return write_section("curve", "Uncertainty after each pick", body)


def _explain_curves(chosen: Selection, curves: Curves) -> str:
    used = chosen.settings
    if used["rule"] == "vtl":
        circular = "VTL chooses so as to lower this mean by construction"
    else:
        circular = "This is the model's own uncertainty"
    proof = (
        f"{circular}, so a low line is no proof that the picks are useful. Labels are: "
        "“tellmost compare” with labels measures accuracy."
    )
    return write_paragraph(proof) + write_small(
        f"Suggested stop, by marginal gain per pick: the first pick after which the others lower "
        f"the mean, on average, by less than {100 * STOP_SHARE:.0f}% of what the average pick of "
        f"this selection does.",
        _explain_rivals(chosen, curves),
        _explain_levels(chosen),
    )


def _explain_rivals(chosen: Selection, curves: Curves) -> str:
    if curves.obstacle is not None:
        return f"Other methods, and the worst target, are not shown: {curves.obstacle}."
    text = f"Random: mean of {RANDOM_DRAWS} draws, and the band from the lowest to the highest."
    if chosen.settings["limits"]:
        limits = " and ".join(chosen.settings["limits"])
        text += (
            f" The other methods choose without {limits}; they are compared at an equal number "
            f"of picks, whatever these cost."
        )
    if curves.retraced < len(chosen):
        text += f" Other methods and the worst target: the first {curves.retraced:,} picks."
    return text


def _explain_levels(chosen: Selection) -> str:
    levels = find_levels(chosen)
    if not levels and chosen.settings["targets"]:
        return (
            "What the whole pool would leave is not known: with this kernel it takes long; "
            "select(..., floor=True) computes it."
        )
    if any(level.remark == "uninformative" for level in levels):
        return (
            "The floor (every candidate known exactly) is 0 and uninformative: the candidates "
            "span the targets."
        )
    return ""


def write_picks(picks: Picks) -> str:
    shown = len(picks.indices)
    if shown == 0:
        return write_section("picks", "Picks", write_paragraph("Nothing was picked."))
    cut = f"The first {shown:,} of {picks.total:,} picks." if shown < picks.total else ""
    served = (
        "Serves most: the targets whose variance the pick lowers most, the most first."
        if picks.served is not None
        else ""
    )
    intro = write_small(cut, f"Unit of the gains: {picks.unit}.", served)
    table = write_table(list_columns(picks, min(shown, STATIC_PICKS)), "picks", "picks-table")
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
        _cut(map.pool, "pool rows, drawn at random", ""),
        "" if map.targets is None else _cut(map.targets, "targets", "the first "),
        _cut(map.picks, "picks", "the first "),
        "Point at a dot to see its item.",
    )
    chart = write_chart("map-chart", about)
    body = f'<div class="beside">{chart}<div>{legend}{explain}</div></div>'
    return write_section("map", title, body)


def _cut(dots: Dots, name: str, which: str) -> str:
    shown = len(dots.numbers)
    return f"Shown: {which}{shown:,} of {dots.total:,} {name}." if shown < dots.total else ""


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
    body += _write_least_helped(chosen, least) + _list_targets(bars)
    return write_section("targets", "Targets", body)


def _name_targets(bars: TargetBars) -> list[Column]:
    named = [Column("target", map(str, bars.numbers), kind="number name")]
    return named if bars.items is None else [*named, Column("item", bars.items, kind="text")]


def _list_targets(bars: TargetBars) -> str:
    """Who the numbers are, where there is more to say than the number."""
    if bars.items is None:
        return ""
    shown = np.argsort(bars.numbers)
    some = replace(bars, numbers=bars.numbers[shown], items=[bars.items[place] for place in shown])
    columns = [
        *_name_targets(some),
        Column("before", map(number, bars.before[shown])),
        Column("after", map(number, bars.after[shown])),
    ]
    table = write_table(columns, "targets")
    return f"<details><summary>All targets shown, by number</summary>{table}</details>"


def _write_least_helped(chosen: Selection, least: TargetBars) -> str:
    """As a hint: no more can be said without labels."""
    if len(least.numbers) < 2:
        return ""
    columns = [
        *_name_targets(least),
        Column("before", map(number, least.before)),
        Column("after", map(number, least.after)),
    ]
    bound = "" if chosen.settings["floor_is_exact"] else ", at most"
    left, means, heading = least.after, "the picks", "share left"
    if least.whole_pool is not None:
        left, means, heading = least.whole_pool, "observing every candidate once", "share left"
        columns.append(Column(f"whole pool{bound}", map(number, left)))
    columns.append(Column(heading, map(percent, left / least.before)))
    if least.closeness is not None:
        columns.append(Column("nearest pool row", (f"{c:.3f}" for c in least.closeness)))
    hint = (
        f"A hint: the pool helps these targets least. Of all targets they keep the largest share "
        f"of their variance after {means}, up to {percent(left[0] / least.before[0])}. If they "
        f"matter, look for data that is more like them."
    )
    title = "<h3>Targets that the pool helps least</h3>"
    return title + write_paragraph(hint) + write_table(columns, "targets helped least")


def write_health(health: Health | None, overlap: Overlap) -> str:
    facts = [*describe_health(health), *describe_overlap(overlap)]
    remarks = (
        [] if health is None else [remark[0].upper() + remark[1:] for remark in health.remarks]
    )
    notes = f'<div class="notes">{write_list(remarks)}</div>' if remarks else ""
    body = write_facts(facts) + write_small(explain_overlap(overlap)) + notes
    return write_section("health", "Health of the pool", body)


def write_settings(chosen: Selection) -> str:
    table = write_facts(describe_settings(chosen))
    return (
        f'\n<section id="settings"><details><summary>Settings</summary>{table}</details></section>'
    )
