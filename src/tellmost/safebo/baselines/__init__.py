"""What others do: ``tm.SafeOptimizer(..., strategy=HeuristicSafeOpt())``.

All share domain, models, bounds, seeds and history with the optimizer, and differ in the choice;
``SafeOpt`` and ``GoOSE`` have a safe set of their own. ``EIC`` is not safe.
"""

from tellmost.safebo.baselines.eic import EIC
from tellmost.safebo.baselines.goose import GoOSE
from tellmost.safebo.baselines.heuristic_safeopt import HeuristicSafeOpt
from tellmost.safebo.baselines.ise import ISE
from tellmost.safebo.baselines.ise_bo import ISEBO
from tellmost.safebo.baselines.safe_random import SafeRandom
from tellmost.safebo.baselines.safe_ucb import SafeUCB
from tellmost.safebo.baselines.safe_uncertainty import SafeUncertainty
from tellmost.safebo.baselines.safeopt import SafeOpt
from tellmost.safebo.steepness import estimate_lipschitz, steepest_slope

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
