"""The experiments that ``sightline reproduce`` knows. Nothing here loads torch.

A module of experiments has ``reproduce(name, request) -> Outcome``; to add one, add its entry.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path


@dataclass(frozen=True)
class Request:
    """What is wanted of an experiment."""

    out: Path  # each experiment writes into a folder of its name in it
    is_smoke: bool = False  # a tiny size, to see that it runs
    rules: tuple[str, ...] = ()  # the user's, each as package.module:MyRule
    progress: bool | None = None


@dataclass(frozen=True)
class Outcome:
    """What a run has to say, where it differs from the expected values, and what it wrote."""

    text: str
    differences: tuple[str, ...]
    written: tuple[Path, ...]


@dataclass(frozen=True)
class Entry:
    """An experiment by its name, what it shows, and the module that runs it."""

    name: str
    title: str
    module: str

    def run(self, request: Request) -> Outcome:
        reproduce: Callable[[str, Request], Outcome] = import_module(self.module).reproduce
        return reproduce(self.name, request)


GP = "sightline.experiments.gp.reproducing"

CATALOGUE = {
    name: Entry(name, title, module)
    for name, title, module in (
        ("gp", "all of the Gaussian-process experiments below", GP),
        ("gp-fig2", "the first 25 picks of ITL, two kernels, two places of the targets", GP),
        ("gp-fig3", "entropy and standard deviation, Gaussian kernel, targets inside", GP),
        ("gp-laplace", "the same under the Laplace kernel", GP),
        ("gp-extrapolation", "targets mostly outside the sample space, Gaussian kernel", GP),
        ("gp-extrapolation-laplace", "the same under the Laplace kernel", GP),
        ("gp-heteroscedastic", "ten times the noise in a square among the targets", GP),
        ("gp-sparse", "few targets in a large domain", GP),
    )
}
"""All of them by name, in the order of the paper."""
