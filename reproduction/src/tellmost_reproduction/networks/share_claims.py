"""The claims about m of M: how many of the targets a round looks at."""

from tellmost_reproduction.networks.claiming import Claim, Finding, better, listed, rising
from tellmost_reproduction.networks.comparing import compare, tenths
from tellmost_reproduction.networks.curves import Curves
from tellmost_reproduction.networks.problems import CIFAR

SHARES = tuple(
    f"{CIFAR}/{place}itl" for place in ("per-round-1/", "", "per-round-50/", "per-round-100/")
)
"""m of 1, 10, 50 and all 100."""

EARLY = slice(10)


def about_shares() -> tuple[Claim, ...]:
    """The paper has both: more is better in general, and fewer can be after many batches."""
    text = "A larger share m/M of the targets generally leads to better performance"
    return (
        rising(f"{text} (over all rounds)", [SHARES]),
        rising(f"{text} (over the first {EARLY.stop} rounds)", [SHARES], rounds=EARLY),
        fewer_can_help(),
    )


def fewer_can_help() -> Claim:
    """It says that a smaller share can be better, so one that is better is enough."""
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
