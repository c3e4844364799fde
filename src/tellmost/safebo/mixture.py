r"""A mixture over hyper-parameters that nobody knows, weighed anew at every tell.

With some thetas of equal weight at first, each a lengthscale, a scale s and a noise,

.. math::
    k_\theta(x, z) = s^2 \big(k_{5/2}(x, z; \ell) + 1\big), \qquad
    w_\theta \propto p(y_1, \dots, y_n \mid \theta), \qquad
    P_n(g(x) < c) = \sum_\theta w_\theta \Phi\big((c - \mu_\theta(x)) / \sigma_\theta(x)\big).

The prior mean lies at the limit, and the constant part of the kernel integrates it out. So where
nothing is known a point is safe with probability 1/2, whatever theta is. A single theta, even the
likeliest, is too sure: few values say little about the lengthscale.

Under every theta the vectors :math:`L^{-1} K(D, X)` are kept, and a value adds a row to each.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, sqrt
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from tellmost.kernels import Constant, Matern, Scaled, Sum
from tellmost.kernels.kernel import Points
from tellmost.posterior.function_space import GrowingMatrix
from tellmost.posterior.gp import GP, HyperPrior
from tellmost.posterior.problem import nonnegative
from tellmost.safebo.bounds import ForRun, PerQuery, SafeSets
from tellmost.safebo.constraints import Side
from tellmost.safebo.outputs import Output
from tellmost.safebo.trials import Trial
from tellmost.shapes import Float, Int

if TYPE_CHECKING:
    from tellmost.safebo.choice import SafeTask
    from tellmost.safebo.round_state import SafeModel

LENGTHSCALES, SCALES, STATED_SCALES, NOISES, ARD_THETAS = 8, 5, 3, 3, 256
"""So many values of each, on a logarithmic scale. The thetas of ``ard`` are a Sobol sequence."""

LEAST_LENGTHSCALE = 0.05
"""The shortest lengthscale, in widths of the domain. The longest is the width itself."""

SCALE_RANGE = (0.1, 10.0)
"""The scales, in mean margins of the seeds."""

STATED_RANGE = (0.5, 2.0)
"""The scales if one is stated, in shares of it: people know it within a factor of two."""

NOISE_RANGE = (0.01, 0.4)
"""The standard deviations of a noise that is not known, in mean margins of the seeds."""

NO_NOISE = 1e-150
"""A noise that is not known, before anything was told. It excuses no value beyond a limit."""

LEAST_RISK = 1e-300
"""A risk below this counts as this one, whose quantile float64 can hold."""

ENOUGH_SEEDS = 5
"""From so many seeds the scale follows. Fewer call for a scale and a lengthscale of the user's."""

CLUSTERED = 0.5
"""Data that cover less of a parameter's range than this say little about the rest of it."""

SetRule = Literal["mixture", "hpd"]


@dataclass(frozen=True, eq=False)
class Thetas:
    """The hyper-parameters of one output, in the units of x and y."""

    shapes: Float[Tensor, "l d"]  # the lengthscales, each once
    shape: Int[Tensor, " k"]  # which of them a theta has
    scale: Float[Tensor, " k"]
    noise_std: Float[Tensor, " k"]
    mean: float
    unit: float

    @classmethod
    def of(
        cls, prior: HyperPrior, width: Float[Tensor, " d"], mean: float, unit: float | None
    ) -> "Thetas":
        """All combinations of the values, or those of a Sobol sequence; see the constants.

        ``unit`` is the mean margin of the seeds, or None before anything was told.
        """
        d, known = len(width), prior.lengthscale
        least = LEAST_LENGTHSCALE * width if known is None else width.new_tensor(known).expand(d)
        margin = 1.0 if unit is None else unit
        scales, noises = margin * width.new_tensor([SCALE_RANGE, NOISE_RANGE])
        if prior.scale is not None:
            scales = prior.scale * width.new_tensor(STATED_RANGE)
        if prior.noise_std is not None or unit is None:
            noises = width.new_tensor([prior.noise_std or NO_NOISE]).expand(2)
        low = torch.cat([least, torch.stack([scales[0], noises[0]])])
        high = torch.cat([torch.maximum(width, least), torch.stack([scales[1], noises[1]])])
        found = low ** (1 - (shares := _shares(prior, d))) * high**shares
        shapes, shape = torch.unique(found[:, :d], dim=0, return_inverse=True)
        return cls(shapes, shape, found[:, d], found[:, d + 1], mean, margin)

    def __len__(self) -> int:
        return len(self.scale)

    @property
    def variance(self) -> Float[Tensor, "k 1"]:
        """The prior variance, which is the same everywhere."""
        return 2 * self.scale.square()[:, None]

    def covariance(self, x: Points, z: Points) -> Float[Tensor, "k n m"]:
        """The prior covariance of all pairs under each theta."""
        exact = "donot_use_mm_for_euclid_dist"
        per = self.shapes[:, None]
        r = sqrt(5) * torch.cdist(x / per, z / per, compute_mode=exact)
        k = (1 + r + r.square() / 3) * torch.exp(-r) + 1
        return k[self.shape] * self.scale.square()[:, None, None]

    def gp(self, number: int, like: GP) -> GP:
        """One theta as a prior."""
        lengthscale = self.shapes[self.shape[number]].tolist()
        matern = Matern(2.5, lengthscale if len(lengthscale) > 1 else lengthscale[0])
        kernel = Scaled(Sum(matern, Constant()), float(self.scale[number]) ** 2)
        noise = float(self.noise_std[number])
        return replace(like, kernel=kernel, mean=self.mean, noise_std=noise)


