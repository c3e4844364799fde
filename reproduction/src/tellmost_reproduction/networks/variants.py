"""The variants of figure 4 that the appendix compares, and those beyond the paper."""

from dataclasses import replace

from tellmost.finetune import LaplaceCovariance, LossGradients, Targeted
from tellmost.finetune.baselines import (
    BAIT,
    EIG,
    CoreSet,
    LeastConfidence,
    Margin,
    MaxEntropy,
    ProbCover,
    RandomChoice,
    TypiClust,
)
from tellmost.finetune.strategies import Strategy
from tellmost_reproduction.networks.problems import CIFAR, MNIST
from tellmost_reproduction.networks.settings import (
    NOISE_STD,
    RATIOS,
    RULES,
    STANDARD,
    Configuration,
    by_rules,
    chosen,
    main_methods,
    make,
    targeted,
    variant,
)


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
