"""What is run: every configuration by its name, and which of them an experiment compares.

Constants are those of Hübotter et al. 2024, App. H; see ``docs/network-experiments.md``.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from tellmost.finetune import LastLayer, LossGradients, Targeted
from tellmost.finetune.baselines import BADGE, InformationDensity, RandomChoice
from tellmost.finetune.embedding import Embedding
from tellmost.finetune.strategies import Strategy
from tellmost_reproduction.networks.problems import CIFAR, MNIST

ROUNDS, SEEDS = 100, 10
Pool = Literal["apart", "inside", "scarce", "targets"]
"""All but the targets; with them; without most of the task's images; nothing but the targets."""


@dataclass(frozen=True)
class Configuration:
    """One curve: who chooses, from what, for which targets."""

    name: str
    label: str
    dataset: str
    strategy: Strategy
    targets: int  # M in the paper
    targets_per_round: int  # m
    candidates: int | None  # k; None: the whole pool
    batch: int
    pool: Pool = "apart"
    is_lopsided: bool = False  # half the images of the first classes cannot be targets
    is_past: bool = False  # its runs are of earlier code, and kept; nothing runs it again

    def change(self, name: str, label: str) -> "Configuration":
        """Under another name; what differs is up to ``dataclasses.replace``."""
        return replace(self, name=f"{self.dataset}/{name}", label=label)


NOISE_STD = {CIFAR: 1.0, MNIST: 0.01}
STANDARD = {
    CIFAR: Configuration("", "", CIFAR, RandomChoice(), 100, 10, 1_000, 10),
    MNIST: Configuration("", "", MNIST, RandomChoice(), 30, 3, 1_000, 1),
}
RULES = {"itl": ("ITL", "itl-y"), "vtl": ("VTL", "vtl"), "ctl": ("CTL", "ctl")}
EMBEDDINGS: dict[str, tuple[str, Embedding]] = {
    "last": ("L", LastLayer()),
    "loss": ("G", LossGradients()),
}
RHOS = (0.0001, 0.01, 1.0, 100.0)
RATIOS = (0.01, 1.0, 100.0)


def targeted(dataset: str, key: str) -> Targeted:
    return Targeted(RULES[key][1], noise_std=NOISE_STD[dataset])


def make(dataset: str, name: str, label: str, strategy: Strategy) -> Configuration:
    return replace(STANDARD[dataset].change(name, label), strategy=strategy)


def by_rules(dataset: str, keys: Iterable[str] = tuple(RULES)) -> list[Configuration]:
    return [make(dataset, key, RULES[key][0], targeted(dataset, key)) for key in keys]


def main_methods(dataset: str) -> list[Configuration]:
    """Figure 4."""
    return [
        *by_rules(dataset),
        make(dataset, "cosine", "CosineSimilarity", Targeted("cosine")),
        make(dataset, "information-density", "InformationDensity", InformationDensity()),
        make(dataset, "badge", "BADGE", BADGE()),
        make(dataset, "random", "Random", RandomChoice()),
    ]


def rho_cells() -> list[Configuration]:
    """The table of noise; a rule that takes the b best by correlation sees no noise at all."""
    return [
        rho_cell(key, kind, rho, is_conditional)
        for key in ("itl", "ctl")
        for kind in EMBEDDINGS
        for is_conditional in (True, False)
        for rho in (RHOS if is_conditional or key == "itl" else RHOS[2:3])
    ]


def rho_cell(key: str, kind: str, rho: float, is_conditional: bool) -> Configuration:
    """The cell of the paper's constants is the curve of figure 4 itself."""
    letter, embedding = EMBEDDINGS[kind]
    label, rule = RULES[key]
    strategy = Targeted(rule, embedding=embedding, noise_std=rho, conditional=is_conditional)
    if strategy == targeted(CIFAR, key):
        return by_rules(CIFAR, (key,))[0]
    name = f"{key}-{kind}{'' if is_conditional else '-top'}-{rho:g}"
    sees_noise = is_conditional or key == "itl"
    words = f"{letter}-{label}{'' if is_conditional else ' (top-b)'}"
    words += f", rho {rho:g}" if sees_noise else ""
    return make(CIFAR, name, words, strategy)


def variant(
    one: Configuration,
    name: str,
    *,
    pool: Pool | None = None,
    is_lopsided: bool = False,
    candidates: int | None = 0,
    targets: int = 0,
    targets_per_round: int = 0,
    strategy: Strategy | None = None,
    label: str = "",
) -> Configuration:
    """What is not given stays as it is."""
    method = one.name.removeprefix(f"{one.dataset}/")
    return replace(
        one,
        name=f"{one.dataset}/{name}/{method}",
        label=label or one.label,
        pool=pool or one.pool,
        is_lopsided=is_lopsided,
        candidates=one.candidates if candidates == 0 else candidates,
        targets=targets or one.targets,
        targets_per_round=targets_per_round or one.targets_per_round,
        strategy=strategy or one.strategy,
    )


def smaller(one: Configuration) -> Configuration:
    """For smoke size: what the digits have enough of."""
    targets = min(one.targets, 20)
    return replace(
        one,
        targets=targets,
        targets_per_round=min(one.targets_per_round, targets),
        candidates=None if one.candidates is None else min(one.candidates, 100),
    )


def chosen(dataset: str, keys: Iterable[str]) -> list[Configuration]:
    """Of figure 4."""
    wanted = {f"{dataset}/{key}" for key in keys}
    return [one for one in main_methods(dataset) if one.name in wanted]