def _shares(prior: HyperPrior, d: int) -> Float[Tensor, "k p"]:
    """How far each theta lies between the least and the largest value of each parameter."""
    noises = NOISES if prior.noise_std is None else 1
    if prior.ard:
        engine = SobolEngine(d + 2, scramble=True, seed=0)  # type: ignore[no-untyped-call]
        return engine.draw(ARD_THETAS, dtype=torch.float64)
    scales = SCALES if prior.scale is None else STATED_SCALES
    steps = [torch.linspace(0, 1, n, dtype=torch.float64) for n in (LENGTHSCALES, scales, noises)]
    length, scale, noise = torch.cartesian_prod(*steps).unbind(dim=1)
    return torch.stack([*[length] * d, scale, noise], dim=1)


def count_thetas(prior: HyperPrior | None) -> int:
    """So many thetas compete; a prior that is known is alone."""
    return 1 if prior is None else len(_shares(prior, 1))


class Mixture:
    """What was told of one output, and what it says under each theta."""

    def __init__(self, thetas: Thetas, output: Output) -> None:
        self.thetas = thetas
        self.prior = output.gp
        self.trials: list[Trial] = []  # that were taken in
        count, d = len(thetas), thetas.shapes.shape[1]
        self.points = torch.empty(0, d, dtype=torch.float64)
        self.factor = self.points.new_empty(count, 0, 0)  # of the covariances of the values
        self.residuals = self.points.new_empty(count, 0)  # of the values, whitened
        self.log_likelihood = self.points.new_zeros(count)  # less a constant that all share
        self._likeliest: tuple[int, GP] | None = None
        self._rows: MixtureRows | None = None
        if (data := output.gp.data) is not None:
            for x, y, noise in zip(data.points, data.y, data.noise_variance, strict=True):
                self.observe(x[None], float(y), noise)

    def observe(self, point: Points, y: float, noise_variance: Tensor) -> None:
        """Take in a value at a point, a single row."""
        F, t = self.whiten(point)[:, :, 0], len(self.points)
        left = nonnegative(self.thetas.variance[:, 0] - F.square().sum(dim=1))
        std = (left + noise_variance).sqrt()
        surprise = y - self.thetas.mean - (F * self.residuals).sum(dim=1)
        residual = surprise / std
        self.log_likelihood -= 0.5 * residual.square() + std.log()
        self.residuals = torch.cat([self.residuals, residual[:, None]], dim=1)
        factor = self.factor.new_zeros(len(std), t + 1, t + 1)
        factor[:, :t, :t], factor[:, t, :t], factor[:, t, t] = self.factor, F, std
        self.factor, self.points = factor, torch.cat([self.points, point])

    def take(self, output: Output, trial: Trial, values: Mapping[str, float]) -> None:
        """Take in a trial, if one of its values that count is of the output."""
        value = output.value_in(values)
        if value is not None:
            noise = self.thetas.noise_std
            if self.prior.hyperprior is not None and self.prior.hyperprior.noise_std is not None:
                noise = noise.new_tensor(trial.noise_std[output.names[0]])
            self.observe(torch.from_numpy(trial.x)[None], value, noise.square())
        self.trials.append(trial)

    def whiten(self, points: Points) -> Float[Tensor, "k t b"]:
        covariance = self.thetas.covariance(self.points, points)
        return torch.linalg.solve_triangular(self.factor, covariance, upper=False)

    @property
    def weights(self) -> Float[Tensor, " k"]:
        """The probability of each theta, given what was told."""
        return self.log_likelihood.softmax(dim=0)

    def likeliest(self) -> GP:
        """The theta of the largest weight as a prior: the same object while it stays the same."""
        number = int(self.log_likelihood.argmax())
        if self._likeliest is None or self._likeliest[0] != number:
            self._likeliest = number, self.thetas.gp(number, self.prior)
        return self._likeliest[1]

    def at(self, points: Points) -> "MixtureView":
        """What is believed at some points."""
        F = self.whiten(points)
        mean = self.thetas.mean + (self.residuals[:, None] @ F)[:, 0]
        variance = nonnegative(self.thetas.variance - F.square().sum(dim=1))
        return MixtureView(mean, variance, self.weights)

    def over(self, points: Points) -> "MixtureRows":
        """What is kept for the points of a round."""
        if self._rows is None or not torch.equal(self._rows.points, points):
            self._rows = MixtureRows(self, points)
        return self._rows

    def __str__(self) -> str:
        share = float(self.weights.max())
        return f"{self.likeliest().describe()} has {100 * share:.0f}% of {len(self.thetas)} thetas"


