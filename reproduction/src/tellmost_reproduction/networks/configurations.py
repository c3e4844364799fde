"""Every configuration that is run, by its name: figure 4, the variants of the appendix, and ours.

Constants are those of Hübotter et al. 2024, App. H; see ``docs/network-experiments.md``.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from tellmost.finetune import LaplaceCovariance, LastLayer, LossGradients, Targeted
from tellmost.finetune.baselines import (
    BADGE,
    BAIT,
    CoreSet,
    LeastConfidence,
    Margin,
    MaxEntropy,
    RandomChoice,
)
from tellmost.finetune.embedding import Embedding
from tellmost.finetune.strategies import Strategy
from tellmost_reproduction.networks.covering import ProbCover, TypiClust
from tellmost_reproduction.networks.directed import EIG, InformationDensity
from tellmost_reproduction.networks.naively import AmongTies, Naively
from tellmost_reproduction.networks.problems import CIFAR, MNIST, PUBLISHED

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


NOISE_STD = {CIFAR: 1.0, MNIST: 0.01}
STANDARD = {
    CIFAR: Configuration("", "", CIFAR, RandomChoice(), 100, 10, 1_000, 10),
    MNIST: Configuration("", "", MNIST, RandomChoice(), 30, 3, 1_000, 1),
}
STANDARD |= {
    PUBLISHED[name]: replace(STANDARD[name], dataset=PUBLISHED[name]) for name in PUBLISHED
}
RULES = {"itl": ("ITL", "itl-y"), "vtl": ("VTL", "vtl"), "ctl": ("CTL", "ctl")}
EMBEDDINGS: dict[str, tuple[str, Embedding]] = {
    "last": ("L", LastLayer()),
    "loss": ("G", LossGradients()),
}
RHOS = (0.0001, 0.01, 1.0, 100.0)
RATIOS = (0.01, 1.0, 100.0)  # 1 is the default of tm.select


def make(dataset: str, name: str, label: str, strategy: Strategy) -> Configuration:
    return replace(STANDARD[dataset], name=f"{dataset}/{name}", label=label, strategy=strategy)


def under(one: Configuration, name: str, more: str = "") -> Configuration:
    """The same configuration as a variant of this name, with more words in its label."""
    method = one.name.removeprefix(f"{one.dataset}/")
    return replace(one, name=f"{one.dataset}/{name}/{method}", label=one.label + more)


NAIVE: dict[type, Naively] = {
    MaxEntropy: Naively("entropy"),
    Margin: Naively("margin"),
    LeastConfidence: Naively("confidence"),
    InformationDensity: Naively("entropy x similarity"),
}
"""Baselines that the published code computes in float32 on MNIST, where all candidates may tie."""


def published(one: Configuration) -> Configuration:
    """The same configuration, trained as by the authors' published code."""
    name = PUBLISHED[one.dataset] + one.name.removeprefix(one.dataset)
    strategy = naive(one.strategy) if one.dataset == MNIST else one.strategy
    return replace(one, name=name, dataset=PUBLISHED[one.dataset], strategy=strategy)


def naive(strategy: Strategy) -> Strategy:
    """The same choice in float32, if that may differ."""
    if isinstance(getattr(strategy, "embedding", None), LossGradients):
        return AmongTies(strategy)
    return NAIVE.get(type(strategy), strategy)


def smaller(one: Configuration) -> Configuration:
    """At smoke size the digits have enough images for this."""
    targets = min(one.targets, 20)
    return replace(
        one,
        targets=targets,
        targets_per_round=min(one.targets_per_round, targets),
        candidates=None if one.candidates is None else min(one.candidates, 100),
    )


def targeted(dataset: str, key: str) -> Targeted:
    return Targeted(RULES[key][1], noise_std=NOISE_STD[dataset])


def by_rules(dataset: str, keys: Iterable[str] = tuple(RULES)) -> list[Configuration]:
    return [make(dataset, key, RULES[key][0], targeted(dataset, key)) for key in keys]


def main_methods(dataset: str) -> list[Configuration]:
    """The curves of figure 4."""
    return [
        *by_rules(dataset),
        make(dataset, "cosine", "CosineSimilarity", Targeted("cosine")),
        make(dataset, "information-density", "InformationDensity", InformationDensity()),
        make(dataset, "badge", "BADGE", BADGE()),
        make(dataset, "random", "Random", RandomChoice()),
    ]


def chosen(dataset: str, *keys: str) -> list[Configuration]:
    """Some of the curves of figure 4."""
    wanted = {f"{dataset}/{key}" for key in keys}
    return [one for one in main_methods(dataset) if one.name in wanted]


