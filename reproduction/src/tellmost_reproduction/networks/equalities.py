"""Rules that differ by name and come to the same choice: evidence of one of them is no second.

Their curves still differ, since rounding on a GPU is not the same twice and networks amplify it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from tellmost_reproduction.networks.running import Run
from tellmost_reproduction.networks.storing import RunId
from tellmost_reproduction.tables import Cells

Pair = tuple[str, str]


@dataclass(frozen=True)
class Equality:
    """Configurations that are one rule, and why; the first is the one to speak of."""

    names: tuple[str, ...]
    words: str
    reason: str
    is_drawn: bool = False  # picks are random, so that the same rule makes others


BY_COSINE = (
    "with nothing observed, Cor[f_x, f_a] is the cosine of the two embeddings, and b = 1 pick a "
    "round is made before anything is"
)
EQUALITIES = (
    Equality(("mnist/ctl", "mnist/cosine"), "CTL and CosineSimilarity, on MNIST", BY_COSINE),
    Equality(
        ("mnist/scarce/ctl", "mnist/scarce/cosine"),
        "CTL and CosineSimilarity, on MNIST",
        BY_COSINE,
    ),
    Equality(
        ("mnist/max-dist", "mnist/undirected-itl", "mnist/uncertainty"),
        "MaxDist, Undirected ITL and UnSa, on MNIST",
        "the first pick of a round is the longest embedding for all three, as log(1 + k(x, x) / "
        "rho²) grows with k(x, x) and MaxDist has nothing yet to be far from, and b = 1",
    ),
    Equality(
        ("mnist/random", "mnist/badge"),
        "Random and BADGE, on MNIST",
        "BADGE draws the first pick of a batch uniformly, and b = 1",
        is_drawn=True,
    ),
    Equality(
        ("cifar100/cosine", "cifar100/ctl-last-top-1"),
        "CosineSimilarity and L-CTL (top-b), on CIFAR-100",
        "the b best by Cor[f_x, f_a] with nothing observed are the b best by cosine",
    ),
)


def one_rule(name: str) -> str:
    """The name that stands for all that are the same rule."""
    return next((one.names[0] for one in EQUALITIES if name in one.names), name)


def is_same_rule(pair: Pair) -> bool:
    one, other = map(one_rule, pair)
    return one == other


def repeats(pairs: Sequence[Pair]) -> list[Pair]:
    """Those of a rule with itself, and those that say what another says.

    Of these the one by the first names counts, or the one that comes first.
    """
    counted: dict[Pair, Pair] = {}
    for pair in pairs:
        rules = one_rule(pair[0]), one_rule(pair[1])
        counted[rules] = pair if pair == rules else counted.get(rules, pair)
    return [pair for pair in pairs if is_same_rule(pair) or pair not in counted.values()]


def common_starts(equality: Equality, runs: Mapping[RunId, Run]) -> list[int]:
    """How many first picks two of them share, for every two and every seed that both have."""
    return [
        starts_alike(runs[one, seed].picks, runs[other, seed].picks)
        for one, other in combinations(equality.names, 2)
        for name, seed in runs
        if name == one and (other, seed) in runs
    ]


def starts_alike(picks: Sequence[int], others: Sequence[int]) -> int:
    differ = (i for i, (one, other) in enumerate(zip(picks, others, strict=True)) if one != other)
    return next(differ, len(picks))


def tabulate_equalities() -> Cells:
    """Each in words, once, and why."""
    reasons = {one.words: one.reason for one in EQUALITIES}
    return [["the same", "because"], *([words, reason] for words, reason in reasons.items())]
