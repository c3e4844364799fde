"""Is it any good, and what will it cost: comparing, checking and estimating selections."""

from tellmost.evaluation.check import Suitability, check
from tellmost.evaluation.compare import compare
from tellmost.evaluation.comparison import Comparison
from tellmost.evaluation.estimate import Estimate, estimate
from tellmost.evaluation.health import Health, examine

__all__ = [
    "Comparison",
    "Estimate",
    "Health",
    "Suitability",
    "check",
    "compare",
    "estimate",
    "examine",
]
