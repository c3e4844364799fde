"""These functions tell if selections are any good, and what they will take."""

from tellmost.evaluation.comparing import compare as compare
from tellmost.evaluation.comparison import Comparison as Comparison
from tellmost.evaluation.estimation import Estimate as Estimate
from tellmost.evaluation.estimation import estimate as estimate
from tellmost.evaluation.health import Health as Health
from tellmost.evaluation.suitability import Suitability as Suitability
from tellmost.evaluation.suitability import check as check
