"""The result of a selection: a value."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tellmost.kernels import Kernel
from tellmost.numerics import UNINFORMATIVE
from tellmost.rules import Rule
from tellmost.running.extras import make_frame
from tellmost.running.notebooks import html_table
from tellmost.selecting.saved import read_fields, write_fields
from tellmost.shapes import Float, Int, Shaped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 10
"""A notebook shows so many picks."""

OF_PICKS = ("ids", "nearest_target", "nearest_target_name", "similarity")
"""These fields have an entry per pick, where they are known."""

TAKEN_AS_ALL = "targets are all"
"""The kind of the note that targets are no examples. It says what was done and needs no cure."""

NORMALIZED = {
    "unit": "scaled to unit length",
    "center": "centred",
    "center+unit": "centred and scaled to unit length",
}
"""What was done with rows, in words."""


def describe_meaning(settings: Mapping[str, Any]) -> list[str]:
    """Say in words what was done with rows and targets, where they were not taken as given."""
    how = NORMALIZED.get(settings["normalize"])
    said = [] if how is None else [f"rows {how}"]
    if (found := settings["examples"]) is not None:
        said.append(
            f"targets as examples: {found['rows']:,} rows stand for {settings['targets']:,} "
            f"targets (gain {found['gain']:.2g})"
        )
    elif TAKEN_AS_ALL in settings["note_kinds"]:
        said.append("targets as all there is")
    return said


def _rows_of(table: Any, indices: Int[np.ndarray, " k"]) -> Any:
    """Some rows of a frame or Dataset. None if it is neither."""
    from tellmost.rows.frames import as_frame

    frame = as_frame(table)
    return None if frame is None else frame.take(indices)


def _joined(table: Any, columns: Mapping[str, np.ndarray]) -> Any:
    """The rows of a frame or Dataset with further columns."""
    from tellmost.rows.frames import as_frame

    frame = as_frame(table)
    assert frame is not None
    return frame.joined(columns)


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """Picks in order, what each was worth, and how uncertain the targets are before and after.

    ``idx, gains = chosen`` unpacks it. A prefix such as ``chosen[:10]`` is the selection for a
    smaller k.
    """

    indices: Int[np.ndarray, " k"]
    gains: Float[np.ndarray, " k"]
    uncertainty: Float[np.ndarray, " k+1"]
    target_variance: Float[np.ndarray, "2 m"]
    floor: Float[np.ndarray, " m"] | None
    whole_pool: Float[np.ndarray, " m"] | None
    stop_reason: str
    settings: dict[str, Any]
    fingerprint: str
    observed_indices: Int[np.ndarray, " o"] = field(
        default_factory=lambda: np.empty(0, dtype=np.int64)
    )
    observed_points: Float[np.ndarray, "p d"] | None = None
    candidate_indices: Int[np.ndarray, " c"] | None = None  # None: every row might be picked
    noise_variance: Float[np.ndarray, " n"] | None = None  # of each pool row, where it differs
    ids: Shaped[np.ndarray, " k"] | None = None  # of the picks, where a column of ids was named
    nearest_target: Int[np.ndarray, " k"] | None = None  # the target most alike to each pick
    nearest_target_name: Shaped[np.ndarray, " k"] | None = None  # its id or text, if it has one
    similarity: Float[np.ndarray, " k"] | None = None  # and how much, a correlation of the prior
    records: Any = None  # the picked rows of a frame or Dataset, in its own kind; no file has them
    kernel: Kernel | None = None  # None: loaded from a file, and of a kind that no file can hold
    rule: Rule | None = None  # likewise

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.indices, self.gains))

    def __getitem__(self, prefix: slice) -> "Selection":
        """The first picks, as ``select`` makes them for a smaller k.

        The variance of each single target after them was not kept: it is NaN in
        ``target_variance[1]``, and ``uncertainty`` tells the mean. What the settings say about
        passes, reads and notes is about all ``settings["prefix_of"]`` picks.
        """
        if not isinstance(prefix, slice):
            raise TypeError(
                f"a Selection gives its first picks, such as chosen[:10]; got chosen[{prefix!r}]. "
                f"One pick is chosen.indices[{prefix!r}]."
            )
        start, stop, step = prefix.indices(len(self))
        if start != 0 or step != 1:
            raise ValueError(
                "only the first picks of a Selection are a Selection, such as chosen[:10], since "
                "a gain counts what the picks before it left. chosen.indices takes any slice."
            )
        if stop == len(self):
            return self
        variance = self.target_variance.copy()
        variance[1] = np.nan if stop else variance[0]
        known = {name: getattr(self, name) for name in OF_PICKS}
        shorter: Any = {name: some[:stop] for name, some in known.items() if some is not None}
        return replace(
            self,
            indices=self.indices[:stop],
            gains=self.gains[:stop],
            **shorter,
            records=_rows_of(self.records, np.arange(stop)),
            uncertainty=self.uncertainty[: stop + 1],
            target_variance=variance,
            stop_reason="k reached",
            settings={"prefix_of": len(self)} | self.settings,
        )

    def __repr__(self) -> str:
        before, after = self.uncertainty[[0, -1]]
        text = (
            f"Selection: {len(self)} of {self.settings['candidates']:,} by {self.settings['rule']}"
            f", uncertainty {before:.4g} -> {after:.4g}"
        )
        if before > 0:
            text += f" ({100 * (after / before - 1):+.1f}%)"
        text = f"{text}{self._floor_text()}; {self.stop_reason}"
        return "; ".join([text, *describe_meaning(self.settings)])

    def _repr_html_(self) -> str:
        """A table of the first picks, for notebooks."""
        columns = self.columns()
        shown = zip(*(values[:SHOWN].tolist() for values in columns.values()), strict=True)
        rows = [[f"{c:.4g}" if isinstance(c, float) else str(c) for c in row] for row in shown]
        rows += [["…"] * len(columns)] * (len(self) > SHOWN)
        return html_table([*columns], rows, [repr(self)])

    def _floor_text(self) -> str:
        if self.floor is None:
            return ""
        floor = float(np.average(self.floor, weights=self.settings["target_weights"]))
        if floor <= UNINFORMATIVE * self.uncertainty[0]:
            return ", floor 0 (uninformative: the candidates span the targets)"
        bound = "" if self.settings["floor_is_exact"] else "at most "
        return f", floor {bound}{floor:.4g}"

    def with_records(self, pool: Any) -> "Selection":
        """The same with the picked rows of its pool, if this is a frame or a Dataset."""
        records = _rows_of(pool, self.indices)
        return self if records is None else replace(self, records=records)

    def columns(self) -> dict[str, np.ndarray]:
        """What is known of each pick, by name. Targets are named if they have ids or texts."""
        names = self.nearest_target_name
        known = {
            "rank": np.arange(1, len(self) + 1),
            "index": self.indices,
            "id": self.ids,
            "gain": self.gains,
            "uncertainty": self.uncertainty[1:],
            "nearest_target": self.nearest_target if names is None else names,
            "similarity": self.similarity,
        }
        return {name: values for name, values in known.items() if values is not None}

    def to_frame(self) -> Any:
        """A row per pick: rank, index, gain, the uncertainty that remains, the nearest target.

        That target is named by its id, or by its text if texts were embedded, else by its number.
        Picks from a frame or a Dataset have its columns too, in a frame of the same kind. Picks
        from elsewhere are a frame of pandas, with their ids if there are any.
        """
        if self.records is not None:
            columns = self.columns()
            columns.pop("id", None)  # it is one of the columns that are there
            return _joined(self.records, columns)
        return make_frame(self.columns())

    def take(self, rows: Any) -> Any:
        """The picked ones of some rows that stand in the pool's order, in the order picked.

        What comes back is of the same kind: an array, a tensor, a list, a sparse matrix, or a
        frame or Dataset, which gets columns ``rank`` and ``gain``, and ``nearest_target`` if
        targets have names.
        """
        from tellmost.rows.frames import as_frame

        frame = as_frame(rows)  # it refuses what has no rows to take
        count = rows.shape[0] if hasattr(rows, "shape") else len(rows)
        if count != self.settings["rows"]:
            raise ValueError(
                f"rows must be as many as the pool has, {self.settings['rows']:,}, in its order; "
                f"got {count:,}. Row numbers would mean other rows."
            )
        if isinstance(rows, list | tuple):
            return [rows[index] for index in self.indices.tolist()]
        if hasattr(rows, "tocsr"):  # not every sparse format can be indexed
            return rows.tocsr()[self.indices].asformat(rows.format)
        if frame is None:
            return rows[self.indices]
        some = frame.take(self.indices)
        new = {"rank": self.columns()["rank"], "gain": self.gains}
        if self.nearest_target_name is not None:
            new["nearest_target"] = self.nearest_target_name
        return _joined(some, new)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the selection to one file, whole or not at all; no pickle inside."""
        write_fields(vars(self), Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Selection":
        """Read what ``save`` wrote. A file whose parts do not agree is refused with the reason."""
        return cls(**read_fields(Path(path)))

    def plot(self) -> "Figure":
        """Draw the uncertainty after each pick, the floor, and the gains. Needs matplotlib."""
        from tellmost.report.figure import plot_selection

        return plot_selection(self)

    def report(
        self,
        path: str | os.PathLike[str],
        pool: Any,
        targets: Any,
        items: Any = None,
        target_items: Any = None,
        *,
        images: Any = None,
        target_images: Any = None,
        title: str | None = None,
        purpose: str | None = None,
        column: str | list[str] | None = None,
        id_column: str | None = None,
        text: str | None = None,
        embed: str | None = None,
    ) -> None:
        """Write a self-contained HTML page about the selection. Needs plotly.

        ``pool``, ``targets``, ``column``, ``id_column``, ``text`` and ``embed`` are those of the
        selection; texts are not embedded again. ``items``: something to show for each pool row,
        such as its text. None: its id and the text that was embedded, or its number. ``images``:
        the path of an image for each row, or None; small copies stand in the page (needs Pillow).
        ``target_items`` and ``target_images``: the same for each target. ``title`` and
        ``purpose``, a line and a sentence, say what the selection is for. Selects a few times
        more, for comparison: by other methods, and at other noise.
        """
        from tellmost.report.page import write_page
        from tellmost.report.page_items import PageItems, items_of
        from tellmost.report.summary import About
        from tellmost.rows.record_files import are_paths, name_both

        given = [some for some in (pool, targets) if isinstance(some, str | Path)]
        files = [Path(some).name for some in given if are_paths(some)]
        about = About(title, purpose, files, date.today())
        pool, targets = name_both(pool, targets, "targets", column, id_column, text, embed)
        items = items_of(pool, "pool") if items is None else items
        target_items = items_of(targets, "targets") if target_items is None else target_items
        shown = PageItems(items, images), PageItems(target_items, target_images)
        write_page(self, Path(path), pool, targets, *shown, about)
