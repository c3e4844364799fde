r"""Hyper-parameters by marginal likelihood, through gpytorch and botorch (extra ``bo``).

.. math:: \log p(y) = -\tfrac12 (y - \mu)^\top C^{-1} (y - \mu) - \tfrac12 \log\det C
    - \tfrac{n}{2} \log 2\pi, \qquad C = K + \rho^2 I

Rasmussen and Williams 2006, eq. 5.8.
"""

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from botorch.optim.fit import fit_gpytorch_mll_scipy
from gpytorch import settings
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel as Theirs
from gpytorch.kernels import ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import Mean as TheirMean
from gpytorch.means import ZeroMean
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.models import ExactGP
from linear_operator.utils.errors import NanError, NotPSDError
from torch import Tensor

from tellmost.integrations.gpytorch import GPyTorchKernel, Logarithmic, from_gpytorch, to_gpytorch
from tellmost.kernels import Matern, Scaled
from tellmost.kernels.linear import check_kernel, matrix_size
from tellmost.posterior.gp import GP, Mean, check_noise_std
from tellmost.rows.checks import check_rows, check_vector
from tellmost.rows.sources import read_array
from tellmost.shapes import Float

FITTED_LENGTHSCALES = (1e-3, 1e3)
"""Lengthscales are looked for between these, in ranges of the inputs along their dimension. Below,
points tell nothing of each other; above, the function does not change along the dimension."""

FITTED_VARIANCES = (1e-6, 1e6)
"""Variances are looked for between these, in mean squared distances of y from the mean. For the
noise the lower end keeps covariances positive definite, so that no jitter is needed."""

LEAST_FITTED = 4
"""The fewest observations from which hyper-parameters are fitted. Three points in one dimension
lie on many curves of any lengthscale, so fewer would only repeat the starting values."""

START_LENGTHSCALES = (0.1, 0.5)
"""A fit starts from these lengthscales, in ranges of the inputs: a wavy and a smooth function."""

START_NOISE = (0.01, 0.3)
"""A fit starts from these shares of the noise in the variance of y. Clean and noisy data have an
optimum each, and the better one is taken."""

FIT_STEPS = 500
"""The most steps of L-BFGS. Fits of a few lengthscales need 20 to 60."""

FIT_GRADIENT = 1e-6
"""A fit is done when no entry of the gradient by the logarithms of hyper-parameters is larger, per
observation. The data fix a hyper-parameter to a few percent at best."""

FIT_UNFINISHED = 1e-3
"""A fit that could not go on is worth a warning when an entry of that gradient is larger."""

Limits = tuple[Tensor, Tensor]
Bounds = dict[str, Limits]


@dataclass(frozen=True)
class Observations:
    """The data to fit to, and the scales that bound the search."""

    points: Float[Tensor, "n d"]
    y: Float[Tensor, " n"]  # without a mean that is given
    center: float  # 0 where the mean is given
    spread: float  # root mean squared distance of y from the centre
    ranges: Float[Tensor, " d"]  # of the inputs; 1 along a dimension in which all are equal


class CenteredMean(TheirMean):  # type: ignore[misc]
    """A constant mean. Its distance from the centre of y, in spreads of y, is searched for."""

    def __init__(self, observations: Observations) -> None:
        super().__init__()
        self._center, self._spread = observations.center, observations.spread
        shift = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))
        self.register_parameter("shift", shift)

    @property
    def constant(self) -> Tensor:
        return self._center + self._spread * self.shift

    def forward(self, x: Tensor) -> Tensor:
        return self.constant.expand(x.shape[:-1])


class Regression(ExactGP):  # type: ignore[misc]
    """Mean, kernel and noise in the form that gpytorch needs."""

    def __init__(
        self, observations: Observations, mean: TheirMean, kernel: Theirs, noise: float
    ) -> None:
        likelihood = GaussianLikelihood(noise_constraint=Logarithmic()).double()
        likelihood.noise = torch.tensor(noise, dtype=torch.float64)
        super().__init__(observations.points, observations.y, likelihood)
        self.mean_module = mean
        self.covar_module = kernel

    def forward(self, x: Tensor) -> MultivariateNormal:
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


@dataclass(frozen=True)
class Fit:
    """The place where a search has ended."""

    model: Regression
    value: float  # log likelihood per observation, or minus infinity where it is not a number
    gradient: float  # its largest entry, by the logarithms of hyper-parameters


