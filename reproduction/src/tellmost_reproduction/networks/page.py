"""The folder of an experiment: numbers, tables and page. Every number is from the runs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tellmost.evaluation.statistics import Mean
from tellmost_reproduction.frame.folders import write_table
from tellmost_reproduction.frame.numbers import Numbers, Series
from tellmost_reproduction.frame.pages import Cells, head, in_markdown, in_paragraphs
from tellmost_reproduction.frame.verdicts import Verdict, tabulate_verdicts
from tellmost_reproduction.networks.claims import ROWS, cells, judge, row_label, unjudged
from tellmost_reproduction.networks.configurations import (
    NOISE_STD,
    RATIOS,
    RHOS,
    ROUNDS,
    SEEDS,
    STANDARD,
    Configuration,
)
from tellmost_reproduction.networks.curves import (
    EQUALITIES,
    MEASURES,
    Curves,
    Equality,
    common_starts,
    compare,
    compare_ends,
)
from tellmost_reproduction.networks.judging import RULE, TITLES, in_points, listed
from tellmost_reproduction.networks.problems import CIFAR, CIFAR_HEAD, MNIST, MNIST_FLOAT32
from tellmost_reproduction.networks.runs import Run

LOOKED_AT = {CIFAR: (50, 100, 250, 500, 1000), MNIST: (5, 10, 25, 50, 100)}
"""Labels after which results are written down: for batches of ten, and of one."""

NETWORKS = {
    CIFAR: "CIFAR-100: **EfficientNet-Lite0 stands in for EfficientNet-B0** (ImageNet weights of "
    "B0 are not to be had from a package registry), images at 224 pixels, last block, head and a "
    "new final layer for the ten classes trained, statistics of batch norm frozen and its affine "
    "weights trained; 5 epochs a round from the last round's weights, with Adam's moments carried "
    "over too. Accuracy is on the 1,000 test images of classes 0 to 9, of which 2 are the same, "
    "byte by byte, as images of the training half",
    CIFAR_HEAD: "CIFAR-100: **EfficientNet-Lite0 stands in for EfficientNet-B0** (weights of B0 "
    "are not to be had from a package registry), images at 224 pixels, **the final linear layer "
    "alone trained, as in the authors' published code**, on pooled features that are "
    "computed once; 5 epochs a round from the last round's weights, with Adam's moments carried "
    "over too. Accuracy is on the 1,000 test images of classes 0 to 9, of which 2 are the same, "
    "byte by byte, as images of the training half",
    MNIST: "MNIST: three convolutions (32, 64, 128) and two fully-connected layers, new weights "
    "every round; of 20 epochs the one that is best on 200 validation images, the last of those "
    "that tie (the paper stops when accuracy on validation images falls, which with a step or two "
    "an epoch may be at once). Accuracy is on the test images of 3, 6 and 9",
    MNIST_FLOAT32: "MNIST: three convolutions (32, 64, 128) and two fully-connected layers, new "
    "weights every round; **of 100 epochs the one that is best on 200 validation images, the last "
    "of those that tie, and baselines in float32 by naive formulas, as in the authors' published "
    "code**. Accuracy is on the test images of 3, 6 and 9",
}
"""What is trained, and how, by the name of the training."""
TRAINING = (
    "Adam, 1e-3, batches of 64, losses reweighted by class. Outputs are the task's classes alone. "
    "Picks of other classes cost a label and are not trained on. Embeddings are of the last layer "
    "with identity covariance, ITL is about y, batches are conditional, and a "
    "round's choice is not conditioned on earlier ones, unless said otherwise."
)
POOLS = {
    CIFAR: "half of the training set (25,000 images)",
    MNIST: "the training set, but for the validation images",
}
ABOUT = {
    "nn-scarce": "Of the task's images in the pool 80% are taken away at random, before the "
    "first round; the targets are not.",
    "nn-lopsided": "Half of the images of some classes, drawn at random, cannot be targets: of "
    "classes 0 to 4 on CIFAR-100, of digits 3 and 6 on MNIST. M is the same, the pool keeps its "
    "images of all classes, and accuracy is on all classes of the task alike.",
    "nn-candidates": "Curves with k have so many candidates a round.",
    "nn-per-round": "Curves with m look at so many of the targets a round.",
    "nn-targets": "Curves with M have so many targets, of which a round looks at 10.",
    "nn-rho": "Curves with rho have that noise; G is for loss gradients, L for the last layer, "
    "and (top-b) for the b best in the place of conditional batches.",
}
"""What an experiment changes in the set-up."""

SEEN = "Accuracy and share of picks against labels"
FIGURES = {"nn-rho": "Accuracy at the end against rho, ours and the paper's"}
"""What is seen in a figure that does not show ``SEEN``."""

SURE = (
    "A network that was trained on one image is sure of its class everywhere, and what it doubts "
    "is rounding. These curves are evidence of nothing; see [Getting stuck on "
    "MNIST](../../docs/network-experiments.md#getting-stuck-on-mnist)."
)
NOTES = {
    "nn-inside": "**The line.** *all of A* is bought in 10 rounds of 10 images, each training 5 "
    "epochs on what was bought so far, so that only the last trains on all 100. It was still "
    "moving when it ended, and is weak evidence of what all of A can teach. It is drawn from 100 "
    "labels on, with one standard error.",
    "nn-baselines": "**TypiClust.** *Small clusters in turn* is TypiClust as it was once: "
    "clusters of five images or fewer had a turn before the large ones had a second. "
    "Now they wait until the large ones are empty.",
}
"""What a reader should know about single curves."""

QUESTIONS = (
    (
        "Choosing from the whole pool instead of 1,000 candidates",
        "whole",
        ("itl", "vtl", "cosine"),
    ),
    ("Conditioning on what earlier rounds trained on", "across", ("itl", "vtl")),
    (
        "The default noise of tm.select with kernel='linear', noise ratio 1, instead of rho 1",
        "ratio-1",
        ("itl", "vtl"),
    ),
)
"""What is asked beyond the paper, and the configurations that answer."""

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
"""The paper's only table, with EfficientNet-B0. Loss gradients with small rho failed there."""

