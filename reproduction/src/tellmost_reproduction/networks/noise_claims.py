"""The claims about the table of noise."""

from collections.abc import Sequence
from itertools import combinations

from tellmost_reproduction.networks.claiming import (
    ALIKE,
    Claim,
    Fact,
    Finding,
    better,
    describe_wide,
    listed,
    winning,
    within,
)
from tellmost_reproduction.networks.comparing import Comparison, compare_ends
from tellmost_reproduction.networks.curves import Curves
from tellmost_reproduction.networks.problems import CIFAR
from tellmost_reproduction.networks.settings import EMBEDDINGS, RHOS, rho_cell

ROWS = tuple((key, kind) for key in ("itl", "ctl") for kind in ("loss", "last"))
RANDOM = f"{CIFAR}/random"


def cells(key: str, kind: str, *, is_conditional: bool = True) -> tuple[str, ...]:
    """Names along the row; where noise is not seen, one curve stands for all."""
    found = (rho_cell(key, kind, rho, is_conditional).name for rho in RHOS)
    if not is_conditional and key == "ctl":
        return (rho_cell(key, kind, 1.0, False).name,) * len(RHOS)
    return tuple(found)


def row_label(key: str, kind: str, *, is_conditional: bool = True) -> str:
    return f"{EMBEDDINGS[kind][0]}-{key.upper()}{'' if is_conditional else ' (top-b)'}"


def all_within(made: Sequence[Comparison]) -> Fact:
    """None outside the two points, and all of them surely inside."""
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
    """Theirs fall below Random with loss gradients and rho of 0.01 and less."""
    watched = [name for key in ("itl", "ctl") for name in cells(key, "loss")[:2]]

    def find(curves: Curves) -> Finding:
        made = [compare_ends(curves, name, RANDOM) for name in watched]
        every = [compare_ends(curves, name, RANDOM) for name in distinct_cells()]
        worse = [one for one in every if one.loses]
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
