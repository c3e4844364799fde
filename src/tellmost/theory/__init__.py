"""The quantities of the paper, as functions of a pool, targets, a kernel and the noise."""

from tellmost.theory.boundaries import (
    IrreducibleVariance,
    MarkovBoundary,
    irreducible_variance,
    markov_boundary,
    markov_boundary_size,
)
from tellmost.theory.capacity import (
    Capacity,
    CapacityRate,
    capacity_bound,
    capacity_rate,
    information_capacity,
)
from tellmost.theory.confidence import confidence_width, realised_information
from tellmost.theory.convergence import (
    GainBound,
    StochasticTargetBound,
    VarianceBound,
    error_bound,
    gain_bound,
    stochastic_target_bound,
    variance_bound,
    variance_bound_within,
)
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
    "CapacityRate",
    "GainBound",
    "Interaction",
    "IrreducibleVariance",
    "MarkovBoundary",
    "StochasticTargetBound",
    "SubmodularityRatio",
    "VarianceBound",
    "capacity_bound",
    "capacity_rate",
    "confidence_width",
    "error_bound",
    "gain_bound",
    "information_capacity",
    "information_ratio",
    "irreducible_variance",
    "marginal_gains",
    "marginal_gains_along",
    "markov_boundary",
    "markov_boundary_size",
    "multivariate_information",
    "realised_information",
    "stochastic_target_bound",
    "submodularity_ratio",
    "task_complexity",
    "uncertainty_reduction",
    "variance_bound",
    "variance_bound_within",
]
