"""Every configuration that is run, by its name."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from tellmost.finetune import LaplaceCovariance, LastLayer, LossGradients, Targeted
from tellmost.finetune.baselines import (
    BADGE,
    BAIT,
    EIG,
    CoreSet,
    InformationDensity,
    LeastConfidence,
    Margin,
    MaxEntropy,
    ProbCover,
    RandomChoice,
    TypiClust,
)
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


def inside() -> list[Configuration]:
    """The targets can be chosen too; and the line of the network that has seen them all."""
    methods = [one for one in main_methods(CIFAR) if one.name != f"{CIFAR}/information-density"]
    all_of_them = replace(
        STANDARD[CIFAR].change("inside-all", "all of A"), strategy=RandomChoice(), pool="targets"
    )
    return [*(variant(one, "inside", pool="inside") for one in methods), all_of_them]


def by_loss_gradients(dataset: str) -> list[Configuration]:
    """Those of the table at the paper's noise, and VTL."""
    return [
        make(
            dataset,
            f"{key}-loss-{NOISE_STD[dataset]:g}",
            f"G-{label}",
            replace(targeted(dataset, key), embedding=LossGradients()),
        )
        for key, (label, _) in RULES.items()
    ]


def by_laplace() -> list[Configuration]:
    """The covariance of the final layer's weights, Kronecker-factored, fitted every round."""
    return [
        variant(one, "laplace", strategy=with_laplace(one.strategy), label=f"{one.label}, Laplace")
        for one in by_loss_gradients(MNIST)[:2]
    ]


def with_laplace(strategy: Strategy) -> Strategy:
    if not isinstance(strategy, Targeted):
        raise TypeError(f"a covariance is for Targeted alone; got {strategy!r}.")
    return replace(strategy, covariance=LaplaceCovariance("kronecker"))


def top_b() -> list[Configuration]:
    return [
        make(
            CIFAR,
            f"{key}-last-top-{NOISE_STD[CIFAR]:g}",
            f"L-{label} (top-b)",
            replace(targeted(CIFAR, key), conditional=False),
        )
        for key, (label, _) in RULES.items()
    ]


def more_baselines(dataset: str) -> list[Configuration]:
    return [
        make(dataset, "typiclust", "TypiClust", TypiClust()),
        typiclust_in_turn(dataset),
        make(dataset, "probcover", "ProbCover", ProbCover()),
        make(dataset, "eig", "EIG", EIG()),
    ]


def typiclust_in_turn(dataset: str) -> Configuration:
    """As it was when it was run: small clusters had a turn before large ones had a second."""
    label = "TypiClust (small clusters in turn)"
    return replace(make(dataset, "typiclust-in-turn", label, TypiClust()), is_past=True)


def undirected(dataset: str) -> list[Configuration]:
    noise = NOISE_STD[dataset]
    return [
        make(dataset, "max-entropy", "MaxEntropy", MaxEntropy()),
        make(dataset, "margin", "MaxMargin", Margin()),
        make(dataset, "least-confidence", "LeastConfidence", LeastConfidence()),
        make(dataset, "max-dist", "MaxDist", CoreSet(observed=False)),
        make(
            dataset,
            "undirected-itl",
            "Undirected ITL",
            Targeted("undirected-itl", noise_std=noise),
        ),
        make(dataset, "uncertainty", "UnSa", Targeted("uncertainty", conditional=False)),
        make(dataset, "bait", "BAIT", BAIT(noise_std=noise)),
    ]


def scarce(dataset: str) -> list[Configuration]:
    kept = ("itl", "vtl", "ctl", "cosine", "random")
    return [variant(one, "scarce", pool="scarce") for one in chosen(dataset, kept)]


def lopsided(dataset: str) -> list[Configuration]:
    return [variant(one, "lopsided", is_lopsided=True) for one in by_rules(dataset)]


def candidate_counts() -> list[Configuration]:
    return [
        variant(one, f"candidates-{k}", candidates=k, label=f"{one.label}, k = {k:,}")
        for k in (100, 5_000)
        for one in by_rules(CIFAR)
    ]


def target_shares() -> list[Configuration]:
    (itl,) = by_rules(CIFAR, ("itl",))
    return [
        variant(itl, f"per-round-{m}", targets_per_round=m, label=f"ITL, m = {m}")
        for m in (1, 50, 100)
    ]


def target_counts() -> list[Configuration]:
    (itl,) = by_rules(CIFAR, ("itl",))
    return [
        variant(itl, f"targets-{count}", targets=count, label=f"ITL, M = {count}")
        for count in (10, 30, 300)
    ]


def whole_pool() -> list[Configuration]:
    return [
        variant(one, "whole", candidates=None, label=f"{one.label}, whole pool")
        for one in chosen(CIFAR, ("itl", "vtl", "cosine"))
    ]


def across_rounds() -> list[Configuration]:
    return [
        variant(
            one,
            "across",
            strategy=replace(targeted(CIFAR, key), observed=True),
            label=f"{one.label}, given earlier rounds",
        )
        for key, one in zip(("itl", "vtl"), by_rules(CIFAR, ("itl", "vtl")), strict=True)
    ]


def noise_ratios() -> list[Configuration]:
    """1 is the default of ``tm.select``."""
    return [
        variant(
            one,
            f"ratio-{ratio:g}",
            strategy=Targeted(RULES[key][1], noise_ratio=ratio),
            label=f"{one.label}, noise ratio {ratio:g}",
        )
        for ratio in RATIOS
        for key, one in zip(("itl", "vtl"), by_rules(CIFAR, ("itl", "vtl")), strict=True)
    ]
