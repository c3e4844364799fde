r"""Hyper-parameters by marginal likelihood, with the kernels of gpytorch (extra ``bo``).

.. math:: \log p(y) = -\tfrac12 (y - \mu)^\top C^{-1} (y - \mu) - \tfrac12 \log\det C
    - \tfrac{n}{2} \log 2\pi, \qquad C = K + \rho^2 I

Rasmussen and Williams 2006, eq. 5.8.
"""

import math
import warnings
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from gpytorch.kernels import Kernel as Theirs
from gpytorch.kernels import ScaleKernel
from scipy.optimize import minimize
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

START_LENGTHSCALES = (0.1, 0.5)  # in ranges of the inputs: a wavy and a smooth function

START_NOISE = (0.01, 0.3)
"""A fit starts from these shares of the noise in the variance of y. Clean and noisy data have an
optimum each, and the better one is taken."""

FIT_STEPS = 500  # of L-BFGS at most; fits of a few lengthscales need 20 to 60

FIT_GRADIENT = 1e-6
"""A fit is done when no entry of the gradient by the logarithms of hyper-parameters is larger, per
observation. The data fix a hyper-parameter to a few percent at best."""

FIT_UNFINISHED = 1e-3  # a larger entry of that gradient at the end is worth a warning

FLAT_LIKELIHOOD = 1.92
"""Half the lengthscale is as good if it costs less than so many nats: a test at 95%, one degree of
freedom."""

Limits = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Observations:
    """The data to fit to, and the scales that bound the search."""

    points: Float[Tensor, "n d"]
    y: Float[Tensor, " n"]  # without a mean that is given
    center: float  # 0 where the mean is given
    spread: float  # root mean squared distance of y from the centre
    ranges: Float[Tensor, " d"]  # of the inputs; 1 along a dimension in which all are equal


class Regression(torch.nn.Module):
    """A kernel, a noise variance and a mean, whose likelihood is looked at."""

    def __init__(self, observations: Observations, kernel: Theirs, noise: float) -> None:
        super().__init__()
        self.observations = observations
        self.kernel = kernel
        self.log_noise = torch.nn.Parameter(torch.tensor(noise, dtype=torch.float64).log())
        self.shift = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))

    @property
    def mean(self) -> Tensor:
        """A constant. Its distance from the centre of y, in spreads of y, is searched for."""
        return self.observations.center + self.observations.spread * self.shift

    def loss(self) -> Float[Tensor, ""]:
        """Minus the log likelihood per observation and the log priors of the kernel.

        It is infinite where float64 has no factor of the covariance: nothing is added to it.
        """
        points, y = self.observations.points, self.observations.y
        noise = self.log_noise.exp().expand(len(y)).diag()
        factor, failed = torch.linalg.cholesky_ex(self.kernel(points).to_dense() + noise)
        if failed:
            return self.log_noise.new_tensor(math.inf)
        whitened = torch.linalg.solve_triangular(factor, (y - self.mean)[:, None], upper=False)
        loss = 0.5 * whitened.square().sum() + factor.diagonal().log().sum()
        for _, module, prior, value, _ in self.kernel.named_priors():
            loss = loss - prior.log_prob(value(module)).sum()
        return loss / len(y) + 0.5 * math.log(2 * math.pi)


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
    best = max((ascend(model) for model in models), key=lambda fit: fit.value)
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
    noise = math.exp(float(fitted.log_noise.detach()) / 2) if known is None else known
    found = float(fitted.mean.detach()) if mean is None else mean
    warn_of_doubt(best)
    kernel = from_gpytorch(fitted.kernel) or GPyTorchKernel(fitted.kernel)
    extent = (observations.points.amin(dim=0).tolist(), observations.points.amax(dim=0).tolist())
    return GP(kernel, mean=found, noise_std=noise, fitted_within=extent)


def warn_of_doubt(best: Fit) -> None:
    """Warn of lengthscales that the data do not show."""
    observations, other, doubts = best.model.observations, deepcopy(best.model), list[str]()
    parts = (part for part in other.kernel.modules() if isinstance(part, Theirs))
    for part in (one for one in parts if one.has_lengthscale and has_ours(one, "lengthscale")):
        lengthscale = part.lengthscale.detach().reshape(-1)
        widest = lengthscale.amax() / observations.ranges.max()
        if len(lengthscale) > 1:
            widest = (lengthscale / observations.ranges).amax()
        if widest > 1 and not doubts:
            doubts.append(f"a lengthscale is {float(widest):.2g} times the range of X")
        part.raw_lengthscale.data -= math.log(2)
        part.raw_lengthscale.requires_grad_(False)
    frozen = [raw for raw in other.kernel.parameters() if not raw.requires_grad]
    if frozen and (best.value - ascend(other).value) * len(observations.y) < FLAT_LIKELIHOOD:
        doubts.append("half the lengthscale explains y nearly as well")
    if doubts:
        warnings.warn(
            f"GP.fit: the data say little about the lengthscale: {', and '.join(doubts)}. Beyond "
            f"the data the prior may be far too sure. Where that is dangerous, use GP.unknown().",
            stacklevel=4,
        )


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
    largest = float((values - center).abs().max())
    shares = (values - center) / (largest or 1.0)
    spread = largest * float(shares.square().mean().sqrt())  # the squares may not overflow
    least, most = (share * spread * spread for share in FITTED_VARIANCES)
    if not torch.finfo(torch.float64).tiny < least <= most < torch.inf:
        raise ValueError(
            f"GP.fit: y must have a variance that float64 can hold; it differs from its mean by "
            f"{largest:g} at most. Measure y in another unit, or drop a mean that equals y."
        )
    ranges = points.amax(dim=0) - points.amin(dim=0)
    return Observations(points, values, center, spread, ranges.where(ranges > 0, 1.0))


