"""The claims of the paper about its experiments with networks."""

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from tellmost.evaluation.statistics import Mean
from tellmost.shapes import Float
from tellmost_reproduction.frame.comparing import PairedComparison
from tellmost_reproduction.frame.verdicts import Fact, Verdict
from tellmost_reproduction.networks.configurations import EMBEDDINGS, NOISE_STD, RHOS, rho_cell
from tellmost_reproduction.networks.curves import (
    Curves,
    bars_apart,
    compare,
    compare_ends,
    tenths,
)
from tellmost_reproduction.networks.judging import (
    ALIKE,
    DIRECTED,
    TITLES,
    Claim,
    Finding,
    alike,
    better,
    comparable,
    describe,
    describe_wide,
    in_points,
    listed,
    named_in,
    pairs,
    rising,
    winning,
    within,
    worse,
)
from tellmost_reproduction.networks.problems import CIFAR, MNIST

BASELINES = ("cosine", "information-density", "badge", "random")
MIDWAY = 500
"""Labels at which we compare standard errors. The paper shows only a figure."""


def about_figure_4(dataset: str) -> tuple[Claim, ...]:
    """BADGE is Random on MNIST, where a round has one pick, so it may be missing there."""
    rivals = [key for key in BASELINES if (dataset, key) != (MNIST, "badge")]
    again = [key for key in BASELINES if key not in rivals]
    return (
        winning(
            f"{TITLES[dataset]}: ITL, VTL and CTL beat Random and every baseline",
            pairs(dataset, DIRECTED, rivals),
            where_run=pairs(dataset, DIRECTED, again),
            with_ends=True,
        ),
        twice_as_often(dataset),
    )


