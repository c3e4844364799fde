"""Kernels of GPyTorch (extra ``bo``)."""

from copy import deepcopy
from typing import Any

from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.shapes import Float


class GPyTorchKernel:
    """A gpytorch kernel with the methods of a Tellmost kernel.

    Works on a float64 copy: the caller's kernel keeps its dtype and is not changed. Gradients
    flow to the points, never to the hyper-parameters.
    """

    def __init__(self, kernel: Any) -> None:
        if tuple(kernel.batch_shape):
            raise ValueError(
                f"a batch of gpytorch kernels is not one kernel; got batch_shape "
                f"{tuple(kernel.batch_shape)}."
            )
        self._kernel = deepcopy(kernel).double().eval().requires_grad_(False)

    def block(self, x: Points, z: Points) -> Float[Tensor, "_n _m"]:
        return self._kernel.to(x.device)(x, z).to_dense()

    def column(self, x: Points, z: Points) -> Float[Tensor, " _n"]:
        return self.block(x, z.reshape(1, -1))[:, 0]

    def diagonal(self, x: Points) -> Float[Tensor, " _n"]:
        return self._kernel.to(x.device)(x, diag=True)

    def hyperparameters(self) -> dict[str, list[float]]:
        return hyperparameters_of(self._kernel)

    def __repr__(self) -> str:
        return f"GPyTorchKernel({type(self._kernel).__name__})"


def hyperparameters_of(module: Any) -> dict[str, list[float]]:
    """The values of a gpytorch module by their names there, such as base_kernel.lengthscale."""
    found = {}
    for name, raw, constraint in module.named_parameters_and_constraints():
        value = raw if constraint is None else constraint.transform(raw)
        found[name.replace("raw_", "")] = value.detach().double().reshape(-1).tolist()
    return found
