"""What others do: ``sl.SafeOptimizer(..., strategy=HeuristicSafeOpt())``.

All share domain, models, bounds, seeds and history with the optimizer, and differ in the choice;
``SafeOpt`` and ``GoOSE`` have a safe set of their own. ``EIC`` is not safe.
"""

from sightline.safebo.baselines.eic import EIC
from sightline.safebo.baselines.goose import GoOSE
from sightline.safebo.baselines.heuristic_safeopt import HeuristicSafeOpt
from sightline.safebo.baselines.ise import ISE
from sightline.safebo.baselines.ise_bo import ISEBO
from sightline.safebo.baselines.safe_random import SafeRandom
from sightline.safebo.baselines.safe_ucb import SafeUCB
from sightline.safebo.baselines.safe_uncertainty import SafeUncertainty
from sightline.safebo.baselines.safeopt import SafeOpt
from sightline.safebo.steepness import estimate_lipschitz, steepest_slope

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
