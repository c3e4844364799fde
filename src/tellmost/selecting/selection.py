"""The result of a selection: a value."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tellmost.kernels import Kernel
from tellmost.numerics import UNINFORMATIVE
from tellmost.rules import Rule
from tellmost.selecting.saved import read_fields, write_fields
from tellmost.shapes import Float, Int, Shaped

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

SHOWN = 10
"""A notebook shows so many picks."""


NORMALIZED = {
    "unit": "rows scaled to unit length",
    "center": "rows centred",
    "center+unit": "rows centred and scaled to unit length",
}


def describe_meaning(settings: Mapping[str, Any]) -> list[str]:
    """Say in words what was done with rows and targets, where they were not taken as given."""
    said = [NORMALIZED[settings["normalize"]]] if settings["normalize"] in NORMALIZED else []
    if (found := settings["examples"]) is not None:
        said.append(
            f"targets as examples: {found['rows']:,} rows stand for {settings['targets']:,} "
            f"targets (gain {found['gain']:.2g})"
        )
    return said


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
        return replace(
            self,
            indices=self.indices[:stop],
            gains=self.gains[:stop],
            ids=None if self.ids is None else self.ids[:stop],
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
        columns = {
            "rank": range(1, len(self) + 1),
            "index": self.indices.tolist(),
            "gain": [f"{gain:.4g}" for gain in self.gains],
            "uncertainty": [f"{left:.4g}" for left in self.uncertainty[1:]],
        }
        shown = list(zip(*columns.values(), strict=True))[:SHOWN]
        rows = [columns, *shown, *([("…",) * len(columns)] if len(self) > SHOWN else [])]
        cells = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows)
        table = "".join(f"<tr>{row}</tr>" for row in cells)
        return f"<p>{escape(repr(self))}</p><table>{table}</table>"

    def _floor_text(self) -> str:
        if self.floor is None:
            return ""
        weights = np.asarray(self.settings["target_weights"] or 1 / len(self.floor))
        floor = float((weights * self.floor).sum())
        if floor <= UNINFORMATIVE * self.uncertainty[0]:
            return ", floor 0 (uninformative: the candidates span the targets)"
        bound = "" if self.settings["floor_is_exact"] else "at most "
        return f", floor {bound}{floor:.4g}"

    def to_frame(self) -> "pandas.DataFrame":
        """A row per pick: rank, index, id if there is one, gain, the uncertainty that remains.

        Needs pandas.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame() needs pandas; pip install 'tellmost[frame]'.") from error
        return pandas.DataFrame(
            {
                "rank": np.arange(1, len(self) + 1),
                "index": self.indices,
                **({} if self.ids is None else {"id": self.ids}),
                "gain": self.gains,
                "uncertainty": self.uncertainty[1:],
            }
        )

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
    ) -> None:
        """Write a self-contained HTML page about the selection. Needs plotly.

        ``pool`` and ``targets`` are those of the selection. ``items``: something to show for each
        pool row, such as its text; None: its number. ``target_items``: the same for each target.
        Selects a few times more, for comparison: by other methods, and at other noise.
        """
        from tellmost.report.page import write_page

        write_page(self, Path(path), pool, targets, items, target_items)