UNSTABLE = {("G-ITL", 0), ("G-ITL", 1), ("G-CTL", 0), ("G-CTL", 1)}
"""Cells that the paper calls numerically unstable: a row, and the place of rho in it."""


def write_page(
    curves: Curves, verdicts: Sequence[Verdict], beside: Curves, *, is_smoke: bool = False
) -> str:
    """The page of an experiment. ``beside``: runs by another training, which are told last."""
    name = curves.experiment.name
    flags = " --smoke" if is_smoke else " --data folder --device cuda"
    return in_paragraphs(
        [
            *head(name, curves.experiment.title, is_smoke=is_smoke),
            f"**Command.** `tellmost reproduce {name}{flags}`",
            *about_runs(curves, verdicts),
            *([] if is_smoke else notes_for(curves)),
            *(findings_beyond(curves) if name == "nn-beyond" else []),
            f"![{FIGURES.get(name, SEEN)}](figure.svg)",
            "Bands and bars are one standard error over the seeds.",
            *_tables(curves),
            *(_other_training(beside, is_smoke=is_smoke) if beside.runs else []),
            "`seeds.csv`: accuracy and share after every tenth round, for every seed.",
        ]
    )


def about_runs(curves: Curves, verdicts: Sequence[Verdict]) -> list[str]:
    """The set-up, how many runs there are, and what they say of the claims."""
    missing = unjudged(curves)
    return [
        f"**Set-up.** {describe_set_up(curves)}",
        f"**Runs.** {describe_runs(curves)}",
        *([tabulate_verdicts(verdicts), f"**Verdicts.** {RULE}"] if verdicts else []),
        *([f"**Not judged.** {'; '.join(missing)}."] if missing else []),
    ]


def _other_training(beside: Curves, *, is_smoke: bool) -> list[str]:
    verdicts = judge(beside)
    return [
        "## Trained as the paper's text says",
        f"**Set-up.** {describe_set_up(beside)}",
        f"**Runs.** {describe_runs(beside)}",
        *([tabulate_verdicts(verdicts)] if verdicts else []),
        *([] if is_smoke else notes_for(beside)),
        *_tables(beside, "##"),
    ]


