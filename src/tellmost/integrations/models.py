"""Fitted models of gpytorch and botorch as priors (extra ``bo``).

A botorch model sees inputs and outputs through transforms: its kernel is about T(x), and
y = center + scale * (output of the model). Here everything is in the unit of the raw x and y.
Only models that are a prior and data are read. Others are refused, with the way out.
"""

from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from botorch.models.gpytorch import MultiTaskGPyTorchModel
from botorch.models.transforms.input import AffineInputTransform
from botorch.models.transforms.outcome import Standardize
from botorch.utils.transforms import is_ensemble
from gpytorch.kernels import GridInterpolationKernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from gpytorch.means import ConstantMean, ZeroMean
from gpytorch.models import ExactGP
from torch import Tensor

from tellmost.integrations.gpytorch import from_gpytorch, hyperparameters_of
from tellmost.kernels import Kernel, Scaled
from tellmost.kernels.kernel import Points
from tellmost.numerics import PROBES
from tellmost.posterior.gp import GP, Data, Mean
from tellmost.shapes import Float

TRANSLATED = 1e-6
"""A Tellmost kernel stands for the model's if they differ by at most this share of the largest
variance: gpytorch takes distances from inner products, which leaves seven digits of some."""


@dataclass(frozen=True, eq=False)
class ModelKernel(Kernel):
    """The kernel of a model, with its mean and data, in the unit of the raw x and y."""

    model: ExactGP  # a float64 copy, in evaluation mode
    center: float
    scale: float
    data: Data

    @classmethod
    def of(cls, model: Any) -> "ModelKernel":
        check_model(model)
        bare = copy(model)
        bare.prediction_strategy = None  # what is cached has gradients that cannot be copied
        ours = deepcopy(bare).requires_grad_(False)
        center, scale = read_outcome(ours)
        ours.train().to(ours.train_targets.device, torch.float64)  # raw inputs may lie elsewhere
        points, y = ours.train_inputs[0], ours.train_targets
        noise = read_noise(ours.likelihood, len(y)) * scale**2
        bad = (~torch.isfinite(y)).nonzero()[:, 0]
        if len(bad):
            raise ValueError(
                f"GP.of takes a model whose training data are finite; value {int(bad[0])} is "
                f"{float(y[bad[0]]):g}. Fit the model to what was observed."
            )
        ours.eval()
        check_inputs(ours, points)
        return cls(ours, center, scale, Data(points, center + scale * y, noise))

    def block(self, x: Points, z: Points) -> Float[Tensor, "_n _m"]:
        n = len(x)
        covariance = self._prior(torch.cat([x, z])).lazy_covariance_matrix
        return covariance[:n, n:].to_dense() * self.scale**2  # only this block is evaluated

    def joint(self, x: Float[Tensor, "*b q d"]) -> Float[Tensor, "*b q q"]:
        """The covariances among the points of each batch."""
        return self._prior(x).lazy_covariance_matrix.to_dense() * self.scale**2

    def diagonal(self, x: Points) -> Float[Tensor, " _n"]:
        covariance = self._prior(x).lazy_covariance_matrix
        return covariance.diagonal(dim1=-2, dim2=-1) * self.scale**2

    def mean(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        return self.center + self.scale * self._prior(x).mean.detach()

    def _prior(self, x: Tensor) -> Any:
        """The model's prior, whose ``forward`` takes transformed points in evaluation mode."""
        return self.model.to(x.device).forward(transformed(self.model, x))

    @property
    def noise_std(self) -> float | None:
        """The noise of every observation, or None where they differ."""
        noise = self.data.noise_variance
        return float(noise[0]) ** 0.5 if torch.allclose(noise, noise[:1], atol=0.0) else None

    def hyperparameters(self) -> dict[str, list[float]]:
        """The hyper-parameters of the kernel alone, in the unit of the model's inputs."""
        found = hyperparameters_of(self.model)
        elsewhere = ("likelihood.", "mean_module.")
        return {name: found[name] for name in found if not name.startswith(elsewhere)}

    def __repr__(self) -> str:
        return f"ModelKernel({type(self.model).__name__})"


@dataclass(frozen=True, eq=False)
class ModelMean:
    """The mean of a model, where it is not a constant."""

    prior: ModelKernel

    def __call__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        return self.prior.mean(x)

    @property
    def __name__(self) -> str:
        model = self.prior.model
        return type(getattr(model, "mean_module", model)).__name__


def read_model(model: Any, *, noise_std: float | None) -> GP:
    """The prior and the data of a fitted model, as ``GP.of`` describes them."""
    prior = ModelKernel.of(model)
    noise_std = prior.noise_std if noise_std is None else noise_std
    if noise_std is None:
        noise = prior.data.noise_variance.sqrt()
        raise ValueError(
            f"noise_std must be given for this model: its training data have noise of standard "
            f"deviations from {float(noise.min()):.3g} to {float(noise.max()):.3g}, so that of "
            f"further observations cannot be guessed."
        )
    mean: Mean = ModelMean(prior)
    if type(getattr(prior.model, "mean_module", None)) in (ConstantMean, ZeroMean):
        values = prior.mean(prior.data.points)
        mean = float(values[0]) if bool((values == values[0]).all()) else mean
    return GP(translated(prior) or prior, mean=mean, noise_std=noise_std, data=prior.data)


def read_outcome(model: Any) -> tuple[float, float]:
    """Center and scale of y = center + scale * (output of the model)."""
    outcome = getattr(model, "outcome_transform", None)
    if outcome is None:
        return 0.0, 1.0
    if type(outcome) is not Standardize:
        raise ValueError(
            f"GP.of needs a model whose outputs are as they came, or standardised: under "
            f"{type(outcome).__name__} they may not be Gaussian in the unit of y. Transform y "
            f"before you fit the model, and read predictions in that unit."
        )
    return float(outcome.means), float(outcome.stdvs)


def read_noise(likelihood: Any, count: int) -> Float[Tensor, " t"]:
    """Noise variances of the training data, in the unit of the model's outputs."""
    if type(likelihood) in (GaussianLikelihood, FixedNoiseGaussianLikelihood):
        return likelihood.noise.detach().double().reshape(-1).expand(count).clone()
    raise ValueError(
        f"GP.of needs a GaussianLikelihood or a FixedNoiseGaussianLikelihood, whose noise is "
        f"known at every point; got {type(likelihood).__name__}."
    )


def translated(prior: ModelKernel) -> Kernel | None:
    """The Tellmost kernel that is the same as the model's, or None if there is none."""
    theirs = getattr(prior.model, "covar_module", None)
    stretch = stretch_of(prior)
    if theirs is None or (stretch is None and getattr(prior.model, "input_transform", None)):
        return None
    kernel = from_gpytorch(theirs, stretch)
    if kernel is None:
        return None
    if prior.scale != 1.0:
        inner, factor = (
            (kernel.kernel, kernel.factor) if isinstance(kernel, Scaled) else (kernel, 1.0)
        )
        kernel = Scaled(inner, factor * prior.scale**2)
    return kernel if is_kernel_of(prior, kernel) else None


def stretch_of(prior: ModelKernel) -> Float[Tensor, " d"] | None:
    """The numbers by which inputs are divided for the model. None if more is done to them."""
    transform = getattr(prior.model, "input_transform", None)
    if not isinstance(transform, AffineInputTransform):
        return None
    coefficient = transform.coefficient.reshape(-1)
    stretch = coefficient.new_ones(prior.data.points.shape[1])
    indices = getattr(transform, "indices", None)
    if indices is None:
        return stretch * coefficient
    if len(coefficient) == len(indices):
        stretch[indices] = coefficient
    return stretch


def is_kernel_of(prior: ModelKernel, kernel: Kernel) -> bool:
    """Compare the kernel with the model's covariances, since ``forward`` may do anything."""
    points = prior.data.points[:PROBES]
    n, d = points.shape
    spread = points.std(dim=0, correction=0)
    steps = spread.where(spread > 0, 1.0) * torch.linspace(0.2, 1.0, d).to(points)
    probes = torch.cat([points, points + steps * torch.linspace(0.5, 1.0, n).to(points)[:, None]])
    theirs = prior.block(probes, probes)
    tolerance = TRANSLATED * float(theirs.diagonal().max())
    return torch.allclose(kernel.block(probes, probes), theirs, rtol=0.0, atol=tolerance)


def check_model(model: Any) -> None:
    """Check that the model has one output, exact inference, and one set of hyper-parameters."""
    name = type(model).__name__
    if hasattr(model, "models"):
        raise ValueError(
            f"GP.of takes a model of one output; got {name}, a list of models. Pass one of "
            f"model.models."
        )
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
    if model.train_inputs is None or model.train_targets is None:
        raise ValueError(
            f"GP.of takes a model with training data; {name} has none. Its kernel alone is a "
            f"prior: tm.GP(model.covar_module, noise_std=...)."
        )
    check_outputs(model, name)


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


def check_inputs(model: Any, points: Float[Tensor, "t d"]) -> None:
    """Check that training points and other points are transformed alike."""
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
    """Transform x as the model does for its kernel and mean."""
    return model.transform_inputs(x) if hasattr(model, "transform_inputs") else x
