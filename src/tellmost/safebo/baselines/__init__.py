"""What others do: ``tm.SafeOptimizer(..., strategy=HeuristicSafeOpt())``.

All share domain, models, bounds, seeds and history with the optimizer, and differ in the choice;
``SafeOpt`` and ``GoOSE`` have a safe set of their own. ``EIC`` is not safe.
"""

from tellmost.safebo.baselines.expanding import GoOSE, HeuristicSafeOpt, SafeOpt
from tellmost.safebo.baselines.information import EIC, ISE, ISEBO
from tellmost.safebo.baselines.within import SafeRandom, SafeUCB, SafeUncertainty
from tellmost.safebo.slopes import estimate_lipschitz, steepest_slope

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