def fit_prior(X: Any, y: Any, kernel: Any, *, noise_std: float | None, mean: Mean | None) -> GP:
    """The best of what the search finds from each start; see ``GP.fit``."""
    known = None if noise_std is None else check_noise_std(noise_std)
    observations = observe(X, y, mean)
    models = starts(kernel, known, mean, observations)
    fits = (ascend(model, known is not None, observations) for model in models)
    best = max(fits, key=lambda fit: fit.value)
    if best.value == -torch.inf:
        raise ValueError(
            "GP.fit found no prior under which the likelihood of y is a number. Causes: (a) "
            "noise_std is far below the spread of y and X has near duplicates; (b) the kernel is "
            "not positive semi-definite. Give a larger noise_std, or None to fit it."
        )
    if best.gradient > FIT_UNFINISHED:
        warnings.warn(
            f"GP.fit ended before it found an optimum: the log likelihood per observation still "
            f"changes by {best.gradient:.2g} with the logarithm of a hyper-parameter. Start from "
            f"another kernel, or measure X and y in other units.",
            stacklevel=3,
        )
    fitted = best.model
    noise = float(fitted.likelihood.noise.detach()) ** 0.5 if known is None else known
    found = float(fitted.mean_module.constant.detach()) if mean is None else mean
    kernel = from_gpytorch(fitted.covar_module) or GPyTorchKernel(fitted.covar_module)
    return GP(kernel, mean=found, noise_std=noise)


def observe(X: Any, y: Any, mean: Mean | None) -> Observations:
    """Check the data, and measure their scales."""
    points = read_array(X, "X")
    check_rows(points, "X")
    points = points.detach().to("cpu", torch.float64)
    values = check_vector(y, "y", len(points), "row of X").detach().cpu()
    if len(values) < LEAST_FITTED:
        raise ValueError(
            f"GP.fit needs at least {LEAST_FITTED} observations; got {len(values)}. "
            f"Write the prior down instead: tm.GP(kernel, mean=..., noise_std=...)."
        )
    if bool((values == values[0]).all()):
        raise ValueError(
            f"GP.fit: y is {float(values[0]):g} everywhere, so it has no scale to be fitted. "
            f"Write the prior down instead: tm.GP(kernel, mean=..., noise_std=...)."
        )
    if mean is not None:
        values = values - GP(Matern(2.5), mean=mean).mean_of(points)
    center = float(values.mean()) if mean is None else 0.0
    spread = check_spread(values - center)
    ranges = points.amax(dim=0) - points.amin(dim=0)
    return Observations(points, values, center, spread, ranges.where(ranges > 0, 1.0))


def check_spread(deviations: Float[Tensor, " n"]) -> float:
    """Their root mean square, if float64 can hold the variances between which we search."""
    largest = float(deviations.abs().max())
    spread = largest * float((deviations / largest).square().mean().sqrt()) if largest else 0.0
    least, most = (share * spread * spread for share in FITTED_VARIANCES)
    if not torch.finfo(torch.float64).tiny < least <= most < torch.inf:
        raise ValueError(
            f"GP.fit: y must have a variance that float64 can hold; it differs from its mean by "
            f"{largest:g} at most. Measure y in another unit, or drop a mean that equals y."
        )
    return spread


def starts(
    kernel: Any, noise_std: float | None, mean: Mean | None, observations: Observations
) -> list[Regression]:
    """A model for each kernel and each noise from which the search starts."""
    noises = [share * observations.spread**2 for share in START_NOISE]
    if noise_std is not None:
        noises = [noise_std**2]
    models = []
    for start in start_kernels(kernel, observations):
        for noise in noises:
            own_mean = CenteredMean(observations) if mean is None else ZeroMean()
            models.append(Regression(observations, own_mean, deepcopy(start), noise))
    return models


def start_kernels(kernel: Any, observations: Observations) -> list[Theirs]:
    if kernel is None:
        d = len(observations.ranges)
        scales = [share * d**0.5 * observations.ranges for share in START_LENGTHSCALES]
        kernels = [Scaled(Matern(2.5, scale), observations.spread**2) for scale in scales]
        return [to_gpytorch(start) for start in kernels]
    if isinstance(kernel, Theirs):
        check_kernel(kernel)
        return [deepcopy(kernel).double()]
    ours = check_kernel(kernel)
    if matrix_size(ours) is not None:
        raise ValueError("GP.fit(kernel): a Precomputed kernel has no hyper-parameters to fit.")
    ours.block(observations.points[:1], observations.points[:1])  # refuses other dimensions
    return [to_gpytorch(ours)]


