"""The quantities of the paper, as functions of a pool, targets, a kernel and the noise."""

from tellmost.theory.boundaries import (
    IrreducibleVariance,
    MarkovBoundary,
    RoundsToOptimum,
    irreducible_variance,
    markov_boundary,
    markov_boundary_size,
    rounds_to_safe_optimum,
)
from tellmost.theory.capacity import (
    Capacity,
    capacity_bound,
    information_capacity,
)
from tellmost.theory.confidence import confidence_width, realised_information
from tellmost.theory.gains import (
    Interaction,
    SubmodularityRatio,
    information_ratio,
    marginal_gains,
    marginal_gains_along,
    multivariate_information,
    submodularity_ratio,
    task_complexity,
)
from tellmost.theory.setting import uncertainty_reduction

__all__ = [
    "Capacity",
    "Interaction",
    "IrreducibleVariance",
    "MarkovBoundary",
    "RoundsToOptimum",
    "SubmodularityRatio",
    "capacity_bound",
    "confidence_width",
    "information_capacity",
    "information_ratio",
    "irreducible_variance",
    "marginal_gains",
    "marginal_gains_along",
    "markov_boundary",
    "markov_boundary_size",
    "multivariate_information",
    "realised_information",
    "rounds_to_safe_optimum",
    "submodularity_ratio",
    "task_complexity",
    "uncertainty_reduction",
]