class MixtureRows:
    """Means and variances at the points of a round under each theta; every value adds to them."""

    def __init__(self, mixture: Mixture, points: Points) -> None:
        self.mixture, self.points = mixture, points
        F = mixture.whiten(points)
        self._whitened = GrowingMatrix(F.shape[0] * F.shape[2], F.device)
        self._whitened.append(F.transpose(0, 1).flatten(1))
        self._mean = mixture.thetas.mean + (mixture.residuals[:, None] @ F)[:, 0]
        self._variance = mixture.thetas.variance - F.square().sum(dim=1)

    def view(self) -> "MixtureView":
        """What is believed after all that was told."""
        while (t := len(self._whitened.rows)) < len(self.mixture.points):
            self._append(t)
        return MixtureView(self._mean, self._variance.clamp(min=0.0), self.mixture.weights)

    def _append(self, t: int) -> None:
        mixture, before = self.mixture, self._whitened.rows.view(t, *self._mean.shape)
        row = mixture.thetas.covariance(self.points, mixture.points[t : t + 1])[:, :, 0]
        row -= (mixture.factor[:, t, None, :t] @ before.transpose(0, 1))[:, 0]
        row /= mixture.factor[:, t, t, None]
        self._mean += row * mixture.residuals[:, t, None]
        self._variance -= row.square()
        self._whitened.append(row.view(1, -1))


@dataclass(frozen=True)
class MixtureView:
    """What a mixture says about f at some points, in the unit of y."""

    mean: Float[Tensor, "k n"]
    variance: Float[Tensor, "k n"]
    weights: Float[Tensor, " k"]

    def std(self) -> Float[Tensor, " n"]:
        """The standard deviation of the whole mixture."""
        apart = self.mean - self.weights @ self.mean
        return (self.weights @ (self.variance + apart.square())).sqrt()

    def risk(
        self, limit: float, is_lower: bool, among: Int[Tensor, " k"] | None
    ) -> Float[Tensor, " n"]:
        """The probability that f lies beyond a limit: of the mixture, or the largest ``among``."""
        z = (limit - self.mean) / self.variance.sqrt()
        z = (z if is_lower else -z).nan_to_num(nan=0.0)  # NaN: f is the limit itself
        risk = torch.special.ndtr(z)
        return self.weights @ risk if among is None else risk[among].amax(dim=0)

    def densest(self, mass: float) -> Int[Tensor, " _"]:
        """The fewest thetas that have this probability together."""
        weights, order = self.weights.sort(descending=True, stable=True)
        return order[: int((weights.cumsum(dim=0) < mass).sum()) + 1]


