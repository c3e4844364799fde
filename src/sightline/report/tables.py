"""Tables as HTML text."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from sightline.selection import Selection


@dataclass(frozen=True)
class Column:
    """A heading and the cells below it. The kind is their class in the style sheet."""

    heading: str
    cells: Iterable[str]
    kind: Literal["number", "number name", "text", "long text"] = "number"

    def cell(self, text: str) -> str:
        names_its_row = self.kind == "number name"
        opening, closing = ('th scope="row"', "th") if names_its_row else ("td", "td")
        return f'<{opening} class="{self.kind}">{escape(text)}</{closing}>'


def write_table(columns: list[Column], about: str) -> str:
    """A table that scrolls sideways where the screen is narrow, also by keyboard."""
    head = "".join(
        f'<th scope="col" class="{column.kind}">{escape(column.heading)}</th>'
        for column in columns
    )
    body = "".join(
        "<tr>" + "".join(c.cell(text) for c, text in zip(columns, row, strict=True)) + "</tr>\n"
        for row in zip(*(column.cells for column in columns), strict=True)
    )
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(about)}">'
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def describe_settings(chosen: Selection) -> str:
    """What was used and why it ended, a line each."""
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(str(value))}</td></tr>\n'
        for name, value in _settings(chosen)
        if value is not None
    )
    return f'<table class="settings"><tbody>{rows}</tbody></table>'


def _settings(chosen: Selection) -> Iterable[tuple[str, Any]]:
    used = chosen.settings
    observed = len(chosen.observed_indices)
    if chosen.observed_points is not None:
        observed += len(chosen.observed_points)
    ranking = "anew after every pick" if used["conditional"] else "once, by the first gain"
    yield "rule", used["rule"]
    yield "ranked", ranking
    yield "kernel", used["kernel"]
    yield "noise variance", _noise(used)
    yield "normalisation", used["normalize"] or "none"
    yield "pool", f"{used['rows']:,} rows of {used['features']:,} features, {used['dtype']}"
    yield "candidates", f"{used['candidates']:,}"
    yield "targets", f"{used['targets']:,}{', weighted' if used['target_weights'] else ''}"
    yield "observed before", f"{observed:,}"
    yield "device", used["device"]
    yield "passes over the pool", f"{used['passes']:,}"
    yield "floor", used["floor"]
    yield "stopped", chosen.stop_reason
    yield "fingerprint of the pool", chosen.fingerprint


def _noise(used: dict[str, Any]) -> str:
    variance, ratio = used["noise_variance"], used["noise_ratio"]
    shown = "per point, mean" if isinstance(variance, str) else number(variance)
    return f"{shown} = {number(ratio)} × the candidates' mean prior variance"


def number(value: float) -> str:
    return f"{value:.4g}"
