"""These functions tell if selections are any good, and what they will take."""

from tellmost.evaluation.comparing import compare
from tellmost.evaluation.comparison import Comparison
from tellmost.evaluation.estimation import Estimate, estimate
from tellmost.evaluation.health import Health
from tellmost.evaluation.suitability import Suitability, check

__all__ = [
    "Comparison",
    "Estimate",
    "Health",
    "Suitability",
    "check",
    "compare",
    "estimate",
]