class Mixtures:
    """The mixtures of all outputs whose hyper-parameters are not known."""

    def __init__(
        self, seeds: Sequence[Tensor], width: Float[Tensor, " d"], *, takes_all: bool = False
    ) -> None:
        """``takes_all``: from suspect values they learn too."""
        self._takes_all = takes_all
        self._seeds = [tuple(point.tolist()) for point in seeds]
        self._width = width
        self._each: dict[int, Mixture] = {}

    def learn(self, model: "SafeModel", trials: Sequence[Trial]) -> "SafeModel":
        """The model whose priors are the likeliest after these trials: itself if they stay."""
        found = {output.names[0]: output.gp for output in model.outputs}
        for number, output in enumerate(model.outputs):
            if output.gp.hyperprior is not None:
                mixture = self._mixture(number, output, model, trials)
                for trial in trials[len(mixture.trials) :]:
                    mixture.take(output, trial, self._values_of(trial))
                self._each[number] = mixture
                found[output.names[0]] = mixture.likeliest()
        is_same = all(found[output.names[0]] is output.gp for output in model.outputs)
        return model if is_same else model.with_priors(found)

    def predict(self, number: int, point: Points, noise_std: float) -> tuple[float, float]:
        """Mean and standard deviation of the next value of an output at a point."""
        view = self._each[number].at(point)
        return float(view.weights @ view.mean[:, 0]), hypot(float(view.std()), noise_std)

    def describe(self) -> list[tuple[int, str]]:
        """The likeliest theta of each output, by its number."""
        return [(number, str(mixture)) for number, mixture in self._each.items()]

    def over(self, points: Points) -> dict[int, MixtureRows]:
        """What is kept for the points of a round, by the numbers of the outputs."""
        return {number: mixture.over(points) for number, mixture in self._each.items()}

    def _mixture(
        self, number: int, output: Output, model: "SafeModel", trials: Sequence[Trial]
    ) -> Mixture:
        """The mixture that took in the first of these trials, or a new one if there is none."""
        limits = [
            limit
            for name in output.names
            if name in model.constraints
            for limit in (model.constraints[name].at_least, model.constraints[name].at_most)
            if limit is not None
        ]
        mean, unit = place_prior(limits, self._first_values(output, trials), output.names[0])
        old = self._each.get(number)
        if old is not None and (old.thetas.mean, old.thetas.unit) == (mean, unit):
            pairs = zip(old.trials, trials, strict=False)
            if len(old.trials) <= len(trials) and all(one is other for one, other in pairs):
                return old
        assert output.gp.hyperprior is not None
        return Mixture(Thetas.of(output.gp.hyperprior, self._width, mean, unit), output)

    def _values_of(self, trial: Trial) -> Mapping[str, float]:
        return trial.values if self._takes_all else trial.trusted

    def _first_values(self, output: Output, trials: Sequence[Trial]) -> list[float]:
        """The first value at each seed; all values as long as no seed was told."""
        told = [(trial, output.value_in(self._values_of(trial))) for trial in trials]
        first: dict[tuple[float, ...], float] = {}
        for trial, value in told:
            place = tuple(trial.x[: len(self._width)].tolist())
            if value is not None and place in self._seeds:
                first.setdefault(place, value)
        return list(first.values()) or [value for _, value in told if value is not None]


def check_priors(model: "SafeModel", task: "SafeTask") -> None:
    """Refuse what priors that are not known do not go with, and warn where they need more."""
    for output in model.outputs:
        if output.gp.fitted_within is not None:
            _warn_of_clusters(output, output.gp.fitted_within, task.space.width.tolist())
    unknown = [one for one in model.outputs if one.gp.hyperprior is not None]
    if not unknown and model.sets != "mixture":
        raise ValueError(f"sets={model.sets!r} is about GP.unknown, and no prior is one: drop it.")
    for output in (one for one in unknown if not one.is_bounded):
        slopes = [model.constraints[n].slope for n in output.names if n in model.constraints]
        holds_always = not isinstance(model.confidence, PerQuery | ForRun)
        for is_given, what in (
            (task.space.contexts, "contexts, whose range is not known: write the prior down"),
            (holds_always, "beta, whose bounds hold in all rounds at once: give confidence"),
            (any(slopes), "a Lipschitz constant: write the prior down, or drop the constant"),
        ):
            if is_given:
                raise ValueError(
                    f"{output.names[0]!r} is GP.unknown, which does not go with {what}."
                )
        _check_known(output, len(task.space.names), len(task.seeds.points))


