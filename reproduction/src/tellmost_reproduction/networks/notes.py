"""What a reader of a page should know about single curves. Every number is from the runs."""

from collections.abc import Sequence

from tellmost_reproduction.networks.curves import Curves
from tellmost_reproduction.networks.equalities import EQUALITIES, Equality, common_starts

SURE = (
    "A network that was trained on one image is sure of its class everywhere: scores are as good "
    "as zero, largest for images of the digit 1, and those of G-ITL are zero exactly, so that it "
    "takes the first candidates, which are random, and gets on. How sure it is depends on which "
    "of the epochs that tie on validation images is kept (here the last, which is surest), and "
    "some of these rules get on with the first. They are evidence of nothing; see [Getting stuck "
    "on MNIST](../../docs/network-experiments.md#getting-stuck-on-mnist)."
)
ALL_OF_A = (
    "**The line.** *all of A* is bought in 10 rounds of 10 images, each training 5 epochs on what "
    "was bought so far, so that only the last trains on all 100. It was still moving when it "
    "ended, and is weak evidence of what all of A can teach. It is drawn from 100 labels on, with "
    "one standard error."
)
TYPICLUST = (
    "**TypiClust.** The runs are of TypiClust as it was when they were made: small clusters, of "
    "five images or fewer, had a turn before the large ones had a second. Now they wait until the "
    "large ones are empty, and that has not been run. The two are kept apart."
)


def notes_for(curves: Curves) -> list[str]:
    name = curves.experiment.name
    stuck = curves.stuck()
    return [
        *([describe_stuck(curves, stuck)] if stuck else []),
        *(describe_equality(curves, one) for one in EQUALITIES if concerns(curves, one)),
        *([ALL_OF_A] if name == "nn-inside" else []),
        *([TYPICLUST] if name == "nn-baselines" else []),
    ]


def describe_stuck(curves: Curves, names: Sequence[str]) -> str:
    labels = [run.in_task[-1] for name in names for run in curves.of_name(name)]
    bought = "1 label" if max(labels) == 1 else f"{min(labels)} to {max(labels)} labels"
    ends = [100 * run.accuracy[-1] for name in names for run in curves.of_name(name)]
    return (
        f"**Stuck.** {'; '.join(map(curves.label, names))}: each of {len(labels)} runs bought "
        f"{bought} of the task, so that the network answers with one class whatever it sees, and "
        f"ends with {min(ends):.1f} to {max(ends):.1f}% right, about the share of one "
        f"class. {SURE}"
    )


def concerns(curves: Curves, equality: Equality) -> bool:
    """Whether a rule is here under a name that is not its first."""
    return any(curves.of_name(name) for name in equality.names[1:])


def describe_equality(curves: Curves, equality: Equality) -> str:
    """With how far their picks agree, if both are here and nothing is drawn."""
    starts = [] if equality.is_drawn else common_starts(equality, curves.runs)
    agreeing = (
        f" Of two of them the first {min(starts)} to {max(starts)} picks are the same, by seed; "
        f"where they part, it is by rounding."
        if starts
        else ""
    )
    return f"**The same rule.** {equality.words}: {equality.reason}. They count once.{agreeing}"
