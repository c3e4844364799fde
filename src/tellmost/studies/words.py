"""Numbers as people write them, in lines of 80 columns."""

import textwrap
from collections.abc import Sequence

COLUMNS = 80


def percent(share: float) -> str:
    """0.1234 is 12.3%; what is not quite nothing or everything does not round to it."""
    text = f"{100 * share:.1f}%"
    if text == "0.0%" and share > 0:
        return "below 0.1%"
    if text == "100.0%" and share < 1:
        return "above 99.9%"
    return text


def number(value: float) -> str:
    """Three digits, or all of a whole number."""
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def count_of(count: int, one: str, several: str) -> str:
    """1 row is, 2 rows are."""
    return f"{count:,} {one if count == 1 else several}"


def listed(words: Sequence[str]) -> str:
    """ "5", "5 and 10", "5, 10 and 20"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def entry(name: str, text: str, width: int) -> str:
    """A name, and what is to be said about it, beside it."""
    return textwrap.fill(
        text,
        COLUMNS,
        initial_indent=f"{name:<{width}}",
        subsequent_indent=" " * width,
        break_on_hyphens=False,
    )


def bullet(text: str) -> str:
    return textwrap.fill(
        text, COLUMNS, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
    )


def paragraph(text: str) -> str:
    return textwrap.fill(text, COLUMNS, break_on_hyphens=False)
