"""Kernels from the way they are printed, such as ``Matern(nu=2.5, lengthscale=1.0)``."""

from tellmost.kernels.algebra import Product, Scaled, Sum
from tellmost.kernels.kernel import Kernel
from tellmost.kernels.linear import Linear
from tellmost.kernels.stationary import Gaussian, Laplace, Matern
from tellmost.reading import read_object

WRITTEN = {
    kind.__name__: kind for kind in (Linear, Gaussian, Laplace, Matern, Scaled, Sum, Product)
}
KNOWN = (
    "Linear(), Gaussian(lengthscale=1.0), Laplace(lengthscale=1.0), Matern(nu=2.5, "
    "lengthscale=1.0), or a Sum, Product or Scaled of such"
)


def is_written(kernel: Kernel) -> bool:
    """Whether what it prints says all of it."""
    try:
        return repr(read_kernel(repr(kernel))) == repr(kernel)
    except ValueError:
        return False


def read_kernel(text: str) -> Kernel:
    """The kernel that prints as ``text``, made of numbers and other kernels alone.

    Nothing is evaluated. Kernels that hold a matrix or a function cannot be written down.
    """
    try:
        made = read_object(text, WRITTEN)
    except TypeError as error:
        raise ValueError(f"kernel must be one of {KNOWN}; got {text!r}.") from error
    if not isinstance(made, Kernel):
        raise ValueError(f"kernel must be one of {KNOWN}; got {text!r}.")
    return made
