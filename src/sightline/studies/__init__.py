"""Questions asked about a pool, a selection or a method, answered with values that can be read."""

from sightline.studies.compare import compare
from sightline.studies.comparison import Comparison
from sightline.studies.estimate import Estimate, estimate
from sightline.studies.health import Health, examine
from sightline.studies.suitability import Suitability, check

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
