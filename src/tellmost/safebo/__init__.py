"""Safe Bayesian optimization: confidence bounds, safe sets, ask and tell."""

from tellmost.safebo.bounds import RKHSBound
from tellmost.safebo.calibration import Calibration
from tellmost.safebo.constraints import Constraint, Lipschitz
from tellmost.safebo.optimizer import SafeOptimizer
from tellmost.safebo.spaces import CoordinateLines, RandomLines, SobolSet
from tellmost.safebo.strategies import Choice, RoundView
from tellmost.safebo.trials import (
    Event,
    Halted,
    History,
    MiscalibratedModel,
    NoSafePoint,
    Query,
    Recommendation,
    Suspect,
    Trial,
)

__all__ = [
    "Calibration",
    "Choice",
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
    "RoundView",
    "SafeOptimizer",
    "SobolSet",
    "Suspect",
    "Trial",
]
