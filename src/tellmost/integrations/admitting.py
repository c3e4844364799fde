"""Which models are a prior and data; others are refused, with the way out."""

from typing import Any

import torch
from botorch.models.gpytorch import MultiTaskGPyTorchModel
from botorch.utils.transforms import is_ensemble
from gpytorch.kernels import GridInterpolationKernel
from gpytorch.models import ExactGP
from torch import Tensor

from tellmost.numerics import TRANSLATED
from tellmost.shapes import Float


def check_model(model: Any) -> None:
    """One output, exact inference, one set of hyper-parameters."""
    name = type(model).__name__
    if hasattr(model, "models"):
        raise ValueError(
            f"GP.of takes a model of one output; got {name}, a list of models. Pass one of "
            f"model.models."
        )
    check_inference(model, name)
    if model.train_inputs is None or model.train_targets is None:
        raise ValueError(
            f"GP.of takes a model with training data; {name} has none. Its kernel alone is a "
            f"prior: tm.GP(model.covar_module, noise_std=...)."
        )
    check_outputs(model, name)


def check_inference(model: Any, name: str) -> None:
    if not isinstance(model, ExactGP):
        raise TypeError(
            f"GP.of takes a model with exact inference, a gpytorch ExactGP or a botorch "
            f"SingleTaskGP; got {name}. An approximate posterior is not that of a prior and data."
        )
    if any(isinstance(part, GridInterpolationKernel) for part in model.modules()):
        raise ValueError(
            f"GP.of takes a model with exact inference; {name} interpolates its predictions from "
            f"a grid. Pass a model with the kernel inside GridInterpolationKernel."
        )
    if is_ensemble(model):
        raise ValueError(
            f"GP.of takes a model of one set of hyper-parameters; {name} averages over many. Fit "
            f"a SingleTaskGP, or write down the prior that you choose from them."
        )


def check_outputs(model: Any, name: str) -> None:
    if isinstance(model, MultiTaskGPyTorchModel):
        raise ValueError(
            f"GP.of takes a model of one output; {name} is about several tasks. Fit a "
            f"SingleTaskGP to the task that you want to learn about."
        )
    if len(model.train_inputs) != 1:
        raise ValueError(
            f"GP.of takes a model of one input tensor; {name} has {len(model.train_inputs)}."
        )
    if model.train_inputs[0].ndim != 2 or model.train_targets.ndim != 1:
        raise ValueError(
            f"GP.of takes a model of one output and one set of hyper-parameters; {name} has "
            f"training inputs {tuple(model.train_inputs[0].shape)} and targets "
            f"{tuple(model.train_targets.shape)}. Fit a model for each output."
        )


def check_values(y: Float[Tensor, " t"]) -> None:
    bad = (~torch.isfinite(y)).nonzero()[:, 0]
    if len(bad):
        raise ValueError(
            f"GP.of takes a model whose training data are finite; value {int(bad[0])} is "
            f"{float(y[bad[0]]):g}. Fit the model to what was observed."
        )


def check_inputs(model: Any, points: Float[Tensor, "t d"]) -> None:
    """Training points and others must be transformed alike, or no kernel can tell them apart."""
    seen = transformed(model, points)
    same = seen.shape == model.train_inputs[0].shape and torch.allclose(
        seen, model.train_inputs[0], rtol=TRANSLATED
    )
    if not same:
        raise ValueError(
            f"GP.of needs inputs that are transformed alike in training and in prediction, one "
            f"point to one; {type(model.input_transform).__name__} is not. Transform X before you "
            f"fit the model."
        )


def transformed(model: Any, x: Tensor) -> Tensor:
    """What the model's kernel and mean see of x."""
    return model.transform_inputs(x) if hasattr(model, "transform_inputs") else x
