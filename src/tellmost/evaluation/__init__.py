"""Is it any good, and what will it cost: comparing, checking and estimating selections."""

from tellmost.evaluation.comparing import compare
from tellmost.evaluation.comparison import Comparison
from tellmost.evaluation.estimation import Estimate, estimate
from tellmost.evaluation.health import Health, examine
from tellmost.evaluation.suitability import Suitability, check

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
