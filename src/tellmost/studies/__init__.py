"""Questions asked about a pool, a selection or a method, answered with values that can be read."""

from tellmost.studies.compare import compare
from tellmost.studies.comparison import Comparison
from tellmost.studies.estimate import Estimate, estimate
from tellmost.studies.health import Health, examine
from tellmost.studies.suitability import Suitability, check

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
