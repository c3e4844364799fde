"""Safe Bayesian optimization: confidence bounds, safe sets, ask and tell."""

from sightline.safebo.calibration import Calibration
from sightline.safebo.confidence import RKHSBound
from sightline.safebo.constraints import Constraint, Lipschitz
from sightline.safebo.failing import Halted, MiscalibratedModel, NoSafePoint
from sightline.safebo.optimizer import SafeOptimizer
from sightline.safebo.query import Query, Recommendation
from sightline.safebo.searches import CoordinateLines, RandomLines, SobolSet
from sightline.safebo.trials import Event, History, Trial

__all__ = [
    "Calibration",
    "Constraint",
    "CoordinateLines",
    "Event",
    "Halted",
    "History",
    "Lipschitz",
    "MiscalibratedModel",
    "NoSafePoint",
    "Query",
    "RKHSBound",
    "RandomLines",
    "Recommendation",
    "SafeOptimizer",
    "SobolSet",
    "Trial",
]
