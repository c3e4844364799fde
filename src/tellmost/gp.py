"""A prior for one unknown function: kernel, mean and noise."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.checking.choices import check_kernel
from tellmost.kernels.kernel import Points
from tellmost.kernels.written import describe, write
from tellmost.rows.opening import NOT_NUMBERS, check_positive, check_vector, kind_of
from tellmost.shapes import Float

Mean = float | Callable[[Tensor], Any]
"""A constant, or a function from (n, d) float64 points to (n,) values."""

INSTALL = "pip install 'tellmost[bo]'."


@dataclass(frozen=True, eq=False)
class Data:
    """Observations that a prior has been conditioned on, each with the variance of its noise."""

    points: Float[Tensor, "t d"]
    y: Float[Tensor, " t"]
    noise_variance: Float[Tensor, " t"]

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, eq=False)
class GP:
    r"""A Gaussian-process prior for one output, and the noise with which it is observed.

    .. math:: f \sim GP(\mu, k), \qquad y = f(x) + \varepsilon, \quad \varepsilon \sim N(0, \rho^2)

    ``kernel`` comes from ``tm.kernels``, from gpytorch, or is yours; ``mean`` is a number or a
    function from (n, d) float64 points to (n,) values; ``noise_std`` is in the unit of y. ``data``
    is what has been observed already: ``GP.of(model)`` fills it, otherwise tell the data.

    ``print(gp)`` gives the hyper-parameters in words, ``repr(gp)`` all their digits.
    """

    kernel: Any  # then a Kernel; gpytorch's become one
    _: KW_ONLY
    mean: Mean = 0.0
    noise_std: float = 0.1
    data: Data | None = None

    def __post_init__(self) -> None:
        if self.kernel is None:
            raise TypeError(
                "GP(kernel) must be a kernel, such as tm.kernels.Matern(2.5); got None."
            )
        object.__setattr__(self, "kernel", check_kernel(self.kernel))
        object.__setattr__(self, "mean", check_mean(self.mean))
        object.__setattr__(self, "noise_std", check_noise_std(self.noise_std))

    @staticmethod
    def fit(
        X: Any,
        y: Any,
        kernel: Any = None,
        *,
        noise_std: float | None = None,
        mean: Mean | None = None,
    ) -> "GP":
        """The prior under which the data are most likely (extra ``bo``).

        ``kernel=None`` is Matern-5/2 with a lengthscale per dimension, times a variance. A kernel
        of ``tm.kernels`` keeps its family; its lengthscales and the factors of ``Scaled`` are
        where the search starts; what has neither, such as ``Linear``, stays as it is. A gpytorch
        kernel keeps its constraints and priors. ``noise_std`` and ``mean`` are fixed if they are
        given; otherwise the noise and a constant mean are fitted too.

        Returns hyper-parameters only, in the unit of X and y, without ``data``: then tell the
        data. L-BFGS from fixed starts, in float64, so the same data give the same prior. No
        jitter is added to any covariance; instead the noise variance stays above
        ``numerics.FITTED_VARIANCES`` of the variance of y. A lengthscale at the upper end of
        ``numerics.FITTED_LENGTHSCALES`` says that y does not depend on the dimension. Takes time
        cubic in the observations.
        """
        try:
            from tellmost.integrations.fitting import fit_prior
        except ModuleNotFoundError as error:
            raise ImportError(f"GP.fit needs gpytorch and botorch; {INSTALL}") from error
        return fit_prior(X, y, kernel, noise_std=noise_std, mean=mean)

    @staticmethod
    def of(model: Any, *, noise_std: float | None = None) -> "GP":
        """The prior behind a fitted gpytorch or botorch model, with its training data as ``data``.

        Takes single-output exact models: ``ExactGP``, ``SingleTaskGP``. Everything is in the unit
        of the raw inputs and outputs, whatever the model's transforms; conditioned on ``data`` it
        is the model's posterior. Works on a float64 copy: the model is not changed, and later
        changes of it do not reach the prior.

        ``noise_std`` is the noise of further observations: the model's own unless given. It must
        be given where the model was told a different noise for each observation.
        """
        try:
            from tellmost.integrations.models import read_model
        except ModuleNotFoundError as error:
            raise ImportError(f"GP.of needs gpytorch and botorch; {INSTALL}") from error
        return read_model(model, noise_std=noise_std)

    def mean_of(self, points: Points) -> Float[Tensor, " n"]:
        """The prior mean at each point."""
        if not callable(self.mean):
            return torch.full((len(points),), self.mean, dtype=torch.float64, device=points.device)
        values = torch.as_tensor(self.mean(points), dtype=torch.float64, device=points.device)
        if values.shape != (len(points),):
            raise ValueError(
                f"mean must return a value per point, ({len(points)},) for {tuple(points.shape)} "
                f"points; got {tuple(values.shape)}. Drop or sum the last dimension."
            )
        return check_vector(values, "mean(X)", len(points), "point")

    def __repr__(self) -> str:
        data = "" if self.data is None else f", data=<{len(self.data)} observations>"
        mean = name_of(self.mean) if callable(self.mean) else repr(self.mean)
        return f"GP({write(self.kernel)}, mean={mean}, noise_std={self.noise_std!r}{data})"

    def __str__(self) -> str:
        mean = f"{name_of(self.mean)}(x)" if callable(self.mean) else f"{self.mean:.4g}"
        data = "" if self.data is None else f"; {len(self.data)} observations"
        return (
            f"GP: {describe(self.kernel)}; mean {mean}; noise standard deviation "
            f"{self.noise_std:.4g}{data}"
        )


def as_gp(prior: Any, *, mean: Mean = 0.0, noise_std: float | None = None) -> GP:
    """A GP of whatever says what is believed about f: a GP, a fitted model, or a kernel."""
    has_mean = callable(mean) or mean != 0.0
    if isinstance(prior, GP):
        if has_mean or noise_std is not None:
            raise ValueError(
                "mean and noise_std belong to the GP that was given; drop them, or change it with "
                "dataclasses.replace(gp, noise_std=...)."
            )
        return prior
    if is_model(prior):
        if has_mean:
            raise ValueError("mean belongs to the model that was given; drop it.")
        return GP.of(prior, noise_std=noise_std)
    if noise_std is None:
        raise ValueError(
            "noise_std must be given with a kernel: the standard deviation of an observation, in "
            "the unit of y. Or give a prior that has one, tm.GP(kernel, noise_std=...)."
        )
    return GP(prior, mean=mean, noise_std=noise_std)


def is_model(prior: Any) -> bool:
    """Whether it is a module of torch that is no gpytorch kernel."""
    return isinstance(prior, torch.nn.Module) and not hasattr(prior, "covar_dist")


def name_of(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def check_mean(mean: Any) -> Mean:
    """A finite number or a function, or an error that says what came."""
    if isinstance(mean, type):
        raise TypeError(f"mean must be a number or a function; got the class {mean.__name__}.")
    if callable(mean) and not isinstance(mean, Tensor | np.ndarray):
        return mean
    try:
        number = float(mean)
    except (TypeError, ValueError, RuntimeError) as error:
        came = kind_of(mean) if isinstance(mean, Tensor) else type(mean).__name__
        raise TypeError(
            f"mean must be a number, or a function from (n, d) points to (n,) values; got {came}."
        ) from error
    if isinstance(mean, NOT_NUMBERS):
        raise TypeError(f"mean must be a number or a function; got {mean!r}.")
    if not isfinite(number):
        raise ValueError(f"mean must be finite; got {mean}.")
    return number


def check_noise_std(noise_std: Any) -> float:
    """A positive number whose square float64 can hold."""
    if np.ndim(noise_std) > 0:
        raise TypeError(
            f"noise_std of a prior must be one number; got shape {tuple(np.shape(noise_std))}. "
            f"Noise that differs between observations is given where they are told."
        )
    number = check_positive(noise_std, "noise_std")
    if not 0 < number * number < float("inf"):
        raise ValueError(
            f"noise_std must have a variance that float64 can hold; got {number:g}, whose square "
            f"is 0 or infinite. Measure y in another unit."
        )
    return number
