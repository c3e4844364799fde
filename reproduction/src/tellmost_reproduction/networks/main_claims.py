"""The claims about figure 4."""

import math
from collections.abc import Sequence

import numpy as np

from tellmost.evaluation.statistics import Mean
from tellmost.shapes import Float
from tellmost_reproduction.networks.claiming import (
    ALIKE,
    DIRECTED,
    TITLES,
    Claim,
    Finding,
    better,
    in_points,
    pairs,
    told,
    winning,
    worse,
)
from tellmost_reproduction.networks.comparing import bars_apart, compare, tenths
from tellmost_reproduction.networks.curves import Curves
from tellmost_reproduction.networks.problems import CIFAR

BASELINES = ("cosine", "information-density", "badge", "random")
MIDWAY = 500
"""Labels at which we compare standard errors; the paper shows a figure alone."""


def about_figure_4(dataset: str) -> tuple[Claim, ...]:
    return (
        winning(
            f"{TITLES[dataset]}: ITL, VTL and CTL beat Random and every baseline",
            pairs(dataset, DIRECTED, BASELINES),
        ),
        twice_as_often(dataset),
    )


def starting_well() -> Claim:
    """Said of batches larger than one, so not of MNIST."""
    cosine, random = f"{CIFAR}/cosine", f"{CIFAR}/random"

    def find(curves: Curves) -> Finding:
        parts = tenths(curves, cosine)
        first, last = (compare(curves, cosine, random, rounds=part) for part in parts)
        midway = compare(curves, cosine, random, at=MIDWAY)
        said = (
            f"early {first.describe()}; late {last.describe()}; in between, after {MIDWAY} "
            f"labels, {midway.describe()}"
        )
        return [better(first), worse(last)], said

    text = (
        "CosineSimilarity is better than Random early (over the first tenth of the rounds) and "
        "worse late (over the last)"
    )
    return Claim(text, (cosine, random), find)


def twice_as_often(dataset: str) -> Claim:
    names = tuple(f"{dataset}/{key}" for key in ("itl", "vtl", "cosine", "random"))

    def find(curves: Curves) -> Finding:
        bought = curves.labels(names[0])
        said = []
        for labels in (int(bought[len(bought) // 2 - 1]), int(bought[-1])):
            shares = [curves.mean_at("share", name, labels).value for name in names]
            itl, vtl = (share / shares[2] if shares[2] else math.inf for share in shares[:2])
            said.append(
                f"after {labels} labels {in_percent(curves, names, shares)}; ITL {itl:.2f} and "
                f"VTL {vtl:.2f} times cosine's"
            )
        seeds = sorted(set(curves.seeds(names[0])) & set(curves.seeds(names[2])))
        itl_ends, cosine_ends = (ends_of(curves, name, seeds) for name in (names[0], names[2]))
        return [told(Mean.of(itl_ends - 2.0 * cosine_ends))], "; ".join(said)

    text = (
        f"{TITLES[dataset]}: ITL draws from the target support at more than twice the rate of "
        f"CosineSimilarity (at the end, beyond chance)"
    )
    return Claim(text, names, find)


def ends_of(curves: Curves, name: str, seeds: Sequence[int]) -> Float[np.ndarray, " seeds"]:
    """The share of picks after the last round, of these seeds."""
    last = curves.values("share", name)[:, -1]
    return last[[curves.seeds(name).index(seed) for seed in seeds]]


def in_percent(curves: Curves, names: Sequence[str], shares: Sequence[float]) -> str:
    return ", ".join(
        f"{curves.label(name)} {100 * share:.1f}%"
        for name, share in zip(names, shares, strict=True)
    )


def bars_are_apart() -> Claim:
    names = pairs(CIFAR, ("itl", "vtl"), ("random", "badge", "cosine"))
    shown = tuple(dict.fromkeys(name for pair in names for name in pair))

    def find(curves: Curves) -> Finding:
        facts = [bars_apart(curves, one, other, MIDWAY) for one, other in names]
        return facts, ", ".join(in_points(curves, name, MIDWAY) for name in shown)

    text = (
        f"Ours to show: ITL and VTL are above Random, BADGE and CosineSimilarity at {MIDWAY} "
        f"labels, and standard errors do not overlap"
    )
    return Claim(text, shown, find)


def vtl_is_like_itl() -> Claim:
    names = (f"{CIFAR}/vtl", f"{CIFAR}/itl")

    def find(curves: Curves) -> Finding:
        made = compare(curves, *names)
        low, high = made.interval
        fact = True if low >= -ALIKE else False if high < -ALIKE else None
        return [fact], f"{made.describe()}, 95% {100 * low:+.1f} to {100 * high:+.1f}"

    text = f"VTL performs almost as well as ITL (at most {100 * ALIKE:.0f} points worse)"
    return Claim(text, names, find)
