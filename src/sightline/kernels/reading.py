"""Kernels from the way they are printed, such as ``Matern(nu=2.5, lengthscale=1.0)``."""

import ast
from typing import Any

from sightline.kernels.algebra import Product, Scaled, Sum
from sightline.kernels.kernel import Kernel
from sightline.kernels.linear import Linear
from sightline.kernels.stationary import Gaussian, Laplace, Matern

WRITTEN = {
    kind.__name__: kind for kind in (Linear, Gaussian, Laplace, Matern, Scaled, Sum, Product)
}


def read_kernel(text: str) -> Kernel:
    """The kernel that prints as ``text``, made of numbers and other kernels alone.

    Nothing is evaluated. Kernels that hold a matrix or a function cannot be written down.
    """
    try:
        made = _make(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(f"kernel must be one of {KNOWN}; got {text!r}.") from error
    if not isinstance(made, Kernel):
        raise ValueError(f"kernel must be one of {KNOWN}; got {text!r}.")
    return made


KNOWN = (
    "Linear(), Gaussian(lengthscale=1.0), Laplace(lengthscale=1.0), Matern(nu=2.5, "
    "lengthscale=1.0), or a Sum, Product or Scaled of such"
)


def _make(node: ast.expr) -> Any:
    if not isinstance(node, ast.Call):
        return _read_number(node)
    if not isinstance(node.func, ast.Name) or node.func.id not in WRITTEN:
        raise TypeError(ast.unparse(node))
    named = {word.arg: _make(word.value) for word in node.keywords if word.arg is not None}
    if len(named) != len(node.keywords):
        raise TypeError(ast.unparse(node))
    return WRITTEN[node.func.id](*map(_make, node.args), **named)


def _read_number(node: ast.expr) -> Any:
    """A number, or a list of them; a ValueError is left to kernels, which explain themselves."""
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise TypeError(ast.unparse(node)) from error