def ascend(model: Regression, is_noise_known: bool, observations: Observations) -> Fit:
    """Follow the gradient of the log likelihood from the model's hyper-parameters."""
    model.likelihood.raw_noise.requires_grad_(not is_noise_known)
    mll = ExactMarginalLogLikelihood(model.likelihood, model).train()
    bounds = bounds_of(mll, observations)
    with exactly(len(observations.y)):
        if free_parameters(mll):
            options = {"maxiter": FIT_STEPS, "gtol": FIT_GRADIENT, "ftol": 0.0}
            loss = partial(loss_and_gradients, mll)
            limits: Any = bounds  # tensors, a limit per entry, are fine, though typed as numbers
            fit_gpytorch_mll_scipy(mll, bounds=limits, closure=loss, options=options)
        try:
            value, gradient = slope(mll, bounds)
        except NanError:
            return Fit(model, -torch.inf, torch.inf)
    return Fit(model, value if value == value else -torch.inf, gradient)


def slope(mll: ExactMarginalLogLikelihood, bounds: Bounds) -> tuple[float, float]:
    """The log likelihood per observation, and the largest entry of its gradient within bounds."""
    loss, gradients = loss_and_gradients(mll)
    steepest = 0.0
    for (name, raw), gradient in zip(free_parameters(mll).items(), gradients, strict=True):
        if gradient is not None:
            low, high = bounds.get(name, (raw.detach() - 1, raw.detach() + 1))
            is_free = ((gradient > 0) & (raw > low)) | ((gradient < 0) & (raw < high))
            steepest = max(steepest, float((gradient.abs() * is_free).max()))
    return -float(loss), steepest


def loss_and_gradients(
    mll: ExactMarginalLogLikelihood,
) -> tuple[Float[Tensor, ""], tuple[Tensor | None, ...]]:
    """Minus the log likelihood per observation, and its gradient by each free parameter.

    A covariance without a factor raises NanError: botorch then steps back, and does not give up.
    """
    try:
        loss = -mll(mll.model(*mll.model.train_inputs), mll.model.train_targets)
        free = tuple(free_parameters(mll).values())
        return loss.detach(), torch.autograd.grad(loss, free, allow_unused=True) if free else ()
    except NotPSDError as error:
        raise NanError from error


def free_parameters(mll: ExactMarginalLogLikelihood) -> dict[str, torch.nn.Parameter]:
    return {name: raw for name, raw in mll.named_parameters() if raw.requires_grad}


@contextmanager
def exactly(count: int) -> Iterator[None]:
    """Use Cholesky factors at every size, without the jitter that gpytorch would add.

    The search steps back from a covariance that has no factor.
    """
    with ExitStack() as stack:
        stack.enter_context(settings.max_cholesky_size(count + 1))
        stack.enter_context(settings.cholesky_jitter(float_value=0.0, double_value=0.0))
        stack.enter_context(settings.cholesky_max_tries(1))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # about the jitter of 0; we look at how the search ended
        yield


def bounds_of(mll: ExactMarginalLogLikelihood, observations: Observations) -> Bounds:
    """The bounds of the logarithms. Kernels of gpytorch keep their own constraints."""
    limits = {id(raw): limit for raw, limit in limits_of(mll.model, observations)}
    found: Bounds = {}
    for name, raw, constraint in mll.named_parameters_and_constraints():
        if isinstance(constraint, Logarithmic):
            start = raw.detach()  # may lie outside, if it is the caller's
            low, high = (limit.log().expand(start.shape) for limit in limits[id(raw)])
            found[name] = (low.minimum(start), high.maximum(start))
    return found


def limits_of(model: Regression, observations: Observations) -> Iterator[tuple[Tensor, Limits]]:
    """The least and largest noise variance, factors and lengthscales, in the unit of the data."""
    variance = torch.tensor(observations.spread**2, dtype=torch.float64)
    least, largest = FITTED_VARIANCES
    shortest, longest = FITTED_LENGTHSCALES
    yield model.likelihood.raw_noise, (least * variance, largest * variance)
    for module in model.covar_module.modules():
        if isinstance(module, ScaleKernel):
            inner = module.base_kernel(observations.points, diag=True).detach().mean()
            scale = variance / inner if inner > 0 else variance
            yield module.raw_outputscale, (least * scale, largest * scale)
        elif isinstance(module, Theirs) and module.has_lengthscale:
            ranges = observations.ranges
            if module.lengthscale.numel() == 1:
                ranges = ranges.max()
            yield module.raw_lengthscale, (shortest * ranges, longest * ranges)
