"""What a claim is: a sentence, the curves that it speaks of, and what they say about it.

``RULE`` says when a claim holds, and all claims follow it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tellmost_reproduction.frame.comparing import PairedComparison
from tellmost_reproduction.frame.verdicts import Fact, Verdict, conclude
from tellmost_reproduction.networks.curves import (
    ALL_ROUNDS,
    AT_THE_END,
    Curves,
    Pair,
    compare,
    is_same_rule,
    repeats,
)
from tellmost_reproduction.networks.problems import CIFAR, CIFAR_HEAD, MNIST, MNIST_FLOAT32

DIRECTED = ("itl", "vtl", "ctl")
TITLES = {CIFAR: "CIFAR-100", MNIST: "MNIST"}
TRAININGS = {
    CIFAR_HEAD: "final layer alone",
    CIFAR: "last block and head",
    MNIST_FLOAT32: "100 epochs, baselines in float32",
    MNIST: "20 epochs, float64",
}
ALIKE = 0.02
"""Accuracies that differ by less are called alike. The paper's standard errors are 0.2 to 0.8
points, so this is a few of them."""

RULE = (
    "*holds*: all that the claim says is so; *holds in part*: some of it, and the rest is not so "
    "or cannot be told; *does not hold*: none of what can be told; *cannot be judged*: nothing "
    "can be told. A method *beats* another, or is better or worse, if its accuracy differs beyond "
    "chance at 95%, by the differences of the seeds that both have, averaged over all rounds "
    "unless the claim names others; a difference within chance tells nothing. Accuracies are "
    "*within 2 points* if the 95% interval of their difference lies there, they are not if it "
    "lies outside, and else it cannot be told. A curve is *stuck* if no seed bought as many "
    "labels of the task as it has classes; it is compared with nothing. Rules that come to the "
    "same choice count once. Accuracies are in per cent, with one standard error."
)

Finding = tuple[Sequence[Fact], str]
"""The facts that make the verdict, and the numbers."""


@dataclass(frozen=True)
class Claim:
    """A claim is judged if every curve that it needs has two seeds or more."""

    text: str
    needs: tuple[str, ...]
    find: Callable[[Curves], Finding]

    def judge(self, curves: Curves) -> Verdict:
        facts, said = self.find(curves)
        seeds = min(len(curves.of_name(name)) for name in self.needs)
        trained = curves.trained[self.needs[0].split("/")[0]]
        return Verdict(self.text, conclude(facts), said, TRAININGS[trained], seeds)


def pairs(dataset: str, ones: Sequence[str], others: Sequence[str]) -> tuple[Pair, ...]:
    return tuple((f"{dataset}/{one}", f"{dataset}/{other}") for one in ones for other in others)


def named_in(names: Sequence[Pair]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for pair in names for name in pair))


def winning(
    text: str,
    names: Sequence[Pair],
    *,
    where_run: Sequence[Pair] = (),
    with_ends: bool = False,
) -> Claim:
    """Claim that the first of each pair beats the second.

    Pairs of ``where_run`` count if there are runs of them. ``with_ends`` also tells how the pairs
    compare at the end, which is not judged.
    """

    def find(curves: Curves) -> Finding:
        there = [pair for pair in where_run if curves.has(*pair)]
        made, others = comparable(curves, [*names, *there])
        lost = [one for one in made if not one.is_better]
        won = [one for one in made if one.is_better]
        parts = [f"{len(won)} of {len(made)} are won"]
        parts += [f"not: {listed(lost)}"] if lost else []
        parts += [f"won: {listed(won)}"] if won else []
        parts += others
        if with_ends:
            ends, _ = comparable(curves, [*names, *there], AT_THE_END)
            parts.append(f"at the end, not judged: {listed(ends)}")
        return [better(one) for one in made], "; ".join(parts)

    return Claim(text, named_in(names), find)


def comparable(
    curves: Curves, names: Sequence[Pair], rounds: slice = ALL_ROUNDS
) -> tuple[list[PairedComparison], list[str]]:
    """Compare the pairs that are evidence, and say why the others are not."""
    stuck = [pair for pair in names if any(map(curves.is_stuck, pair))]
    others = [pair for pair in names if pair not in stuck]
    again = repeats(others)
    themselves = [pair for pair in again if is_same_rule(pair)]
    made = [compare(curves, *pair, rounds=rounds) for pair in others if pair not in again]
    said = [
        ("not counted, as both are the same rule here", themselves),
        (
            "not counted again, as the same rule is counted",
            [pair for pair in again if pair not in themselves],
        ),
        ("cannot be judged, as one is stuck", stuck),
    ]
    return made, [f"{words}: {facing(curves, some)}" for words, some in said if some]


def facing(curves: Curves, names: Sequence[Pair]) -> str:
    return "; ".join(f"{curves.label(one)} against {curves.label(other)}" for one, other in names)


def rising(text: str, names: Sequence[Sequence[str]], *, rounds: slice = ALL_ROUNDS) -> Claim:
    """Claim that each of a row beats the one before."""
    steps = [pair for row in names for pair in zip(row[1:], row[:-1], strict=True)]

    def find(curves: Curves) -> Finding:
        made, stuck = comparable(curves, steps, rounds)
        up = sum(one.difference.value > 0 for one in made)
        clear = sum(one.is_better for one in made)
        said = f"{up} of {len(made)} steps are up, {clear} beyond chance: {listed(made)}"
        return [better(one) for one in made], "; ".join([said, *stuck])

    return Claim(text, named_in(steps), find)


def alike(text: str, names: Sequence[Pair]) -> Claim:
    def find(curves: Curves) -> Finding:
        made, stuck = comparable(curves, names)
        return [within(one) for one in made], "; ".join([*map(describe_wide, made), *stuck])

    return Claim(f"{text} (within {100 * ALIKE:.0f} points)", named_in(names), find)


def better(one: PairedComparison) -> Fact:
    """True if the first beats the second, or is beaten."""
    return one.is_better if one.sign else None


def worse(one: PairedComparison) -> Fact:
    return one.is_worse if one.sign else None


def within(one: PairedComparison) -> Fact:
    """True if the interval of the difference lies within two points of zero, or beyond them."""
    low, high = one.interval
    if low >= -ALIKE and high <= ALIKE:
        return True
    return False if low > ALIKE or high < -ALIKE else None


def describe(one: PairedComparison) -> str:
    mean, rival = one.means
    difference, error = one.difference.value, one.difference.error or 0.0
    return (
        f"{one.one} {100 * mean:.1f} against {one.other} {100 * rival:.1f} "
        f"({100 * difference:+.1f} ± {100 * error:.1f})"
    )


def describe_wide(one: PairedComparison) -> str:
    """The same with the interval, and what it tells."""
    words = {True: "within", False: "outside", None: "not told"}
    low, high = one.interval
    return f"{describe(one)}, 95% {100 * low:+.1f} to {100 * high:+.1f}: {words[within(one)]}"


def listed(comparisons: Sequence[PairedComparison]) -> str:
    return "; ".join(describe(one) for one in comparisons)


def in_points(curves: Curves, name: str, labels: int | None = None) -> str:
    """Accuracy with its standard error, at the end if no number of labels is given."""
    mean = (
        curves.last("accuracy", name)
        if labels is None
        else curves.mean_at("accuracy", name, labels)
    )
    return f"{curves.label(name)} {100 * mean.value:.1f} ± {100 * (mean.error or 0.0):.1f}"