def _tables(curves: Curves, level: str = "#") -> list[str]:
    noise = curves.experiment.name == "nn-rho"
    return [
        *([in_markdown(table_of_noise(curves))] if noise else []),
        *(
            part
            for dataset in datasets(curves)
            for part in (
                f"{level}# {TITLES[dataset]}",
                *(in_markdown(table_of(curves, dataset, measure)) for measure in MEASURES),
                "Milliseconds of a round, medians over rounds and runs; several runs shared the "
                "device, so these are no benchmark.",
                in_markdown(table_of_seconds(curves, dataset)),
            )
        ),
    ]


def describe_set_up(curves: Curves) -> str:
    """What was trained and how, on the datasets that there are runs of."""
    name, parts = curves.experiment.name, []
    for dataset in datasets(curves):
        one = STANDARD[dataset]
        pool = (
            f"Pool: {POOLS[dataset]}, the targets among them, so that they can be chosen."
            if name == "nn-inside"
            else f"Pool: {POOLS[dataset]}, without the targets, which are drawn from it."
        )
        sizes = (
            f"M = {one.targets} targets, m = {one.targets_per_round} of them a round, "
            f"k = {one.candidates:,} candidates a round, b = {one.batch}"
        )
        way = NETWORKS[curves.trained[dataset]]
        parts.append(f"{way}. {pool} rho {NOISE_STD[dataset]:g}, {sizes}.")
    idle = (describe_idle(curves, dataset) for dataset in datasets(curves))
    return " ".join([*parts, *([ABOUT[name]] if name in ABOUT else []), TRAINING, *idle])


def describe_idle(curves: Curves, dataset: str) -> str:
    """How often a round had nothing to train on."""
    shares = ", ".join(
        f"{one.label} {100 * curves.idle(one.name):.0f}%" for one in shown(curves, dataset)
    )
    return (
        f"A round that brings no image of the task trains nothing; such rounds on "
        f"{TITLES[dataset]}: {shares}."
    )


def describe_runs(curves: Curves) -> str:
    """How many seeds and rounds each configuration has, and on what."""
    counts = {
        one.name: len(curves.of_name(one.name))
        for one in curves.experiment.configurations
        if one.dataset in curves.trained and (curves.of_name(one.name) or not one.is_past)
    }
    devices = sorted({run.device for run in curves.runs.values()})
    full = [name for name, count in counts.items() if count >= SEEDS]
    part = {name: count for name, count in counts.items() if 0 < count < SEEDS}
    none = [name for name, count in counts.items() if count == 0]
    rounds = " and ".join(f"{count:g}" for count in lengths(curves.runs.values()))
    said = [f"{rounds} rounds (the paper has {ROUNDS}), on {' and '.join(devices)}"]
    said.append(f"{len(full)} of {len(counts)} configurations with all {SEEDS} seeds")
    if part:
        fewer = ", ".join(f"{name} {count}" for name, count in part.items())
        said.append(f"fewer, so that verdicts about them say little: {fewer}")
    if none:
        said.append(f"not run: {', '.join(none)}")
    return "; ".join(said) + "."


def lengths(runs: Iterable[Run]) -> dict[int, int]:
    """How many runs have so many rounds, the longest first."""
    return dict(sorted(Counter(len(run.accuracy) for run in runs).items(), reverse=True))


def notes_for(curves: Curves) -> list[str]:
    name, stuck = curves.experiment.name, curves.stuck()
    here = [one for one in EQUALITIES if any(curves.of_name(other) for other in one.names[1:])]
    return [
        *([describe_stuck(curves, stuck)] if stuck else []),
        *(describe_equality(curves, one) for one in here),
        *([NOTES[name]] if name in NOTES else []),
    ]


def describe_stuck(curves: Curves, names: Sequence[str]) -> str:
    labels = [run.in_task[-1] for name in names for run in curves.of_name(name)]
    bought = "1 label" if max(labels) == 1 else f"{min(labels)} to {max(labels)} labels"
    ends = [100 * run.accuracy[-1] for name in names for run in curves.of_name(name)]
    return (
        f"**Stuck.** {'; '.join(map(curves.label, names))}: each of {len(labels)} runs bought "
        f"{bought} of the task, so that the network answers with one class whatever it sees, and "
        f"ends with {min(ends):.1f} to {max(ends):.1f}% right, about the share of one "
        f"class. {SURE}"
    )


