r"""A witness predicts each value before it is told, and remembers how well every prior did.

The values of one output are predicted under its prior and under the alternatives of
:mod:`tellmost.safebo.calibration`, each from the values before. The log ratio of the likelihoods

.. math:: \sum_t \log \frac{p_\text{alt}(y_t \mid y_{<t})}{p(y_t \mid y_{<t})}

is a sum over values, so it is carried on when the prior is changed: nothing that spoke against the
old prior is forgotten. A value that is implausible under the prior may be a glitch. It is
predicted, and nothing is predicted from it until it is confirmed. Its log ratio counts for
:data:`MOST_OF_ONE` at most; a likelihood ratio that is cut off still has a mean of at most 1.
"""

from collections.abc import Sequence
from math import inf, log
from typing import NamedTuple

import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.numerics import CALIBRATION_ERROR
from tellmost.posterior.function_space import FunctionPosterior
from tellmost.posterior.problem import nonnegative
from tellmost.safebo.calibration import AS_GIVEN, IN_A_ROW, Alternative, alternatives_to
from tellmost.safebo.outputs import Output
from tellmost.shapes import Float

MOST_OF_ONE = log(1 / CALIBRATION_ERROR) / IN_A_ROW
"""The most that an implausible value counts, in nats: a third of what decides."""

FORGIVEN = 0.1
"""A plausible value takes back this share of an implausible one: the log ratio of a model under
which one value in ten is implausible falls by as much."""


class Hypothesis:
    """What the values of an output say of the next one, if one alternative is true."""

    def __init__(self, output: Output, alternative: Alternative) -> None:
        self._output, self._alternative = output, alternative
        self._posterior = FunctionPosterior(output.kernel, torch.device("cpu"))
        self._values = torch.empty(0, dtype=torch.float64)  # less the prior mean
        self._whitened = self._values

    def take(self, points: Points, y: Float[Tensor, " b"], noise: Float[Tensor, " b"]) -> None:
        """Condition on values of f / scale."""
        other, std = self._alternative, self._prior_std
        values = (y - self._output.mean_of(points)) / std
        where, own = points / other.lengthscale, noise * (other.noise_std / std) ** 2
        self._values = torch.cat([self._values, values])
        if len(values) > 1:
            self._posterior.observe_in_turn(where, own)
            self._whitened = self._posterior.whiten_values(self._values)
            return
        F, s = self._posterior.observe(where, float(own))
        self._whitened = torch.cat([self._whitened, (values - F @ self._whitened) / s**0.5])

    def predict(self, point: Points, noise: float) -> tuple[float, float]:
        """Mean and standard deviation of a value of f / scale at a point, a single row."""
        (mean,), (variance,) = (one.tolist() for one in self.at(point))
        return mean, (variance + noise * self._alternative.noise_std**2) ** 0.5

    def at(self, points: Points) -> tuple[Float[Tensor, " b"], Float[Tensor, " b"]]:
        """Mean and variance of f / scale at some points."""
        where = points / self._alternative.lengthscale
        F = self._posterior.whiten(where)
        left = nonnegative(self._output.kernel.diagonal(where) - F.square().sum(dim=0))
        mean = self._output.mean_of(points) + self._prior_std * (F.T @ self._whitened)
        return mean, self._prior_std**2 * left

    def log_likelihoods(self) -> Float[Tensor, " t_1"]:
        """The log density of the first values, of 0, 1 and more of them.

        It lacks a constant that all alternatives share.
        """
        each = self._posterior.log_scales + log(self._prior_std) + 0.5 * self._whitened.square()
        return -torch.cat([each.new_zeros(1), each.cumsum(dim=0)])

    def log_density(self, point: Points, y: float, noise: float) -> float:
        """The same of one more value."""
        mean, std = self.predict(point, noise)
        return -log(std) - 0.5 * ((y - mean) / std) ** 2

    @property
    def count(self) -> int:
        """So many values were taken in."""
        return len(self._values)

    @property
    def _prior_std(self) -> float:
        return self._alternative.prior_std


class Account(NamedTuple):
    """What a witness has counted at some time."""

    values: int  # so many were taken in
    beside: dict[str, float]
    surprises: float
    fresh_surprises: float


