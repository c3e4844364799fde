"""Other methods of safe optimization: ``tm.SafeOptimizer(..., strategy=HeuristicSafeOpt())``.

All share domain, models, bounds, seeds and history with the optimizer, and differ in the choice.
``SafeOpt`` and ``GoOSE`` have a safe set of their own. ``EIC`` is not safe.
"""

from tellmost.safebo.baselines.expanding import (
    GoOSE,
    HeuristicSafeOpt,
    SafeOpt,
    estimate_lipschitz,
    steepest_slope,
)
from tellmost.safebo.baselines.scoring import (
    EIC,
    ISE,
    ISEBO,
    SafeRandom,
    SafeUCB,
    SafeUncertainty,
)

__all__ = [
    "EIC",
    "ISE",
    "ISEBO",
    "GoOSE",
    "HeuristicSafeOpt",
    "SafeOpt",
    "SafeRandom",
    "SafeUCB",
    "SafeUncertainty",
    "estimate_lipschitz",
    "steepest_slope",
]
