"""Figures of a safe optimization, drawn of a snapshot."""

from typing import TYPE_CHECKING

from tellmost.report.safe_bands import draw_bands
from tellmost.report.safe_history import draw_history
from tellmost.report.safe_maps import draw_map
from tellmost.safebo.snapshots import Snapshot

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_snapshot(snapshot: Snapshot) -> "Figure":
    """Bands, maps or history, by the snapshot's kind. Needs matplotlib.

    Draws on a figure of its own, so it neither needs nor changes pyplot's current figure.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plot() needs matplotlib; pip install 'tellmost[plot]'.") from error
    figure = Figure(layout="constrained")
    draw = {"bands": draw_bands, "map": draw_map, "history": draw_history}[snapshot.kind]
    draw(figure, snapshot)
    return figure
