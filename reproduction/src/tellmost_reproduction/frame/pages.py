"""Pages in Markdown: their tables, and the words that the pages of all experiments share."""

import os
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

Cells = list[list[str]]
"""A heading, then the rows."""

SMALL = "**Smoke size: this says that the code runs, and nothing about the paper.**"
UNCOMPARED = "Nothing is compared with the expected numbers at this size."
NEEDS = 'Needs `pip install "tellmost[cli,plot]"`.'


def in_markdown(cells: Cells) -> str:
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * len(cells[0]), *lines[1:]])


def in_columns(cells: Cells) -> str:
    """A table for a terminal. The first column is set to the left, the others to the right."""
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return "\n".join(
        "  ".join(
            f"{cell:>{width}}" if i else f"{cell:<{width}}"
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def in_paragraphs(parts: Sequence[str]) -> str:
    return "\n\n".join(parts) + "\n"


def head(name: str, title: str, *, is_smoke: bool) -> list[str]:
    """Every page begins with its title, and warns if its numbers are not of the paper's size."""
    return [f"# {name}: {title}", *([SMALL] if is_smoke else [])]


def command_for(name: str, *, is_smoke: bool, rules: Sequence[str] = ()) -> str:
    """What was typed, with the user's rules."""
    own = "".join(f" --rule {rule}" for rule in rules)
    return f"`tellmost reproduce {name}{' --smoke' * is_smoke}{own}`"


def fill(text: str, tables: Mapping[str, str]) -> str:
    """Replace the text between two marks by the table of that name."""
    for name, table in tables.items():
        start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        marked = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
        if not marked.search(text):
            raise ValueError(f"the document has no marks {start} and {end} to write between.")
        filled = f"{start}\n{table}\n{end}"
        text = marked.sub(lambda found, filled=filled: filled, text)  # type: ignore[misc]
    return text


def cpu_model() -> str:
    """The model's name, which ``platform`` does not know on Linux."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def describe_machine(threads: int | None = None) -> str:
    """Describe the machine. ``threads`` are those of each process; None takes those of torch."""
    threads = torch.get_num_threads() if threads is None else threads
    return (
        f"{threads} thread{'s' * (threads != 1)} of {os.cpu_count()} cores, {cpu_model()}, other "
        f"work on the machine not excluded"
    )
