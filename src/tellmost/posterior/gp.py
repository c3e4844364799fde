r"""A prior for one unknown function, and what is believed about f where values were observed.

With the whitened vectors F of :mod:`tellmost.posterior.function_space` the posterior mean is

.. math::
    \mu_t(x) = m(x) + F(x)^\top r, \qquad
    r_{t+1} = \frac{y - \mu_t(z)}{\sqrt{k_t(z, z) + \rho^2}},

so an observation adds an entry to r and to every F, and nothing is factorised anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.kernels.linear import check_kernel
from tellmost.kernels.stationary import Matern
from tellmost.kernels.written import describe, write
from tellmost.posterior.function_space import pivoted_cholesky
from tellmost.posterior.function_tracker import FunctionTracker
from tellmost.posterior.problem import nonnegative
from tellmost.rows.checks import check_number, check_positive, check_squares, check_vector
from tellmost.shapes import Bool, Float, Int

SAMPLED_VARIANCE = 1e-12
"""Drawn functions may lack this share of a prior variance: a deviation of 1e-6, and well above the
rounding of a Cholesky factor of thousands of rows."""


Mean = float | Callable[[Tensor], Any]
"""The prior mean: a constant, or a function from (n, d) float64 points to (n,) values."""

INSTALL = "pip install 'tellmost[bo]'."


@dataclass(frozen=True, eq=False)
class Data:
    """Observations that a prior has been conditioned on, each with the variance of its noise."""

    points: Float[Tensor, "t d"]
    y: Float[Tensor, " t"]
    noise_variance: Float[Tensor, " t"]

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class HyperPrior:
    """What is known of hyper-parameters that are weighed at every tell; see ``GP.unknown``."""

    lengthscale: float | Sequence[float] | None = None
    scale: float | None = None
    noise_std: float | None = None
    ard: bool = False

    def __post_init__(self) -> None:
        if self.lengthscale is not None:
            given = np.atleast_1d(self.lengthscale).tolist()
            least = tuple(check_positive(one, "GP.unknown(lengthscale)") for one in given)
            object.__setattr__(self, "lengthscale", least if len(least) > 1 else least[0])
        if self.scale is not None:
            object.__setattr__(self, "scale", check_positive(self.scale, "GP.unknown(scale)"))
        if self.noise_std is not None:
            object.__setattr__(self, "noise_std", check_noise_std(self.noise_std))
        if not isinstance(self.ard, bool):
            raise TypeError(f"GP.unknown(ard) must be True or False; got {self.ard!r}.")

    def __str__(self) -> str:
        known = [
            "lengthscale "
            + ("not known" if self.lengthscale is None else f"from {self.lengthscale}"),
            "scale " + ("not known" if self.scale is None else f"about {self.scale:.4g}"),
            "noise " + ("not known" if self.noise_std is None else f"{self.noise_std:.4g}"),
        ]
        each = ", a lengthscale per parameter" * self.ard
        return f"Matern-5/2 and a constant; {', '.join(known)}{each}; weighed anew at every tell"


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
    hyperprior: HyperPrior | None = None  # of GP.unknown; kernel, mean and noise then follow it
    fitted_within: tuple[list[float], list[float]] | None = None  # the extent of the data of fit

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
        jitter is added to any covariance; instead the noise variance stays above the share of the
        variance of y that ``FITTED_VARIANCES`` in ``integrations.fitting`` states. A lengthscale
        at the upper end of ``FITTED_LENGTHSCALES`` there says that y does not depend on the
        dimension. It warns where the data say little about the lengthscale. The time is cubic in
        the observations.
        """
        try:
            from tellmost.integrations.fitting import fit_prior
        except ModuleNotFoundError as error:
            raise ImportError(f"GP.fit needs gpytorch; {INSTALL}") from error
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

    @staticmethod
    def unknown(
        lengthscale: float | Sequence[float] | None = None,
        scale: float | None = None,
        noise_std: float | None = None,
        ard: bool = False,
    ) -> "GP":
        """A prior for people who do not know theirs: a mixture, weighed anew at every tell.

        It is for ``SafeOptimizer(confidence=...)``, whose domain, limits and seeds say what is
        left open. Five seeds need nothing else. With one to three seeds state a lengthscale and a
        scale; a scale that is too small is unsafe, one that is too large only slow.

        Args:
            lengthscale: the shortest one possible, in the unit of x: a number, or one for each
                parameter. None: a twentieth of the domain's width.
            scale: how far the function varies, in the unit of y, right within a factor of two.
                None: a tenth to ten times the mean distance of the seeds' values to the limit.
            noise_std: that of a measurement. None: 0.01 to 0.4 of that mean distance.
            ard: whether each parameter has a lengthscale of its own. It costs six times as much.
        """
        known = HyperPrior(lengthscale, scale, noise_std, ard)
        noise = 1.0 if known.noise_std is None else known.noise_std
        return GP(Matern(2.5), noise_std=noise, hyperprior=known)

    @property
    def knows_noise(self) -> bool:
        """If false, the noise is weighed too, and no value has a noise of its own."""
        return self.hyperprior is None or self.hyperprior.noise_std is not None

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
        if (known := self.hyperprior) is not None:
            return f"GP.unknown({repr(known)[len('HyperPrior(') :]}{data}"
        mean = name_of(self.mean) if callable(self.mean) else repr(self.mean)
        return f"GP({write(self.kernel)}, mean={mean}, noise_std={self.noise_std!r}{data})"

    def __str__(self) -> str:
        return self.describe() if self.hyperprior is None else f"GP: {self.hyperprior}"

    def describe(self) -> str:
        """The hyper-parameters in words; of a mixture the likeliest, as far as they are known."""
        mean = f"{name_of(self.mean)}(x)" if callable(self.mean) else f"{self.mean:.4g}"
        data = "" if self.data is None else f"; {len(self.data)} observations"
        return (
            f"GP: {describe(self.kernel)}; mean {mean}; noise standard deviation "
            f"{self.noise_std:.4g}{data}"
        )


