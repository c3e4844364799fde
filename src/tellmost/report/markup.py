"""Pieces of HTML, and what the page's script draws from. Every text is escaped here."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import numpy as np

from tellmost.shapes import Float

ITEM_LENGTH = 200  # a table shows so many characters of an item
DIGITS = 6  # significant digits; a screen shows fewer
_AS_ESCAPES = {code: f"\\u{code:04x}" for code in (*map(ord, "<>&"), 0x2028, 0x2029)}


@dataclass(frozen=True)
class Column:
    """A heading and the cells below it. Their kind is a class of the style sheet."""

    heading: str
    cells: Iterable[str]
    kind: Literal["number", "number name", "text", "image"] = "number"

    def cell(self, text: str) -> str:
        """A cell that also knows its heading, which a narrow screen shows beside it."""
        names_its_row = self.kind == "number name"
        opening, closing = ('th scope="row"', "th") if names_its_row else ("td", "td")
        inner = write_image(text) if self.kind == "image" else escape(text)
        about = f'class="{self.kind}" data-name="{escape(self.heading)}"'
        return f"<{opening} {about}>{inner}</{closing}>"


def write_table(columns: list[Column], about: str, name: str = "") -> str:
    """A table. On a narrow screen each of its rows becomes a list of names and values."""
    head = "".join(
        f'<th scope="col" class="{column.kind}">{escape(column.heading)}</th>'
        for column in columns
    )
    body = "".join(
        "<tr>" + "".join(c.cell(text) for c, text in zip(columns, row, strict=True)) + "</tr>\n"
        for row in zip(*(column.cells for column in columns), strict=True)
    )
    identity = f' id="{name}"' if name else ""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(about)}">'
        f"<table{identity}><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def write_image(source: str) -> str:
    return f'<img src="{escape(source)}" alt="">' if source else ""


def write_section(name: str, title: str, body: str) -> str:
    return (
        f'\n<section id="{name}" aria-labelledby="{name}-title">'
        f'<h2 id="{name}-title">{escape(title)}</h2>{body}</section>'
    )


def write_chart(name: str, about: str, title: str = "") -> str:
    """A place where the script draws. ``about`` says what it shows, for screen readers."""
    heading = f"<h3>{escape(title)}</h3>" if title else ""
    return (
        f'<div class="panel">{heading}'
        f'<div class="chart" id="{name}" role="img" aria-label="{escape(about)}"></div></div>'
    )


def write_paragraph(text: str, kind: str = "") -> str:
    if not text:
        return ""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def write_small(*sentences: str) -> str:
    """A remark below a figure."""
    return write_paragraph(" ".join(filter(None, sentences)), "small")


def write_list(lines: Iterable[str]) -> str:
    inner = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{inner}</ul>" if inner else ""


def write_facts(facts: Iterable[tuple[str, str]]) -> str:
    """A table of names, with a text for each."""
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(text)}</td></tr>\n'
        for name, text in facts
    )
    return f'<table class="facts"><tbody>{rows}</tbody></table>'


def number(value: float) -> str:
    return f"{value:.4g}"


def percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def write_payload(values: dict[str, Any]) -> str:
    """JSON that no HTML parser takes for markup, whatever the texts in it are."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_AS_ESCAPES)


def shorten(values: Float[np.ndarray, "*n"]) -> list[float]:
    """Numbers with few digits. They take a tenth of the bytes of a full float64."""
    return [round_off(value) for value in values]


def round_off(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