def describe_equality(curves: Curves, equality: Equality) -> str:
    """Say that rules are the same, and how far their picks agree if nothing is drawn."""
    starts = [] if equality.is_drawn else common_starts(equality, curves.runs)
    agreeing = (
        f" Of two of them the first {min(starts)} to {max(starts)} picks are the same, by seed; "
        f"where they part, it is by rounding."
        if starts
        else ""
    )
    return f"**The same rule.** {equality.words}: {equality.reason}. They count once.{agreeing}"


def findings_beyond(curves: Curves) -> list[str]:
    """A sentence for each question that there are runs of. No claim of the paper is judged."""
    said = []
    for question, place, keys in QUESTIONS:
        names = [(f"{CIFAR}/{place}/{key}", f"{CIFAR}/{key}") for key in keys]
        pairs = [pair for pair in names if curves.has(*pair)]
        if pairs:
            made = [compare(curves, *pair) for pair in pairs]
            ends = [compare_ends(curves, *pair) for pair in pairs]
            shares = [compare_ends(curves, *pair, "share") for pair in pairs]
            said.append(
                f"**{question}.** Over all rounds {listed(made)}. At the end {listed(ends)}. "
                f"Share of picks at the end, in per cent: {listed(shares)}."
            )
    ratios = [
        name
        for key in ("itl", "vtl")
        for name in (f"{CIFAR}/{key}", *(f"{CIFAR}/ratio-{r:g}/{key}" for r in RATIOS))
        if curves.has(name)
    ]
    if ratios:
        numbers = ", ".join(in_points(curves, name) for name in ratios)
        said.append(f"**The noise ratio as the axis.** Accuracy at the end: {numbers}.")
    return said


def datasets(curves: Curves) -> list[str]:
    """The datasets that there are runs of."""
    return [dataset for dataset in curves.experiment.datasets if shown(curves, dataset)]


def shown(curves: Curves, dataset: str) -> list[Configuration]:
    return [one for one in curves.experiment.on(dataset) if curves.of_name(one.name)]


def counts_for(curves: Curves, dataset: str) -> list[int]:
    """Labels after which results are written down. The end is one of them."""
    end = max(int(curves.labels(one.name)[-1]) for one in shown(curves, dataset))
    return [count for count in LOOKED_AT[dataset] if count < end] + [end]


def numbers_of(*trainings: Curves) -> Numbers:
    """Numbers by run, of all trainings. Observations are places in the tables, not labels."""
    methods = {
        one.name.replace(dataset, curves.trained[dataset], 1): {
            measure: _series(curves, measure, one.name, counts) for measure in MEASURES
        }
        for curves in trainings
        for dataset in datasets(curves)
        for counts in [counts_for(curves, dataset)]
        for one in shown(curves, dataset)
    }
    lengths = {len(series.mean) for measured in methods.values() for series in measured.values()}
    return Numbers(list(range(1, max(lengths, default=0) + 1)), methods)


def _series(curves: Curves, measure: str, name: str, counts: list[int]) -> Series:
    means = [curves.mean_at(measure, name, count) for count in counts]
    errors = None if means[0].error is None else [mean.error or 0.0 for mean in means]
    return Series.of([mean.value for mean in means], errors)


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
    return mean.text(100.0)


def table_of_seconds(curves: Curves, dataset: str) -> Cells:
    """Milliseconds of a round, medians. Runs shared the device, so only sizes mean something."""
    activities = ("embedding", "selecting", "training")
    return [
        ["ms of a round", *activities],
        *(
            [one.label, *(f"{1000 * curves.seconds(one.name, a):.1f}" for a in activities)]
            for one in shown(curves, dataset)
        ),
    ]


def table_of_noise(curves: Curves) -> Cells:
    """Accuracy at the end, and in brackets the paper's. Unstable ones are in italics."""
    rows = [
        (row_label(key, kind, is_conditional=given), cells(key, kind, is_conditional=given))
        for given in (True, False)
        for key, kind in ROWS
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


def keep_seeds(trainings: Sequence[Curves], path: Path) -> None:
    """Write every seed after every tenth round, and after the last."""
    rows = (
        [run.configuration, run.seed, (i + 1) * run.batch, run.accuracy[i], f"{run.share[i]:.5f}"]
        for curves in trainings
        for _, run in sorted(curves.runs.items())
        for i in range(len(run.accuracy))
        if (i + 1) % 10 == 0 or i + 1 == len(run.accuracy)
    )
    write_table(path, ["configuration", "seed", "labels", *MEASURES], rows)
