"""Tables of an experiment: accuracies and shares along the labels, and the table of noise."""

from collections.abc import Sequence

from tellmost.evaluation.statistics import Mean
from tellmost_reproduction.networks.curves import Curves
from tellmost_reproduction.networks.noise_claims import ROWS, cells, row_label
from tellmost_reproduction.networks.problems import CIFAR
from tellmost_reproduction.networks.settings import RHOS
from tellmost_reproduction.tables import Cells

LOOKED_AT = {CIFAR: (50, 100, 250, 500, 1000)}
FEW_LOOKED_AT = (5, 10, 25, 50, 100)
"""Labels after which results are written down: for batches of ten, and of one."""

PAPER = {  # after 100 rounds, mean and standard error over 10 seeds, at each rho
    "G-ITL": ((78.26, 1.40), (79.12, 1.19), (87.16, 0.29), (87.18, 0.28)),
    "L-ITL": ((87.52, 0.48), (87.52, 0.41), (87.53, 0.35), (86.47, 0.22)),
    "G-CTL": ((58.68, 2.11), (81.44, 1.04), (86.52, 0.44), (86.92, 0.56)),
    "L-CTL": ((86.40, 0.71), (86.38, 0.75), (86.00, 0.69), (84.78, 0.39)),
    "G-ITL (top-b)": ((85.84, 0.54), (85.92, 0.52), (85.84, 0.54), (85.55, 0.46)),
    "L-ITL (top-b)": ((85.44, 0.58), (85.46, 0.54), (85.44, 0.59), (85.29, 0.36)),
    "G-CTL (top-b)": ((82.27, 0.67),) * 4,
    "L-CTL (top-b)": ((80.73, 0.68),) * 4,
    "BADGE": ((83.24, 0.60),) * 4,
    "InformationDensity": ((79.24, 0.51),) * 4,
    "Random": ((82.49, 0.66),) * 4,
}
"""The paper's only table, with EfficientNet-B0; loss gradients with small rho failed there."""

UNSTABLE = {("G-ITL", 0), ("G-ITL", 1), ("G-CTL", 0), ("G-CTL", 1)}
"""Cells that the paper calls numerically unstable: a row, and the place of rho in it."""


def counts_for(curves: Curves, dataset: str) -> list[int]:
    """Labels after which results are written down; the end is one of them."""
    ends = [int(curves.labels(one.name)[-1]) for one in shown(curves, dataset)]
    listed = LOOKED_AT.get(dataset, FEW_LOOKED_AT)
    end = max(ends)
    return [count for count in listed if count < end] + [end]


def shown(curves: Curves, dataset: str) -> list:
    return [one for one in curves.experiment.on(dataset) if curves.of_name(one.name)]


def table_of(curves: Curves, dataset: str, measure: str) -> Cells:
    """A row per configuration, a column per number of labels, and the mean over all rounds."""
    counts = counts_for(curves, dataset)
    heading = [f"{measure}, %", "seeds", *(f"{count} labels" for count in counts), "mean"]
    rows = [
        [
            one.label,
            str(len(curves.of_name(one.name))),
            *(in_percent(curves.mean_at(measure, one.name, count)) for count in counts),
            in_percent(curves.area(measure, one.name)),
        ]
        for one in shown(curves, dataset)
    ]
    return [heading, *rows]


def in_percent(mean: Mean) -> str:
    error = "" if mean.error is None else f" ± {100 * mean.error:.1f}"
    return f"{100 * mean.value:.1f}{error}"


def table_of_seconds(curves: Curves, dataset: str) -> Cells:
    """Milliseconds of a round, medians; runs shared the device, so only sizes mean something."""
    activities = ("embedding", "selecting", "training")
    return [
        ["ms of a round", *activities],
        *(
            [one.label, *(f"{1000 * curves.seconds(one.name, a):.1f}" for a in activities)]
            for one in shown(curves, dataset)
        ),
    ]


def table_of_noise(curves: Curves) -> Cells:
    """Accuracy at the end, and in brackets the paper's; unstable ones are in italics."""
    rows = [
        (row_label(key, kind, is_conditional=is_conditional), names)
        for is_conditional in (True, False)
        for key, kind in ROWS
        for names in [cells(key, kind, is_conditional=is_conditional)]
    ]
    for key, label in (
        ("badge", "BADGE"),
        ("information-density", "InformationDensity"),
        ("random", "Random"),
    ):
        rows.append((label, (f"{CIFAR}/{key}",) * len(RHOS)))
    heading = ["ours (the paper's)", *(f"rho {rho:g}" for rho in RHOS)]
    return [heading, *([label, *noise_cells(curves, label, names)] for label, names in rows)]


def noise_cells(curves: Curves, label: str, names: Sequence[str]) -> list[str]:
    made = []
    for place, name in enumerate(names):
        ours = in_percent(curves.last("accuracy", name)) if curves.of_name(name) else "not run"
        mean, error = PAPER[label][place]
        theirs = f"{mean:.1f} ± {error:.1f}"
        made.append(f"{ours} ({f'*{theirs}*' if (label, place) in UNSTABLE else theirs})")
    return made
