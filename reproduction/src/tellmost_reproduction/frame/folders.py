"""A folder of results: its figure, its tables and its page."""

import csv
import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tellmost.running.writing import written_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@contextmanager
def made(folder: Path) -> Iterator[Path]:
    """A folder to write into; after an error, Ctrl-C too, none is left that was made and is empty.

    Made at once, so that a place that cannot be written to ends a run before its work.
    """
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    except BaseException:
        with suppress(OSError):  # the first that is not empty, and so all above it
            for path in new:
                path.rmdir()
        raise


def keep_figure(figure: "Figure", folder: Path, name: str = "figure") -> None:
    """As SVG, the same bytes for the same curves, and as PNG."""
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "tellmost"}), written_whole(folder / f"{name}.svg") as path:
        figure.savefig(path, format="svg", metadata={"Date": None})
    with written_whole(folder / f"{name}.png") as path:
        figure.savefig(path, format="png", dpi=110)


def keep_text(text: str, path: Path) -> None:
    with written_whole(path) as whole:
        whole.write_text(text, encoding="utf-8")


def write_table(path: Path, heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with written_whole(path) as whole, whole.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(heading)
        writer.writerows(rows)


Cells = list[list[str]]
"""A heading, then a row each."""


def in_markdown(cells: Cells) -> str:
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * len(cells[0]), *lines[1:]])


def in_columns(cells: Cells) -> str:
    """For a terminal: the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return "\n".join(
        "  ".join(
            f"{cell:>{width}}" if i else f"{cell:<{width}}"
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def cpu_model() -> str:
    """The model's name, which ``platform`` does not know on Linux."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def describe_machine(threads: int | None = None) -> str:
    """``threads`` of each process that did the work; None: as many as torch has in this one."""
    threads = torch.get_num_threads() if threads is None else threads
    return (
        f"{threads} thread{'s' * (threads != 1)} of {os.cpu_count()} cores, {cpu_model()}, other "
        f"work on the machine not excluded"
    )
