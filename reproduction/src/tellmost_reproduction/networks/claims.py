"""Which claims of the paper an experiment is judged by."""

from tellmost_reproduction.networks.claiming import (
    DIRECTED,
    TITLES,
    Claim,
    Finding,
    alike,
    better,
    comparable,
    listed,
    named_in,
    pairs,
    rising,
    winning,
    worse,
)
from tellmost_reproduction.networks.comparing import compare_ends
from tellmost_reproduction.networks.curves import Curves
from tellmost_reproduction.networks.main_claims import (
    about_figure_4,
    bars_are_apart,
    starting_well,
    vtl_is_like_itl,
)
from tellmost_reproduction.networks.noise_claims import batches_win, little_effect, none_unstable
from tellmost_reproduction.networks.problems import CIFAR, MNIST
from tellmost_reproduction.networks.settings import NOISE_STD
from tellmost_reproduction.networks.share_claims import about_shares
from tellmost_reproduction.verdicts import Verdict

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
    """Most of those that are rules of their own; what a stuck one is worth cannot be told."""
    names = pairs(dataset, UNDIRECTED, ("random",))

    def find(curves: Curves) -> Finding:
        made, others = comparable(curves, names)
        stuck = sum(curves.is_stuck(one) for one, _ in names)
        lower = sum(one.difference.value < 0 for one in made)
        clear = sum(one.loses for one in made)
        told = [*(worse(one) for one in made), *[None] * stuck]
        said = (
            f"of {len(told)} rules that differ {len(made)} can be compared, {lower} are lower, "
            f"{clear} beyond chance: {listed(made)}"
        )
        return [True] if 2 * clear > len(told) else told, "; ".join([said, *others])

    text = f"{TITLES[dataset]}: most undirected rules are worse than Random (in part: some are)"
    return Claim(text, named_in(names), find)


def more_than_other_baselines(dataset: str) -> Claim:
    """TypiClust as it was when it was run, as it is, or both."""
    ours = ("itl", "vtl")
    return winning(
        f"{TITLES[dataset]}: ITL and VTL beat TypiClust, ProbCover and EIG",
        pairs(dataset, ours, ("probcover", "eig")),
        where_run=pairs(dataset, ours, ("typiclust-in-turn", "typiclust")),
    )


def same_order(dataset: str, kind: str) -> Claim:
    """Random does not look at the targets, so lopsided ones do not concern it."""
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
"""By experiment; beyond the paper there is nothing to judge, and the page says what was found."""


def judge(curves: Curves) -> list[Verdict]:
    """Those claims for which there are runs."""
    claims = CLAIMS[curves.experiment.name]
    return [claim.judge(curves) for claim in claims if curves.has(*claim.needs)]


def unjudged(curves: Curves) -> list[str]:
    """The others, with what is missing."""
    return [
        f"{claim.text}: no runs, or one alone, of "
        f"{', '.join(name for name in claim.needs if not curves.has(name))}"
        for claim in CLAIMS[curves.experiment.name]
        if not curves.has(*claim.needs)
    ]