def starting_well() -> Claim:
    """The paper says this of batches larger than one, so not of MNIST."""
    cosine, random = f"{CIFAR}/cosine", f"{CIFAR}/random"

    def find(curves: Curves) -> Finding:
        parts = tenths(curves, cosine)
        first, last = (compare(curves, cosine, random, rounds=part) for part in parts)
        midway = compare(curves, cosine, random, at=MIDWAY)
        said = (
            f"early {describe(first)}; late {describe(last)}; in between, after {MIDWAY} "
            f"labels, {describe(midway)}"
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
        sign = Mean.of(itl_ends - 2.0 * cosine_ends).sign
        return [sign > 0 if sign else None], "; ".join(said)

    text = (
        f"{TITLES[dataset]}: ITL draws from the target support at more than twice the rate of "
        f"CosineSimilarity (at the end, beyond chance)"
    )
    return Claim(text, names, find)


def ends_of(curves: Curves, name: str, seeds: Sequence[int]) -> Float[np.ndarray, " seeds"]:
    """The share of picks of these seeds after the last round."""
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
        return [fact], f"{describe(made)}, 95% {100 * low:+.1f} to {100 * high:+.1f}"

    text = f"VTL performs almost as well as ITL (at most {100 * ALIKE:.0f} points worse)"
    return Claim(text, names, find)


SHARES = tuple(
    f"{CIFAR}/{place}itl" for place in ("per-round-1/", "", "per-round-50/", "per-round-100/")
)
"""Targets of a round, m: 1, 10, 50 and all 100."""

EARLY = slice(10)


def about_shares() -> tuple[Claim, ...]:
    """The paper has both: more targets are better in general, and fewer can be later."""
    text = "A larger share m/M of the targets generally leads to better performance"
    return (
        rising(f"{text} (over all rounds)", [SHARES]),
        rising(f"{text} (over the first {EARLY.stop} rounds)", [SHARES], rounds=EARLY),
        fewer_can_help(),
    )


def fewer_can_help() -> Claim:
    """A smaller share "can" be better, so one that is better is enough."""
    *smaller, whole = SHARES

    def find(curves: Curves) -> Finding:
        late = tenths(curves, whole)[1]
        made = [compare(curves, name, whole, rounds=late) for name in smaller]
        facts = [better(one) for one in made]
        return [True] if True in facts else facts, listed(made)

    text = (
        "A smaller share m/M can be better than all targets where many batches are selected (over "
        "the last tenth of the rounds)"
    )
    return Claim(text, SHARES, find)


ROWS = tuple((key, kind) for key in ("itl", "ctl") for kind in ("loss", "last"))
RANDOM = f"{CIFAR}/random"


def cells(key: str, kind: str, *, is_conditional: bool = True) -> tuple[str, ...]:
    """Names along the row. One curve stands for all if the rule does not see the noise."""
    found = (rho_cell(key, kind, rho, is_conditional).name for rho in RHOS)
    if not is_conditional and key == "ctl":
        return (rho_cell(key, kind, 1.0, False).name,) * len(RHOS)
    return tuple(found)


def row_label(key: str, kind: str, *, is_conditional: bool = True) -> str:
    return f"{EMBEDDINGS[kind][0]}-{key.upper()}{'' if is_conditional else ' (top-b)'}"


def all_within(made: Sequence[PairedComparison]) -> Fact:
    """True if all are surely within the two points; one that is outside decides."""
    facts = [within(one) for one in made]
    return False if False in facts else None if None in facts else True


def little_effect() -> Claim:
    def find(curves: Curves) -> Finding:
        facts, said = [], []
        for key, kind in ROWS:
            pairs = combinations(cells(key, kind), 2)
            made = [compare_ends(curves, one, other) for one, other in pairs]
            facts.append(all_within(made))
            largest = max(made, key=lambda one: abs(one.difference.value))
            said.append(f"{row_label(key, kind)}: largest {describe_wide(largest)}")
        return facts, "; ".join(said)

    text = (
        f"Where nothing is unstable, rho has little effect (any two of a row within "
        f"{100 * ALIKE:.0f} points at the end)"
    )
    return Claim(text, tuple(name for row in ROWS for name in cells(*row)), find)


def none_unstable() -> Claim:
    """The paper's fall below Random with loss gradients and rho of 0.01 and less."""
    watched = [name for key in ("itl", "ctl") for name in cells(key, "loss")[:2]]

    def find(curves: Curves) -> Finding:
        made = [compare_ends(curves, name, RANDOM) for name in watched]
        every = [compare_ends(curves, name, RANDOM) for name in distinct_cells()]
        worse = [one for one in every if one.is_worse]
        others = f"of all {len(every)} cells Random beats {listed(worse) or 'none'}"
        return [better(one) for one in made], f"{listed(made)}; {others}"

    text = (
        "Ours to show: the paper's four numerically unstable cells (G-ITL and G-CTL, rho of 0.01 "
        "and less) are not so here: they beat Random at the end"
    )
    return Claim(text, (*distinct_cells(), RANDOM), find)


def distinct_cells() -> tuple[str, ...]:
    """Every cell of the table, once."""
    rows = (cells(*row, is_conditional=given) for given in (True, False) for row in ROWS)
    return tuple(dict.fromkeys(name for row in rows for name in row))


def batches_win() -> Claim:
    names = [
        (cells(key, kind)[2], cells(key, kind, is_conditional=False)[2]) for key, kind in ROWS
    ]
    return winning("Conditional batches beat the b best, at rho 1", names, with_ends=True)


BOTH = (CIFAR, MNIST)
UNDIRECTED = (
    "max-entropy",
    "margin",
    "least-confidence",
    "max-dist",
    "undirected-itl",
    "uncertainty",
    "bait",
    "badge",
)


def like_the_last_layer(dataset: str) -> Claim:
    noise = f"{NOISE_STD[dataset]:g}"
    names = [(f"{dataset}/{key}-loss-{noise}", f"{dataset}/{key}") for key in DIRECTED]
    return alike(f"{TITLES[dataset]}: loss gradients and last layer perform alike", names)


def no_improvement() -> Claim:
    names = [
        (f"{MNIST}/laplace/{key}-loss-0.01", f"{MNIST}/{key}-loss-0.01") for key in ("itl", "vtl")
    ]
    return alike("MNIST: a Laplace approximation brings nothing", names)


def worse_than_random(dataset: str) -> Claim:
    """Most of the rules that differ must be worse. A stuck one tells nothing."""
    differing = UNDIRECTED if dataset == CIFAR else UNDIRECTED[:-1]  # BADGE is Random on MNIST
    names = pairs(dataset, differing, ("random",))

    def find(curves: Curves) -> Finding:
        made, others = comparable(curves, names)
        stuck = sum(curves.is_stuck(one) for one, _ in names)
        lower = sum(one.difference.value < 0 for one in made)
        clear = sum(one.is_worse for one in made)
        told = [*(worse(one) for one in made), *[None] * stuck]
        said = (
            f"of {len(told)} rules that differ {len(made)} can be compared, {lower} are lower, "
            f"{clear} beyond chance: {listed(made)}"
        )
        return [True] if 2 * clear > len(told) else told, "; ".join([said, *others])

    text = f"{TITLES[dataset]}: most undirected rules are worse than Random (in part: some are)"
    return Claim(text, named_in(names), find)


def more_than_other_baselines(dataset: str) -> Claim:
    """TypiClust counts as it was when it was run, as it is, or both."""
    ours = ("itl", "vtl")
    return winning(
        f"{TITLES[dataset]}: ITL and VTL beat TypiClust, ProbCover and EIG",
        pairs(dataset, ours, ("probcover", "eig")),
        where_run=pairs(dataset, ours, ("typiclust-in-turn", "typiclust")),
    )


def same_order(dataset: str, kind: str) -> Claim:
    """Random does not look at the targets, so lopsided targets do not concern it."""
    random = f"{dataset}/random" if kind == "lopsided" else f"{dataset}/{kind}/random"
    itl, vtl, ctl = (f"{dataset}/{kind}/{key}" for key in DIRECTED)
    names = [(itl, ctl), (ctl, random), (itl, random), (vtl, random)]
    return winning(f"{TITLES[dataset]}: ITL beats CTL, and ITL, VTL and CTL beat Random", names)


def more_than_all_targets() -> Claim:
    line = f"{CIFAR}/inside-all"
    names = tuple(f"{CIFAR}/inside/{key}" for key in DIRECTED)

    def find(curves: Curves) -> Finding:
        made = [compare_ends(curves, name, line) for name in names]
        ends = 100 * curves.values("accuracy", line)[:, -1]
        said = (
            f"weak evidence, as the line has not settled: {ends.min():.1f} to {ends.max():.1f} "
            f"over {len(ends)} seeds; {listed(made)}"
        )
        return [better(one) for one in made], said

    text = "Choosing from S adds to what is learned from all of A, at the end"
    return Claim(text, (line, *names), find)


CLAIMS: dict[str, tuple[Claim, ...]] = {
    "nn-mnist": about_figure_4(MNIST),
    "nn-cifar100": (
        *about_figure_4(CIFAR),
        starting_well(),
        bars_are_apart(),
        vtl_is_like_itl(),
    ),
    "nn-inside": (more_than_all_targets(),),
    "nn-embeddings": tuple(map(like_the_last_layer, BOTH)),
    "nn-laplace": (no_improvement(),),
    "nn-batches": (
        winning(
            "Conditional batches beat the b best",
            [(f"{CIFAR}/{key}", f"{CIFAR}/{key}-last-top-1") for key in DIRECTED],
            with_ends=True,
        ),
    ),
    "nn-baselines": tuple(map(more_than_other_baselines, BOTH)),
    "nn-undirected": tuple(map(worse_than_random, BOTH)),
    "nn-scarce": tuple(same_order(one, "scarce") for one in BOTH),
    "nn-lopsided": tuple(same_order(one, "lopsided") for one in BOTH),
    "nn-candidates": (
        rising(
            "ITL, VTL and CTL improve with the number of candidates",
            [
                [f"{CIFAR}/candidates-100/{k}", f"{CIFAR}/{k}", f"{CIFAR}/candidates-5000/{k}"]
                for k in DIRECTED
            ],
        ),
        vtl_is_like_itl(),
    ),
    "nn-per-round": about_shares(),
    "nn-targets": (
        rising(
            "ITL improves with the number M of targets",
            [
                [
                    f"{CIFAR}/{place}itl"
                    for place in ("targets-10/", "targets-30/", "", "targets-300/")
                ]
            ],
        ),
    ),
    "nn-rho": (little_effect(), none_unstable(), batches_win()),
    "nn-beyond": (),
}
"""Claims by experiment. Beyond the paper nothing is claimed, and the page says what was found."""


def judge(curves: Curves) -> list[Verdict]:
    """Judge the claims for which there are runs."""
    claims = CLAIMS[curves.experiment.name]
    return [claim.judge(curves) for claim in claims if curves.has(*claim.needs)]


def unjudged(curves: Curves) -> list[str]:
    """The other claims, with what is missing."""
    return [
        f"{claim.text}: no runs, or one alone, of "
        f"{', '.join(name for name in claim.needs if not curves.has(name))}"
        for claim in CLAIMS[curves.experiment.name]
        if not curves.has(*claim.needs)
    ]
