"""Results as files: the picks of every run, and what every seed came to."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.experiments.gp.curves import Curves, Run
from sightline.experiments.gp.measures import MEASURES
from sightline.experiments.gp.numbers import observations
from sightline.experiments.gp.samples import Samples
from sightline.shapes import Int
from sightline.writing import written_whole

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


def keep_picks(curves: Curves, path: Path) -> None:
    """A row per run: numbers of points in S, in the order picked."""
    rows = ([run.method.key, _seed(run), _joined(run.picks)] for run in curves.runs)
    _write_table(path, ["method", "seed", "picks"], rows)


def keep_samples(samples: Samples, path: Path) -> None:
    rows = (
        [setting, key, _joined(picks)]
        for key, by_setting in samples.picks.items()
        for setting, picks in by_setting.items()
    )
    _write_table(path, ["setting", "method", "picks"], rows)


def keep_seeds(curves: Curves, path: Path) -> None:
    """What each method comes to with each seed; only errors differ where the picks do not."""
    rows = (
        [key, seed, count, *(f"{curve[count]:.6g}" for curve in measured)]
        for key in (method.key for method in curves.methods)
        for seed in range(curves.size.seeds)
        for measured in [[_of_seed(curves.seeds(name, key), seed) for name in MEASURES]]
        for count in observations(curves.size.rounds)
    )
    _write_table(path, ["method", "seed", "observations", *MEASURES], rows)


def keep_figure(figure: "Figure", folder: Path) -> None:
    """As SVG, the same bytes for the same curves, and as PNG."""
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "sightline"}), written_whole(folder / "figure.svg") as path:
        figure.savefig(path, format="svg", metadata={"Date": None})
    with written_whole(folder / "figure.png") as path:
        figure.savefig(path, format="png", dpi=110)


def keep_text(text: str, path: Path) -> None:
    with written_whole(path) as whole:
        whole.write_text(text, encoding="utf-8")


def _seed(run: Run) -> str:
    return "all" if run.seed is None else str(run.seed)


def _joined(picks: Int[np.ndarray, " t"]) -> str:
    return " ".join(map(str, picks.tolist()))


def _of_seed(curves: np.ndarray, seed: int) -> np.ndarray:
    return curves[seed if len(curves) > 1 else 0]


def _write_table(path: Path, heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with written_whole(path) as whole, whole.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(heading)
        writer.writerows(rows)
