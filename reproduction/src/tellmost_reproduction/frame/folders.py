"""A folder of results: it is made first, and its files are written whole."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellmost.running.writing import written_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@contextmanager
def made(folder: Path) -> Iterator[Path]:
    """Make a folder to write into. After an error or Ctrl-C take it away if it is empty.

    It is made at once, so that a place that cannot be written to ends a run before its work.
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
    """Write a figure as PNG and as SVG, with the same bytes for the same curves."""
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