def starts(
    kernel: Any, noise_std: float | None, mean: Mean | None, observations: Observations
) -> list[Regression]:
    """A model for each kernel and each noise from which the search starts."""
    noises = [share * observations.spread**2 for share in START_NOISE]
    if noise_std is not None:
        noises = [noise_std**2]
    models = [
        Regression(observations, deepcopy(start), noise)
        for start in start_kernels(kernel, observations)
        for noise in noises
    ]
    for model in models:
        model.log_noise.requires_grad_(noise_std is None)
        model.shift.requires_grad_(mean is None)
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


def ascend(model: Regression) -> Fit:
    """Follow the gradient of the log likelihood from the model's hyper-parameters."""
    free = [raw for raw in model.parameters() if raw.requires_grad]
    if not free:
        value = -float(model.loss().detach())
        return Fit(model, value, 0.0 if math.isfinite(value) else math.inf)
    low, high = bounds_of(model, free)
    loss_at = partial(loss_and_gradient, model, free)
    options = {"maxiter": FIT_STEPS, "gtol": FIT_GRADIENT, "ftol": 0.0}
    start = torch.nn.utils.parameters_to_vector(free).detach().numpy()
    limits = np.stack([low, high], axis=1)
    found = minimize(loss_at, start, jac=True, bounds=limits, options=options).x
    loss, gradient = loss_at(found)
    if math.isnan(loss):
        return Fit(model, -math.inf, math.inf)
    is_free = ((gradient > 0) & (found > low)) | ((gradient < 0) & (found < high))
    return Fit(model, -loss, float(np.abs(gradient * is_free).max()))


def loss_and_gradient(
    model: Regression, free: list[torch.nn.Parameter], values: Float[np.ndarray, " p"]
) -> tuple[float, Float[np.ndarray, " p"]]:
    """The loss where the free parameters have these values, or NaN, at which L-BFGS steps back."""
    torch.nn.utils.vector_to_parameters(torch.from_numpy(values.copy()), free)
    loss = model.loss()
    if not loss.isfinite():
        return math.nan, np.full(len(values), math.nan)
    slopes = torch.autograd.grad(loss, free, allow_unused=True, materialize_grads=True)
    return float(loss.detach()), torch.nn.utils.parameters_to_vector(slopes).numpy()


def bounds_of(
    model: Regression, free: list[torch.nn.Parameter]
) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
    """The least and largest values between which the free parameters are searched for."""
    limits = {id(raw): limit for raw, limit in limits_of(model)}
    lows, highs = [], []
    for raw in free:
        start = raw.detach()
        low, high = limits.get(id(raw), (start - math.inf, start + math.inf))
        lows.append(low.expand(start.shape).minimum(start))
        highs.append(high.expand(start.shape).maximum(start))
    flat = torch.nn.utils.parameters_to_vector
    return flat(lows).numpy(), flat(highs).numpy()


def limits_of(model: Regression) -> Iterator[tuple[Tensor, Limits]]:
    """The least and largest logarithms of noise variance, factors and lengthscales."""
    observations = model.observations
    variance = torch.tensor(observations.spread**2, dtype=torch.float64)
    yield model.log_noise, logarithms(FITTED_VARIANCES, variance)
    parts = (part for part in model.kernel.modules() if isinstance(part, Theirs))
    for module in parts:
        if isinstance(module, ScaleKernel) and has_ours(module, "outputscale"):
            inner = module.base_kernel(observations.points, diag=True).detach().mean()
            scale = variance / inner if inner > 0 else variance
            yield module.raw_outputscale, logarithms(FITTED_VARIANCES, scale)
        elif module.has_lengthscale and has_ours(module, "lengthscale"):
            ranges = observations.ranges
            scale = ranges.max() if module.lengthscale.numel() == 1 else ranges
            yield module.raw_lengthscale, logarithms(FITTED_LENGTHSCALES, scale)


def has_ours(module: Theirs, name: str) -> bool:
    """True if the logarithm of this hyper-parameter is searched for, as in our kernels."""
    return isinstance(getattr(module, f"raw_{name}_constraint"), Logarithmic)


def logarithms(limits: tuple[float, float], scale: Tensor) -> Limits:
    return (limits[0] * scale).log(), (limits[1] * scale).log()