def _warn_of_clusters(
    output: Output, extent: tuple[list[float], list[float]], width: Sequence[float]
) -> None:
    share = min((b - a) / w for a, b, w in zip(*extent, width, strict=False))
    if share < CLUSTERED:
        warnings.warn(
            f"the prior of {output.names[0]!r} was fitted to data that cover {share:.0%} of a "
            f"parameter's range. Such a prior can be far too sure of the rest, and queries "
            f"unsafe: use tm.GP.unknown().",
            stacklevel=5,
        )


def _check_known(output: Output, dimension: int, seeds: int) -> None:
    """Refuse lengthscales that do not fit, and warn where too little is stated."""
    name, known = output.names[0], output.gp.hyperprior
    assert known is not None
    if isinstance(known.lengthscale, tuple) and len(known.lengthscale) != dimension:
        raise ValueError(
            f"GP.unknown(lengthscale) of {name!r} must be a number or one per parameter, "
            f"{dimension}; got {len(known.lengthscale)}."
        )
    if seeds < ENOUGH_SEEDS and None in (known.lengthscale, known.scale):
        warnings.warn(
            f"{name!r} is GP.unknown, and {seeds} seeds say little about it: declare "
            f"{ENOUGH_SEEDS} seeds, or state GP.unknown(lengthscale=..., scale=...), the "
            f"shortest lengthscale and a scale that is right within a factor of two.",
            stacklevel=5,
        )


def place_prior(
    limits: Sequence[float], values: Sequence[float], name: str
) -> tuple[float, float | None]:
    """The prior mean and the unit of the scales, from the values of the seeds.

    The mean is the nearest limit, and the unit the mean margin. Without limits they are the mean
    and the standard deviation of the values, or their size if they do not differ.
    """
    if not values:
        return (limits[0] if limits else 0.0), None
    center = fmean(values)
    mean = min(limits, key=lambda limit: abs(center - limit)) if limits else center
    unit = abs(center - mean) if limits else pstdev(values) or abs(center)
    if not unit:
        raise ValueError(
            f"the values told of {name!r} must say how large its margins are, but they lie at "
            f"{mean:g} on average{', its limit' * bool(limits)}. State GP.unknown(scale=..., "
            f"noise_std=...), or declare seeds that are farther from the limit."
        )
    return mean, unit


def weigh_limits(
    sides: Sequence[Side],
    outputs: Sequence[Output],
    beliefs: tuple[Float[Tensor, "o n"], Float[Tensor, "o n"]],
    views: Mapping[int, MixtureView],
    betas: Sequence[float],
    rule: SetRule,
) -> tuple[Float[Tensor, "s n"], SafeSets]:
    r"""The risk of each limit, and the points whose risks together are small enough.

    .. math:: S_n = \{x : \sum_i P_n(g_i(x) < c_i) \le 1 - p\}

    What may be risked, 1 - p, is what the betas leave to all limits. At each point it is shared in
    proportion to the risks, so that all margins have the same sign. A margin is in standard
    deviations of the mixture; ``beliefs`` are means and deviations of the outputs without one.
    """
    beta = torch.tensor([betas[side.output] for side in sides], dtype=torch.float64)[:, None]
    allowed = torch.special.ndtr(-beta).sum()
    risks, stds = [], []
    for side in sides:
        view, scale = views.get(side.output), outputs[side.output].scale
        if view is None:
            mean, std = (part[side.output] for part in beliefs)
            z = (side.margin(mean) / std).nan_to_num(nan=0.0)
            risks.append(torch.special.ndtr(-z))
            stds.append(std)
        else:
            among = view.densest(1 - float(allowed)) if rule == "hpd" else None
            risks.append(view.risk(side.limit * scale, side.is_lower, among))
            stds.append(view.std() / scale)
    risk, std = torch.stack(risks).clamp(LEAST_RISK, 1 - 1e-16), torch.stack(stds)
    z = -torch.special.ndtri(risk)
    needed = -torch.special.ndtri(allowed * risk / risk.sum(dim=0))
    return risk, SafeSets(std * (z - needed), std * (z + beta))
