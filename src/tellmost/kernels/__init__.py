"""Prior covariances k(x, z) of the unknown function."""

from tellmost.kernels.composed import Product, Scaled, Sum
from tellmost.kernels.kernel import FeatureKernel, Kernel
from tellmost.kernels.linear import FeatureMap, Linear, Precomputed
from tellmost.kernels.outer import Kronecker, Outer
from tellmost.kernels.stationary import Constant, Gaussian, Laplace, Matern

__all__ = [
    "Constant",
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
