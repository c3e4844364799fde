"""The experiments that ``tellmost reproduce`` knows. Nothing here loads torch.

A module of experiments has ``reproduce(name, request) -> Outcome``; to add one, add its entry.
"""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path


@dataclass(frozen=True)
class Request:
    """What the caller wants of an experiment."""

    out: Path  # each experiment writes into a folder of its name in it
    is_smoke: bool = False  # at a tiny size, to see that it runs
    rules: tuple[str, ...] = ()  # the user's, each as package.module:MyRule
    progress: bool | None = None
    data: Path | None = None  # a folder with the files that an experiment reads
    device: str = "cpu"


@dataclass(frozen=True)
class Outcome:
    """What a run has to say, where it differs from the expected values, and what it wrote."""

    text: str
    differences: tuple[str, ...]
    written: tuple[Path, ...]


@dataclass(frozen=True)
class Entry:
    """An experiment: its name, what it shows, and the module that runs it."""

    name: str
    title: str
    module: str
    needs_data: bool = False  # except at smoke size

    def run(self, request: Request) -> Outcome:
        reproduce: Callable[[str, Request], Outcome] = import_module(self.module).reproduce
        return reproduce(self.name, request)


GP = "tellmost_reproduction.gp.reproducing"
SAFE = "tellmost_reproduction.safebo.reproducing"
NETWORKS = "tellmost_reproduction.networks.reproducing"

CATALOGUE = {
    name: Entry(name, title, module, needs_data=module == NETWORKS)
    for name, title, module in (
        ("gp", "all of the Gaussian-process experiments below", GP),
        ("gp-fig2", "the first 25 picks of ITL, two kernels, two places of the targets", GP),
        ("gp-fig3", "entropy and standard deviation, Gaussian kernel, targets inside", GP),
        ("gp-laplace", "the same under the Laplace kernel", GP),
        ("gp-extrapolation", "targets mostly outside the sample space, Gaussian kernel", GP),
        ("gp-extrapolation-laplace", "the same under the Laplace kernel", GP),
        ("gp-heteroscedastic", "ten times the noise in a square among the targets", GP),
        ("gp-sparse", "few targets in a large domain", GP),
        ("safebo", "all of the experiments with safe optimization below", SAFE),
        ("safebo-1d", "to the higher of two hills, through a barely safe valley", SAFE),
        ("safebo-2d", "an island, with the maximum off its shore", SAFE),
        ("safebo-barriers", "jumping past local barriers, a reconstruction", SAFE),
        ("safebo-quadcopter", "gains of a quadcopter, as in the published code", SAFE),
        ("safebo-quadcopter-text", "the same with the beta of the paper's text", SAFE),
        ("safebo-process", "beyond the paper: a 6d process with two graded limits", SAFE),
        ("safebo-misspecified", "lengthscales wrong by a factor of two", SAFE),
        ("nn", "all of the network experiments below", NETWORKS),
        ("nn-mnist", "figure 4, left: digits 3, 6 and 9, a network from scratch", NETWORKS),
        (
            "nn-cifar100",
            "figure 4, right: classes 0 to 9 of CIFAR-100, fine-tuned; Lite0 for B0",
            NETWORKS,
        ),
        ("nn-inside", "the same where the targets can be chosen too; Lite0 for B0", NETWORKS),
        ("nn-embeddings", "loss gradients against the last layer; Lite0 for B0", NETWORKS),
        ("nn-laplace", "a Laplace approximation of the weights' covariance", NETWORKS),
        ("nn-batches", "conditional batches against the b best; Lite0 for B0", NETWORKS),
        ("nn-baselines", "TypiClust, ProbCover and EIG; Lite0 for B0", NETWORKS),
        ("nn-undirected", "rules that do not look at the targets; Lite0 for B0", NETWORKS),
        ("nn-scarce", "80% of the task's images taken from the pool; Lite0 for B0", NETWORKS),
        ("nn-lopsided", "half the targets of some classes taken away; Lite0 for B0", NETWORKS),
        ("nn-candidates", "VTL, and the number of candidates of a round; Lite0 for B0", NETWORKS),
        ("nn-per-round", "how many of the targets a round looks at; Lite0 for B0", NETWORKS),
        ("nn-targets", "how many targets there are; Lite0 for B0", NETWORKS),
        ("nn-rho", "the table of noise standard deviations; Lite0 for B0", NETWORKS),
        (
            "nn-beyond",
            "beyond the paper: whole pool, earlier rounds, noise ratios; Lite0 for B0",
            NETWORKS,
        ),
    )
}
"""All experiments by name, in the order of the paper."""


def find(name: str | None, request: Request) -> Entry:
    """The experiment of this name. Refuse what it could not run with. torch is rarely loaded."""
    if name is None:
        raise ValueError(f"name an experiment: {', '.join(CATALOGUE)}.")
    if name not in CATALOGUE:
        close = get_close_matches(name, CATALOGUE, 1)
        hint = f" Did you mean {close[0]}?" if close else ""
        names = ", ".join(CATALOGUE)
        raise ValueError(f"there is no experiment {name!r}; there are {names}.{hint}")
    if request.rules:
        from tellmost_reproduction.gp.methods import read_methods

        read_methods(list(request.rules))
    check_data(CATALOGUE[name], request)
    check_device(request.device)
    return CATALOGUE[name]


def check_data(entry: Entry, request: Request) -> None:
    if request.data is not None and not request.data.is_dir():
        raise ValueError(f"--data must be a folder; {request.data} is none.")
    if entry.needs_data and request.data is None and not request.is_smoke:
        raise ValueError(
            f"{entry.name} needs --data, a folder with images and weights (docs/"
            f"network-experiments.md says which, and where they come from). --smoke runs without."
        )


def check_device(device: str) -> None:
    """Check that the device exists. torch is not loaded for the CPU."""
    if device == "cpu":
        return
    import torch

    if not device.startswith("cuda") or not torch.cuda.is_available():
        there = "cpu, cuda" if torch.cuda.is_available() else "cpu (torch sees no GPU here)"
        raise ValueError(f"--device must be one of {there}; got {device!r}.")
