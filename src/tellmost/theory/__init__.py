"""The quantities of the paper, as functions of a pool, targets, a kernel and the noise."""

from tellmost.theory.boundaries import MarkovBoundary, markov_boundary, markov_boundary_size
from tellmost.theory.capacity import Capacity, capacity_bound, information_capacity
from tellmost.theory.confidence import confidence_width, realised_information
from tellmost.theory.convergence import (
    GainBound,
    VarianceBound,
    error_bound,
    gain_bound,
    variance_bound,
    variance_bound_within,
)
from tellmost.theory.gains import marginal_gains, marginal_gains_along, task_complexity
from tellmost.theory.interactions import Interaction, information_ratio, multivariate_information
from tellmost.theory.irreducible import IrreducibleVariance, irreducible_variance
from tellmost.theory.rates import CapacityRate, capacity_rate
from tellmost.theory.ratios import SubmodularityRatio, submodularity_ratio
from tellmost.theory.reductions import uncertainty_reduction
from tellmost.theory.stochastic_targets import StochasticTargetBound, stochastic_target_bound

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
