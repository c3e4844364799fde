"""What a notebook shows of a result."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], paragraphs: Sequence[str]
) -> str:
    """A small table for a notebook, with paragraphs below it. Everything is escaped."""
    cells = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    said = "".join(f"<p>{escape(text)}</p>" for text in paragraphs)
    return f"<table><thead><tr>{names}</tr></thead><tbody>{cells}</tbody></table>{said}"
