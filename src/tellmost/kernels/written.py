"""Kernels in writing: described in words, written down with all digits, and read back.

``Matern(nu=2.5, lengthscale=1.0)`` is read as it is printed: calls of known names with plain
values, which are never evaluated.
"""

import ast
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import torch

from tellmost.kernels.composed import Product, Scaled, Sum
from tellmost.kernels.kernel import Kernel
from tellmost.kernels.linear import Linear
from tellmost.kernels.stationary import Constant, Gaussian, Laplace, Lengthscale, Matern

PRINTED_VALUES = 8
"""Up to so many values of a hyper-parameter are printed; of more, such as a network's weights,
it is their number."""


@runtime_checkable
class HasHyperparameters(Protocol):
    """A kernel from elsewhere that can say what its hyper-parameters are."""

    def hyperparameters(self) -> dict[str, list[float]]:
        """Values by name."""


def describe(kernel: Kernel) -> str:
    """The kernel in words, such as "Matern-5/2 with lengthscale 0.3 times 2.1"; four digits."""
    if isinstance(kernel, Gaussian | Laplace):
        return f"{type(kernel).__name__} {describe_lengthscale(kernel.lengthscale)}"
    if isinstance(kernel, Matern):
        return f"Matern-{round(2 * kernel.nu)}/2 {describe_lengthscale(kernel.lengthscale)}"
    if isinstance(kernel, Scaled):
        return f"{_enclosed(kernel.kernel)} times {kernel.factor:.4g}"
    if isinstance(kernel, Sum):
        return f"{describe(kernel.first)} + {describe(kernel.second)}"
    if isinstance(kernel, Product):
        return f"{_enclosed(kernel.first)} x {_enclosed(kernel.second)}"
    if isinstance(kernel, Constant):
        return "a constant"
    if isinstance(kernel, Linear) and kernel.covariance is None:
        return "linear"
    if not isinstance(kernel, HasHyperparameters):
        return repr(kernel)
    values = (_shorten(name, held) for name, held in kernel.hyperparameters().items())
    return f"{kernel!r} with {'; '.join(values) or 'no hyper-parameters'}"


def write(kernel: Kernel) -> str:
    """The kernel as it is printed, and the hyper-parameters that it holds but does not print."""
    if not isinstance(kernel, HasHyperparameters):
        return repr(kernel)
    values = (
        f"{name} {', '.join(map(repr, held))}" for name, held in kernel.hyperparameters().items()
    )
    return f"{kernel!r} with {'; '.join(values) or 'no hyper-parameters'}"


def describe_lengthscale(lengthscale: Lengthscale) -> str:
    values = torch.as_tensor(lengthscale, dtype=torch.float64)
    if values.ndim == 0:
        return f"with lengthscale {float(values):.4g}"
    return f"with lengthscales {', '.join(f'{value:.4g}' for value in values.tolist())}"


def _shorten(name: str, values: list[float]) -> str:
    if len(values) > PRINTED_VALUES:
        return f"{name} of {len(values)} values"
    return f"{name} {', '.join(f'{value:.4g}' for value in values)}"


def _enclosed(kernel: Kernel) -> str:
    text = describe(kernel)
    return f"({text})" if isinstance(kernel, Sum | Product) else text


WRITTEN = {
    kind.__name__: kind
    for kind in (Linear, Constant, Gaussian, Laplace, Matern, Scaled, Sum, Product)
}
KNOWN = (
    "Linear(), Constant(), Gaussian(lengthscale=1.0), Laplace(lengthscale=1.0), Matern(nu=2.5, "
    "lengthscale=1.0), or a Sum, Product or Scaled of such"
)


def is_written(kernel: Kernel) -> bool:
    """Say whether the kernel prints all that it is made of."""
    try:
        return repr(read_kernel(repr(kernel))) == repr(kernel)
    except ValueError:
        return False


def read_kernel(text: str) -> Kernel:
    """The kernel that prints as ``text``, of numbers and other kernels. Nothing is evaluated."""
    found = f"kernel must be one of {KNOWN}; got {text!r}."
    made: Kernel = read_object(text, WRITTEN, Kernel, found)
    return made


Kinds = Mapping[str, Callable[..., Any]]


def read_object(text: str, kinds: Kinds, wanted: Any, otherwise: str) -> Any:
    """The object that prints as ``text``, of what is wanted; ``otherwise`` is the error."""
    try:
        made = _make(ast.parse(text.strip(), mode="eval").body, kinds)
    except (TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(otherwise) from error
    if not isinstance(made, wanted):
        raise ValueError(otherwise)
    return made


def _make(node: ast.expr, kinds: Kinds) -> Any:
    """A number, a word, or a list of these; or what a call of a known name makes of such."""
    if not isinstance(node, ast.Call):
        try:
            return ast.literal_eval(node)
        except ValueError as error:
            raise TypeError(ast.unparse(node)) from error
    if not isinstance(node.func, ast.Name) or node.func.id not in kinds:
        raise TypeError(ast.unparse(node))
    named = {word.arg: _make(word.value, kinds) for word in node.keywords if word.arg is not None}
    if len(named) != len(node.keywords):
        raise TypeError(ast.unparse(node))
    return kinds[node.func.id](*(_make(value, kinds) for value in node.args), **named)
