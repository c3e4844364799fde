"""What was found beyond the paper: the whole pool, earlier rounds, and the noise ratio."""

from tellmost_reproduction.networks.claiming import in_points, listed
from tellmost_reproduction.networks.comparing import compare, compare_ends
from tellmost_reproduction.networks.curves import Curves
from tellmost_reproduction.networks.problems import CIFAR
from tellmost_reproduction.networks.settings import RATIOS

QUESTIONS = (
    (
        "Choosing from the whole pool instead of 1,000 candidates",
        "whole",
        ("itl", "vtl", "cosine"),
    ),
    ("Conditioning on what earlier rounds trained on", "across", ("itl", "vtl")),
    ("The default noise of tm.select, noise ratio 1, instead of rho 1", "ratio-1", ("itl", "vtl")),
)


def findings_beyond(curves: Curves) -> list[str]:
    """A sentence for each question that there are runs of; no claim of the paper is judged."""
    said = []
    for question, place, keys in QUESTIONS:
        names = [(f"{CIFAR}/{place}/{key}", f"{CIFAR}/{key}") for key in keys]
        pairs = [pair for pair in names if curves.has(*pair)]
        made = [compare(curves, *pair) for pair in pairs]
        ends = [compare_ends(curves, *pair) for pair in pairs]
        shares = [compare_ends(curves, *pair, "share") for pair in pairs]
        if pairs:
            said.append(
                f"**{question}.** Over all rounds {listed(made)}. At the end {listed(ends)}. "
                f"Share of picks at the end, in per cent: {listed(shares)}."
            )
    ratios = [
        name
        for key in ("itl", "vtl")
        for name in (f"{CIFAR}/{key}", *(f"{CIFAR}/ratio-{r:g}/{key}" for r in RATIOS))
        if curves.has(name)
    ]
    if ratios:
        numbers = ", ".join(in_points(curves, name) for name in ratios)
        said.append(f"**The noise ratio as the axis.** Accuracy at the end: {numbers}.")
    return said