def as_gp(prior: Any, *, mean: Mean = 0.0, noise_std: float | None = None) -> GP:
    """The GP that a GP, a fitted model, or a kernel with mean and noise stands for."""
    has_mean = callable(mean) or mean != 0.0
    if isinstance(prior, GP):
        if prior.hyperprior is not None:
            raise ValueError(
                "GP.unknown is for tm.SafeOptimizer, whose limits and seeds it follows. Write the "
                "prior down, tm.GP(kernel, noise_std=...), or fit one, tm.GP.fit(X, y)."
            )
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
    """A fitted model is a torch module other than a gpytorch kernel."""
    return isinstance(prior, torch.nn.Module) and not hasattr(prior, "covar_dist")


def name_of(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def check_mean(mean: Any) -> Mean:
    """The mean, if it is a finite number or a function; else an error that says what came."""
    if isinstance(mean, type):
        raise TypeError(f"mean must be a number or a function; got the class {mean.__name__}.")
    if callable(mean) and not isinstance(mean, Tensor | np.ndarray):
        return mean
    return check_number(mean, "mean, where it is no function from (n, d) points to (n,) values,")


def check_noise_std(noise_std: Any) -> float:
    """The standard deviation, if it is a positive number whose square float64 can hold."""
    if np.ndim(noise_std) > 0:
        raise TypeError(
            f"noise_std of a prior must be one number; got shape {tuple(np.shape(noise_std))}. "
            f"Noise that differs between observations is given where they are told."
        )
    number = check_positive(noise_std, "noise_std")
    check_squares(torch.tensor([number], dtype=torch.float64))
    return number


MeanFunction = Callable[[Tensor], Tensor]
"""A function that gives the prior mean at some points, an entry each."""


Step = tuple[Float[Tensor, " t"], float]
"""F at an observed point before the observation, and the variance of the observation."""


class Belief:
    """The mean and the variance of f over the rows of a problem and anywhere else."""

    def __init__(
        self,
        tracker: FunctionTracker,
        prior_mean: MeanFunction,
        y: Float[Tensor, " t"] | None = None,
    ) -> None:
        """``y`` has the values that belong to the observations of the tracker's problem."""
        self.tracker = tracker
        self._prior_mean = prior_mean
        self._mean_of_rows = prior_mean(tracker.points)
        self._residuals = self._values = self._mean_of_rows.new_empty(0)
        if y is not None and len(y):
            self.catch_up(torch.cat([one.point for one in tracker.problem.observed]), y)

    def catch_up(self, points: Points, y: Float[Tensor, " b"]) -> None:
        """Take in values that belong to the observations which the tracker has taken in last."""
        count = len(self._residuals)
        self._values = torch.cat([self._values, y - self._prior_mean(points)])
        new = self.tracker.posterior.whiten_values(self._values)[count:]
        self._residuals = torch.cat([self._residuals, new])
        self._mean_of_rows += self.tracker.whitened_rows[count:].T @ new

    def mark(self) -> tuple[Tensor, Tensor, Tensor]:
        """What is believed now, to return to when the tracker returns."""
        return self._mean_of_rows.clone(), self._residuals, self._values

    def return_to(self, mark: tuple[Tensor, Tensor, Tensor]) -> None:
        mean, self._residuals, self._values = mark
        self._mean_of_rows = mean.clone()

    def observe(
        self,
        point: Points,
        y: float,
        noise_variance: float,
        row: int | None = None,
        step: Step | None = None,
    ) -> Step:
        """Take in a value observed at a point, given as a single row of points.

        It is quicker if the point is known to be a ``row`` of the tracker. ``step`` is what the
        tracker said if it took in the observation already, for another belief.
        """
        expected = float(self._prior_mean(point))  # the caller's function may fail
        F, s = self.tracker.observe_point(point, noise_variance, row) if step is None else step
        surprise = y - expected - float(F @ self._residuals)
        residual = self._residuals.new_full((1,), surprise / s**0.5)
        self._residuals = torch.cat([self._residuals, residual])
        self._values = torch.cat([self._values, residual.new_full((1,), y - expected)])
        self._mean_of_rows += self.tracker.whitened_rows[-1] * residual
        return F, s

    def at(self, points: Points) -> tuple[Float[Tensor, " b"], Float[Tensor, " b"]]:
        """The mean and the variance at some points."""
        F = self.tracker.posterior.whiten(points)
        prior = self.tracker.kernel.diagonal(points)
        mean = self._prior_mean(points) + F.T @ self._residuals
        return mean, nonnegative(prior - F.square().sum(dim=0))

    def of_rows(self) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
        """The mean and the variance of every row."""
        return self._mean_of_rows.clone(), self.tracker.variance_of_rows.clone()

    def root_of_rows(self, among: Bool[Tensor, " n"] | None = None) -> Float[Tensor, "b r"]:
        """R with R R' the covariance of all rows, or of some.

        A point that several rows have counts once.
        """
        rows = slice(None) if among is None else among
        first, place = first_occurrences(self.tracker.points[rows])
        points = self.tracker.points[rows][first]
        F = self.tracker.whitened_rows[:, rows][:, first]
        covariance = self.tracker.kernel.block(points, points) - F.T @ F
        return root_of_covariance(covariance, self.tracker.kernel.diagonal(points))[place]

    def sample_rows(
        self,
        count: int,
        generator: torch.Generator,
        among: Bool[Tensor, " n"] | None = None,
        *,
        root: Float[Tensor, "b r"] | None = None,
    ) -> Float[Tensor, "count b"]:
        """Functions drawn from the posterior, jointly at all rows, or at some of them.

        ``root`` is the result of ``root_of_rows``, where it is at hand.
        """
        root = self.root_of_rows(among) if root is None else root
        size = root.shape[1], count
        normal = torch.randn(size, generator=generator, dtype=torch.float64).to(root)
        mean = self._mean_of_rows if among is None else self._mean_of_rows[among]
        return mean + (root @ normal).T


def root_of_covariance(
    covariance: Float[Tensor, "n n"], prior_variance: Float[Tensor, " n"]
) -> Float[Tensor, "n r"]:
    """R with R R' = covariance, up to SAMPLED_VARIANCE of the prior variances.

    R is the Cholesky factor where rounding allows. Covariances of smooth functions have few
    directions of any size; for those it is the factor with pivots, which ends where no variance
    is left that could be told from rounding.
    """
    factor, failed = torch.linalg.cholesky_ex(covariance)
    if not bool(failed):
        return factor
    enough = SAMPLED_VARIANCE * prior_variance
    columns, _ = pivoted_cholesky(
        covariance.diagonal(), lambda pivot: covariance[pivot], enough, len(covariance)
    )
    return columns.T


def first_occurrences(
    points: Float[Tensor, "n d"],
) -> tuple[Int[Tensor, " u"], Int[Tensor, " n"]]:
    """The rows at which a point occurs first, in order, and for every row which of them it equals.

    A point that occurs twice would make a covariance singular.
    """
    _, kind = torch.unique(points, dim=0, return_inverse=True)
    first = torch.full((int(kind.max()) + 1,), len(kind), device=kind.device)
    first.scatter_reduce_(0, kind, torch.arange(len(kind), device=kind.device), "amin")
    order = first.argsort()
    return first[order], order.argsort()[kind]
