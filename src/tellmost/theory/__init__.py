"""The quantities of the paper, as functions of a pool, targets, a kernel and the noise."""

from tellmost.theory.boundaries import IrreducibleVariance as IrreducibleVariance
from tellmost.theory.boundaries import MarkovBoundary as MarkovBoundary
from tellmost.theory.boundaries import irreducible_variance as irreducible_variance
from tellmost.theory.boundaries import markov_boundary as markov_boundary
from tellmost.theory.boundaries import markov_boundary_size as markov_boundary_size
from tellmost.theory.boundaries import rounds_to_safe_optimum as rounds_to_safe_optimum
from tellmost.theory.capacity import Capacity as Capacity
from tellmost.theory.capacity import capacity_bound as capacity_bound
from tellmost.theory.capacity import information_capacity as information_capacity
from tellmost.theory.confidence import confidence_width as confidence_width
from tellmost.theory.confidence import realised_information as realised_information
from tellmost.theory.gains import Interaction as Interaction
from tellmost.theory.gains import SubmodularityRatio as SubmodularityRatio
from tellmost.theory.gains import information_ratio as information_ratio
from tellmost.theory.gains import marginal_gains as marginal_gains
from tellmost.theory.gains import marginal_gains_along as marginal_gains_along
from tellmost.theory.gains import multivariate_information as multivariate_information
from tellmost.theory.gains import submodularity_ratio as submodularity_ratio
from tellmost.theory.gains import task_complexity as task_complexity
from tellmost.theory.setting import uncertainty_reduction as uncertainty_reduction
