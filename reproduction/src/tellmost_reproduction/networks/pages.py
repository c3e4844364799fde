"""The page of a results folder: claim, command, set-up, result. Every number is from the runs."""

from collections import Counter
from collections.abc import Iterable, Sequence

from tellmost_reproduction.networks.beyond import findings_beyond
from tellmost_reproduction.networks.claiming import RULE, TITLES
from tellmost_reproduction.networks.claims import unjudged
from tellmost_reproduction.networks.curves import MEASURES, Curves
from tellmost_reproduction.networks.notes import notes_for
from tellmost_reproduction.networks.problems import CIFAR, MNIST
from tellmost_reproduction.networks.running import Run
from tellmost_reproduction.networks.settings import NOISE_STD, ROUNDS, SEEDS, STANDARD
from tellmost_reproduction.networks.tables import shown, table_of, table_of_noise, table_of_seconds
from tellmost_reproduction.tables import in_markdown
from tellmost_reproduction.verdicts import Verdict, tabulate_verdicts

SMOKE = "**Smoke size, on 8 x 8 digits: this says that the code runs, nothing about the paper.**"
NETWORKS = {
    CIFAR: "CIFAR-100: **EfficientNet-Lite0 stands in for EfficientNet-B0** (ImageNet weights of "
    "B0 are not to be had from a package registry), images at 224 pixels, last block, head and a "
    "new final layer for the ten classes trained, statistics of batch norm frozen and its affine "
    "weights trained; 5 epochs a round from the last round's weights, with Adam's moments carried "
    "over too. Accuracy is on the 1,000 test images of classes 0 to 9, of which 2 are the same, "
    "byte by byte, as images of the training half",
    MNIST: "MNIST: three convolutions (32, 64, 128) and two fully-connected layers, new weights "
    "every round; of 20 epochs the one that is best on 200 validation images, the last of those "
    "that tie (the paper stops when accuracy on validation images falls, which with a step or two "
    "an epoch may be at once). Accuracy is on the test images of 3, 6 and 9",
}
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
"""What is seen, where it is not accuracy and share of picks against labels."""


def write_page(curves: Curves, verdicts: Sequence[Verdict], *, is_smoke: bool = False) -> str:
    experiment = curves.experiment
    flags = " --smoke" if is_smoke else " --data folder --device cuda"
    parts = [
        f"# {experiment.name}: {experiment.title}",
        *([SMOKE] if is_smoke else []),
        f"**Command.** `tellmost reproduce {experiment.name}{flags}`",
        f"**Set-up.** {describe(curves)}",
        f"**Runs.** {describe_runs(curves)}",
        *_verdicts(curves, verdicts),
        *([] if is_smoke else notes_for(curves)),
        *(findings_beyond(curves) if experiment.name == "nn-beyond" else []),
        f"![{FIGURES.get(experiment.name, SEEN)}](figure.svg)",
        "Bands and bars are one standard error over the seeds.",
        *([in_markdown(table_of_noise(curves))] if experiment.name == "nn-rho" else []),
        *_tables(curves),
        "`seeds.csv`: accuracy and share after every tenth round, for every seed.",
    ]
    return "\n\n".join(parts) + "\n"


def _verdicts(curves: Curves, verdicts: Sequence[Verdict]) -> list[str]:
    parts = [tabulate_verdicts(verdicts), f"**Verdicts.** {RULE}"] if verdicts else []
    missing = unjudged(curves)
    return [*parts, *([f"**Not judged.** {'; '.join(missing)}."] if missing else [])]


def describe(curves: Curves) -> str:
    """What was trained how, on the datasets that there are runs of."""
    parts = []
    datasets = [name for name in curves.experiment.datasets if shown(curves, name)]
    for dataset in datasets:
        one = STANDARD[dataset]
        parts.append(
            f"{NETWORKS[dataset]}. {pool_words(curves, dataset)} rho {NOISE_STD[dataset]:g}, "
            f"M = {one.targets} targets, m = "
            f"{one.targets_per_round} of them a round, k = {one.candidates:,} candidates a round, "
            f"b = {one.batch}."
        )
    about = ABOUT.get(curves.experiment.name)
    idle = (describe_idle(curves, dataset) for dataset in datasets)
    return " ".join([*parts, *([about] if about else []), TRAINING, *idle])


def pool_words(curves: Curves, dataset: str) -> str:
    """Whether the targets, which are drawn from the same images, can be chosen too."""
    if curves.experiment.name == "nn-inside":
        return f"Pool: {POOLS[dataset]}, the targets among them, so that they can be chosen."
    return f"Pool: {POOLS[dataset]}, without the targets, which are drawn from it."


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
    counts = curves.counts()
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


def _tables(curves: Curves) -> list[str]:
    parts = []
    for dataset in curves.experiment.datasets:
        if not shown(curves, dataset):
            continue
        parts.append(f"## {TITLES[dataset]}")
        parts += [in_markdown(table_of(curves, dataset, measure)) for measure in MEASURES]
        parts.append(
            "Milliseconds of a round, medians over rounds and runs; several runs shared the "
            "device, so these are no benchmark."
        )
        parts.append(in_markdown(table_of_seconds(curves, dataset)))
    return parts