class Witness:
    """The predictions of one output. Values are in its unit.

    Where hyper-parameters are weighed anew at every tell there is no prior to judge, so the
    witness only counts implausible values.
    """

    def __init__(self, output: Output, before: "Witness | None" = None) -> None:
        """``before`` is the witness of another prior, whose evidence is carried on."""
        self._output = output
        self._given = Hypothesis(output, AS_GIVEN)
        self._has_prior = output.gp.hyperprior is None and not output.is_bounded
        others = alternatives_to(output.kernel) if self._has_prior else ()
        self._others = {one.name: Hypothesis(output, one) for one in others}
        self._waiting: list[tuple[Points, Tensor, Tensor]] = []  # for the alternatives
        self._beside = {} if before is None else before.ratios()  # beside the values taken in
        self.surprises: float = 0.0 if before is None else before.surprises
        self.fresh_surprises = 0.0  # since asking went on last
        if (data := output.gp.data) is not None:
            noise = data.noise_variance / output.scale**2
            self._take(data.points.to("cpu", torch.float64), data.y / output.scale, noise)

    def predict(self, point: Points, noise_std: float) -> tuple[float, float]:
        """Mean and standard deviation of the next value at a point, a single row."""
        scale = self._output.scale
        mean, std = self._given.predict(point, (noise_std / scale) ** 2)
        return mean * scale, std * scale

    def at(self, points: Points) -> tuple[Float[Tensor, " b"], Float[Tensor, " b"]]:
        """Mean and standard deviation of f / scale, by what was told and is not suspect."""
        mean, variance = self._given.at(points)
        return mean, variance.sqrt()

    def begin_with(self, points: Points, y: Tensor, noise_std: Tensor) -> None:
        """Take in values that the evidence before contains already."""
        scale = self._output.scale
        self._take(points, y / scale, (noise_std / scale) ** 2)
        already = self._beside
        self._beside = {}
        now = self.ratios()
        self._beside = {name: already.get(name, 0.0) - now[name] for name in now}

    def count(self, is_implausible: bool) -> None:
        """Count implausible values. Ten plausible ones weigh one of them up."""
        step = 1.0 if is_implausible else -FORGIVEN
        self.surprises = max(self.surprises + step, 0.0)
        self.fresh_surprises = max(self.fresh_surprises + step, 0.0)

    def take(self, point: Points, y: float, noise_std: float, most: float) -> None:
        """Take in a value, which counts for ``most`` nats at most: inf unless it was doubted."""
        scale, before = self._output.scale, {} if most == inf else self.ratios()
        value = torch.tensor([[y / scale, (noise_std / scale) ** 2]], dtype=torch.float64)
        self._take(point, value[:, 0], value[:, 1])
        for name, now in ({} if most == inf else self.ratios()).items():
            self._beside[name] = self._beside.get(name, 0.0) - max(now - before[name] - most, 0.0)

    def doubt(self, point: Points, y: float, noise_std: float) -> None:
        """Count an implausible value, and predict nothing from it."""
        if not self._has_prior:
            return
        scale = self._output.scale
        value = point, y / scale, (noise_std / scale) ** 2
        given = self._given.log_density(*value)
        self._catch_up()
        for name, other in self._others.items():
            more = min(other.log_density(*value) - given, MOST_OF_ONE)
            self._beside[name] = self._beside.get(name, 0.0) + more

    def ratios(self) -> dict[str, float]:
        """The log likelihood ratio of each alternative, by its name."""
        return self.ratios_at([self.account()])[0]

    def ratios_at(self, accounts: Sequence[Account]) -> list[dict[str, float]]:
        """The same at some times."""
        self._catch_up()
        given = self._given.log_likelihoods()
        each = {n: (one.log_likelihoods() - given).tolist() for n, one in self._others.items()}
        return [
            {n: ratios[one.values] + one.beside.get(n, 0.0) for n, ratios in each.items()}
            for one in accounts
        ]

    def account(self) -> Account:
        """What was counted so far."""
        counts = self.surprises, self.fresh_surprises
        return Account(self._given.count, dict(self._beside), *counts)

    def _take(self, points: Points, y: Tensor, noise: Tensor) -> None:
        if not self._has_prior:
            return
        self._given.take(points, y, noise)
        self._waiting.append((points, y, noise))

    def _catch_up(self) -> None:
        if self._waiting:
            together = [torch.cat(parts) for parts in zip(*self._waiting, strict=True)]
            for other in self._others.values():
                other.take(*together)
            self._waiting.clear()
