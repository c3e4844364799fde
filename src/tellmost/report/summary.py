"""The panels of words: the selection in sentences and numbers, and its settings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from html import escape
from typing import Any

from tellmost.evaluation.statistics import count_of
from tellmost.kernels import Linear
from tellmost.report.levels import (
    Level,
    mean_variance,
    name_uncertainty,
    still_to_tell,
    telling_levels,
)
from tellmost.report.markup import (
    number,
    percent,
    write_facts,
    write_list,
    write_paragraph,
    write_section,
    write_small,
)
from tellmost.report.panels import STATIC_PICKS
from tellmost.selecting.selection import NORMALIZED, Selection

PANELS = ("summary", "curve", "picks", "map", "targets", "health")
MEANING = {
    "whole pool": "every candidate observed once, with noise",
    "floor": "every candidate known exactly",
}


def title_of(chosen: Selection) -> str:
    return f"{count_of(len(chosen), 'pick', 'picks')} by {chosen.settings['rule']}"


@dataclass(frozen=True)
class About:
    """The title, what the page is for, which files it is about, and when it was written."""

    title: str | None = None
    purpose: str | None = None
    files: Sequence[str] = ()
    day: date | None = None

    def write(self, chosen: Selection) -> str:
        """The title, the purpose, and a line of what else is known."""
        own = title_of(chosen)
        facts = [own] * (self.title is not None) + [*self.files]
        if self.day is not None:
            facts.append(f"{self.day.day} {self.day:%B %Y}")
        purpose = "" if self.purpose is None else write_paragraph(self.purpose)
        return f"<h1>{escape(self.title or own)}</h1>{purpose}{write_small(' · '.join(facts))}"


def write_summary(chosen: Selection, about: About) -> str:
    """Write sentences and numbers, the most important first."""
    levels, notes = telling_levels(chosen), ""
    lead = f"{_told(chosen)} {_compared(chosen, levels)}".strip()
    cards = "".join(
        f"<div><dt>{escape(name)}</dt>"
        f"<dd>{escape(value)} <small>{escape(remark)}</small></dd></div>"
        for name, value, remark in _cards(chosen, levels)
    )
    if chosen.settings["notes"]:
        listed = write_list(chosen.settings["notes"])
        notes = f'<div class="notes"><h3>Please note</h3>{listed}</div>'
    sentences = write_paragraph(lead, "lead") + write_paragraph(_conditions(chosen))
    body = f'{sentences}<dl class="cards">{cards}</dl>{notes}'
    links = "".join(f'<li><a href="#{name}">{name.capitalize()}</a></li>' for name in PANELS)
    header = (
        f'<header>{about.write(chosen)}<nav aria-label="panels"><ul>{links}</ul>'
        '</nav><p class="notes unscripted">Charts, search and sorting need JavaScript. The '
        f"summary, the first {STATIC_PICKS} picks and the tables can be read without.</p></header>"
    )
    return header + write_section("summary", "Summary", body)


def _told(chosen: Selection) -> str:
    """Say what was picked, and how far the uncertainty fell."""
    used, m = chosen.settings, chosen.settings["targets"]
    before, after = chosen.uncertainty[[0, -1]]
    aim = f" to learn about {count_of(m, 'target', 'targets')}" if m else ""
    share = f", {percent(1 - after / before)} less" if before > 0 else ""
    said = (
        f"Of {used['candidates']:,} candidates {len(chosen):,} were picked by {used['rule']}{aim}."
        f" The {name_uncertainty(chosen)} went from {number(before)} to {number(after)}{share}."
    )
    if used["examples"] is not None:
        before, after = mean_variance(chosen)
        said += f" That of the given targets went from {number(before)} to {number(after)}."
    return said


def _compared(chosen: Selection, levels: list[Level]) -> str:
    """Compare the picks with the whole pool, in words."""
    before, after = mean_variance(chosen)
    found = still_to_tell(chosen, levels)
    if found is None or found[0].value >= before:
        return ""
    whole, left = found
    share = percent((before - after) / (before - whole.value))
    bound, least = ("at most ", "at least ") if whole.remark else ("", "")
    return (
        f"Observing the whole pool would leave {whole.text}: the picks bring {bound}{share} of "
        f"the fall that all candidates together would. What this pool can still tell about the "
        f"targets is {least}another fall of {number(left)}."
    )


def _conditions(chosen: Selection) -> str:
    """Name the noise, the kernel, and the rows that stand for targets, so that one can object."""
    used = chosen.settings
    meaning = " (inner products of the rows)" if used["kernel"] == repr(Linear()) else ""
    said = (
        f"Noise variance {describe_noise(used)}; kernel {used['kernel']}{meaning}. "
        f"Rows were {NORMALIZED.get(used['normalize'], 'used as given, not normalised')}."
    )
    if used["examples"] is not None:
        said += (
            f" Targets were taken as examples: {used['examples']['rows']:,} rows of the pool, "
            f"which the map shows, stand for {used['targets']:,} targets "
            f"(gain {used['examples']['gain']:.2g})."
        )
    return said


def _cards(chosen: Selection, levels: list[Level]) -> Iterator[tuple[str, str, str]]:
    """Names, values, and a remark on each."""
    before, after = chosen.uncertainty[[0, -1]]
    less = f"{percent(1 - after / before)} less" if before > 0 else ""
    yield ("picks", f"{len(chosen):,}", f"of {chosen.settings['candidates']:,} candidates")
    yield ("uncertainty before", number(before), name_uncertainty(chosen))
    yield ("uncertainty after", number(after), less)
    for level in levels:
        bound = f"{level.remark}; " if level.remark else ""
        yield (level.name, level.shown, bound + MEANING[level.name])
    found = still_to_tell(chosen, levels)
    if found is not None:
        bound = "at least, " if found[0].remark else ""
        yield ("this pool can still tell", number(found[1]), f"{bound}about the targets")


def describe_noise(used: dict[str, Any]) -> str:
    variance, ratio = used["noise_variance"], used["noise_ratio"]
    shown = "per point, mean" if isinstance(variance, str) else number(variance)
    if ratio is None:
        return shown
    return f"{shown} = {number(ratio)} × the candidates' mean prior variance"


def write_settings(chosen: Selection) -> str:
    """Write the settings that have a value."""
    used, points = chosen.settings, chosen.observed_points
    observed = len(chosen.observed_indices) + (0 if points is None else len(points))
    settings = {
        "rule": used["rule"],
        "ranked": "anew after every pick" if used["conditional"] else "once, by the first gain",
        "limited by": ", ".join(used["limits"]) or None,
        "kernel": used["kernel"],
        "noise variance": describe_noise(used),
        "normalisation": used["normalize"] or "none",
        "pool": f"{used['rows']:,} rows of {used['features']:,} features, {used['dtype']}",
        "candidates": f"{used['candidates']:,}",
        "targets": f"{used['targets']:,}{', weighted' if used['target_weights'] else ''}",
        "observed before": f"{observed:,}",
        "device": used["device"],
        "passes over the pool": f"{used['passes']:,}",
        "floor": used["floor"],
        "stopped": chosen.stop_reason,
        "fingerprint of the pool": chosen.fingerprint,
    }
    table = write_facts((name, str(v)) for name, v in settings.items() if v is not None)
    return (
        f'\n<section id="settings"><details><summary>Settings</summary>{table}</details></section>'
    )