def rho_cells() -> list[Configuration]:
    """The table of noise. A rule that takes the b best by correlation sees no noise at all."""
    return [
        rho_cell(key, kind, rho, is_conditional)
        for key in ("itl", "ctl")
        for kind in EMBEDDINGS
        for is_conditional in (True, False)
        for rho in (RHOS if is_conditional or key == "itl" else RHOS[2:3])
    ]


def rho_cell(key: str, kind: str, rho: float, is_conditional: bool) -> Configuration:
    """A cell of the table. That of the paper's constants is the curve of figure 4 itself."""
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


def inside() -> list[Configuration]:
    """Targets that can be chosen too, and the line of the network that has seen them all."""
    methods = [one for one in main_methods(CIFAR) if one.name != f"{CIFAR}/information-density"]
    line = make(CIFAR, "inside-all", "all of A", RandomChoice())
    return [
        *(replace(under(one, "inside"), pool="inside") for one in methods),
        replace(line, pool="targets"),
    ]


def by_loss_gradients(
    dataset: str, keys: Iterable[str] = tuple(RULES), *, by_laplace: bool = False
) -> list[Configuration]:
    """The rules at the paper's noise.

    ``by_laplace``: the covariance of the final layer's weights is Kronecker-factored and fitted
    every round.
    """
    noise = NOISE_STD[dataset]
    covariance = LaplaceCovariance("kronecker") if by_laplace else None
    made = [
        make(
            dataset,
            f"{key}-loss-{noise:g}",
            f"G-{RULES[key][0]}",
            replace(targeted(dataset, key), embedding=LossGradients(), covariance=covariance),
        )
        for key in keys
    ]
    return [under(one, "laplace", ", Laplace") for one in made] if by_laplace else made


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
    """The past TypiClust gave small clusters a turn before large ones had a second."""
    label = "TypiClust (small clusters in turn)"
    return [
        make(dataset, "typiclust", "TypiClust", TypiClust()),
        replace(make(dataset, "typiclust-in-turn", label, TypiClust()), is_past=True),
        make(dataset, "probcover", "ProbCover", ProbCover()),
        make(dataset, "eig", "EIG", EIG()),
    ]


def undirected(dataset: str) -> list[Configuration]:
    noise = NOISE_STD[dataset]
    strategies: dict[tuple[str, str], Strategy] = {
        ("max-entropy", "MaxEntropy"): MaxEntropy(),
        ("margin", "MaxMargin"): Margin(),
        ("least-confidence", "LeastConfidence"): LeastConfidence(),
        ("max-dist", "MaxDist"): CoreSet(observed=False),
        ("undirected-itl", "Undirected ITL"): Targeted("undirected-itl", noise_std=noise),
        ("uncertainty", "UnSa"): Targeted("uncertainty", conditional=False),
        ("bait", "BAIT"): BAIT(noise_std=noise),
    }
    return [make(dataset, *names, strategy) for names, strategy in strategies.items()]


def scarce(dataset: str) -> list[Configuration]:
    kept = chosen(dataset, "itl", "vtl", "ctl", "cosine", "random")
    return [replace(under(one, "scarce"), pool="scarce") for one in kept]


def lopsided(dataset: str) -> list[Configuration]:
    return [replace(under(one, "lopsided"), is_lopsided=True) for one in by_rules(dataset)]


def candidate_counts() -> list[Configuration]:
    return [
        replace(under(one, f"candidates-{k}", f", k = {k:,}"), candidates=k)
        for k in (100, 5_000)
        for one in by_rules(CIFAR)
    ]


def target_shares() -> list[Configuration]:
    (itl,) = by_rules(CIFAR, ("itl",))
    return [
        replace(under(itl, f"per-round-{m}", f", m = {m}"), targets_per_round=m)
        for m in (1, 50, 100)
    ]


def target_counts() -> list[Configuration]:
    (itl,) = by_rules(CIFAR, ("itl",))
    return [
        replace(under(itl, f"targets-{count}", f", M = {count}"), targets=count)
        for count in (10, 30, 300)
    ]


def beyond() -> list[Configuration]:
    """The whole pool, what is known from earlier rounds, and the noise ratio as the axis."""
    rules = dict(zip(("itl", "vtl"), by_rules(CIFAR, ("itl", "vtl")), strict=True))
    return [
        *(
            replace(under(one, "whole", ", whole pool"), candidates=None)
            for one in chosen(CIFAR, "itl", "vtl", "cosine")
        ),
        *(
            replace(
                under(one, "across", ", given earlier rounds"),
                strategy=replace(targeted(CIFAR, key), observed=True),
            )
            for key, one in rules.items()
        ),
        *(
            replace(
                under(one, f"ratio-{ratio:g}", f", noise ratio {ratio:g}"),
                strategy=Targeted(RULES[key][1], noise_ratio=ratio),
            )
            for ratio in RATIOS
            for key, one in rules.items()
        ),
    ]
