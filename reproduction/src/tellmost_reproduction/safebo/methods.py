"""The methods that are compared. They differ in the choice alone."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from tellmost.safebo.baselines import (
    EIC,
    ISE,
    ISEBO,
    GoOSE,
    HeuristicSafeOpt,
    SafeOpt,
    SafeRandom,
    SafeUCB,
    SafeUncertainty,
    find_expanders_by_slope,
    grow,
)
from tellmost.safebo.round_state import RoundState, Track
from tellmost.safebo.strategies import Choice, QueryStrategy, RoundView
from tellmost.targets import PotentialExpanders, PotentialMaximizers, ThompsonMaximizers

Constants = Literal["true", "oracle", "estimated"]
"""Which Lipschitz constants: correct ones, those that the paper calls oracle, or its estimates."""


@dataclass(frozen=True)
class ExpandersAlone:
    """SafeOpt that picks among expanders alone, as where the paper jumps past barriers.

    It takes the widest of them, or of all that may be asked for if there are none.
    """

    keeps_safe: ClassVar[bool] = True

    def track(self, state: RoundState, before: Track | None) -> Track:
        return grow(state, before)

    def choose(self, view: RoundView) -> Choice:
        return Choice(view.best(view.widths, find_expanders_by_slope(view)), "expand")


THOMPSON = ThompsonMaximizers(K=10)
POTENTIAL_MAXIMIZERS = PotentialMaximizers()


@dataclass(frozen=True)
class Method:
    """A rule with its targets, or a strategy in their place."""

    key: str
    label: str
    rule: str = "vtl"
    targets: Any = POTENTIAL_MAXIMIZERS
    strategy: QueryStrategy | None = None
    lipschitz: Constants | None = None  # None: it needs none
    is_extra: bool = False  # the paper does not have it


METHODS = (
    Method("itl", "ITL", rule="itl"),
    Method("vtl", "VTL", rule="vtl"),
    Method("itl-thompson", "ITL, Thompson", rule="itl", targets=THOMPSON),
    Method("safeopt", "SafeOpt, true L", strategy=SafeOpt(), lipschitz="true", is_extra=True),
    Method("safeopt-oracle", "SafeOpt, oracle L", strategy=SafeOpt(), lipschitz="oracle"),
    Method("safeopt-estimated", "SafeOpt, est. L", strategy=SafeOpt(), lipschitz="estimated"),
    Method("heuristic-safeopt", "Heuristic SafeOpt", strategy=HeuristicSafeOpt()),
    Method("goose", "GoOSE, true L", strategy=GoOSE(), lipschitz="true", is_extra=True),
    Method("goose-oracle", "GoOSE, oracle L", strategy=GoOSE(), lipschitz="oracle"),
    Method("goose-estimated", "GoOSE, est. L", strategy=GoOSE(), lipschitz="estimated"),
    Method("ise", "ISE", strategy=ISE()),
    Method("ise-bo-draws", "ISE-BO", strategy=ISEBO(fstar="safe draws")),
    Method("ise-bo", "ISE-BO, f* in S_n", strategy=ISEBO(), is_extra=True),
    Method("eic", "EIC (unsafe)", strategy=EIC()),
    Method("ucb", "UCB inside", strategy=SafeUCB(), is_extra=True),
    Method("uncertainty", "UnSa inside", strategy=SafeUncertainty(), is_extra=True),
    Method("random", "random safe", strategy=SafeRandom(), is_extra=True),
)
"""The methods that most experiments compare, ours first."""

EXPANDING = (
    Method("itl-expanders", "ITL, expanders", rule="itl", targets=PotentialExpanders()),
    Method("vtl-expanders", "VTL, expanders", rule="vtl", targets=PotentialExpanders()),
    Method("safeopt-expanders", "SafeOpt, expanders", strategy=ExpandersAlone(), lipschitz="true"),
)
"""Methods that learn about what may be safe, whatever its objective."""

BY_KEY = {method.key: method for method in (*METHODS, *EXPANDING)}
