"""Prior covariances k(x, z) of the unknown function."""

from sightline.kernels.algebra import Product, Scaled, Sum
from sightline.kernels.kernel import FeatureKernel, Kernel
from sightline.kernels.linear import FeatureMap, Linear
from sightline.kernels.outer import Kronecker, Outer
from sightline.kernels.precomputed import Precomputed
from sightline.kernels.stationary import Gaussian, Laplace, Matern

__all__ = [
    "FeatureKernel",
    "FeatureMap",
    "Gaussian",
    "Kernel",
    "Kronecker",
    "Laplace",
    "Linear",
    "Matern",
    "Outer",
    "Precomputed",
    "Product",
    "Scaled",
    "Sum",
]
