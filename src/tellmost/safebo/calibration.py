r"""Priors are compared with what was told, and fitted again.

Two views of every output. *Left out*: all values of a place are predicted from those of all other
places. With the precision :math:`Q = (K + N)^{-1}` of the values and their distances r from the
prior mean, those of a place B miss their prediction by

.. math:: e_B = (Q_{BB})^{-1} (Q r)_B \sim N\big(0, (Q_{BB})^{-1}\big),

turned into independent z-scores, the first of a place from other places alone. Rasmussen and
Williams 2006, Sec. 5.4.2, for single values.

*As they came*: z-scores of different places are correlated, and what was asked for depends on what
was told before. So the verdict rests on the likelihood of the values under the prior and under
:data:`ALTERNATIVES`, each a way in which the prior may be wrong. The mean of the likelihood ratios
is a martingale of mean 1 under the prior, however points were chosen. So by Ville's inequality it
ever reaches 1 / alpha with probability alpha at most, however often one looks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels import Gaussian, Kernel, Laplace, Matern, Product, Scaled, Sum
from tellmost.kernels.kernel import Points
from tellmost.kernels.written import HasHyperparameters
from tellmost.numerics import CALIBRATION_ERROR
from tellmost.posterior.gp import GP
from tellmost.safebo.mixture import count_thetas
from tellmost.safebo.outputs import Output
from tellmost.safebo.trials import Trial
from tellmost.shapes import Float

if TYPE_CHECKING:
    from tellmost.safebo.witness import Witness

CALIBRATION_LEVELS = (0.5, 0.8, 0.95, 0.99)
"""Probabilities of the intervals whose coverage is counted: the middle and the tails."""


@dataclass(frozen=True)
class Alternative:
    """The same prior with one thing changed, by a factor."""

    name: str
    lengthscale: float = 1.0
    noise_std: float = 1.0
    prior_std: float = 1.0
    finding: str = ""
    advice: str = ""

    @property
    def is_wider(self) -> bool:
        """If true, its bounds are wider, so that the prior would be overconfident."""
        return self.prior_std * self.noise_std > self.lengthscale

    def covariance(
        self, kernel: Kernel, points: Points, noise_variance: Float[Tensor, " t"]
    ) -> Float[Tensor, "t t"]:
        """The covariance of values observed at the points."""
        K = kernel.block(points / self.lengthscale, points / self.lengthscale)
        return self.prior_std**2 * K + torch.diag(self.noise_std**2 * noise_variance)


AS_GIVEN = Alternative("as given")

SHORTER = "the function changes over shorter distances than its lengthscale says"
LONGER = "the function changes over longer distances than its lengthscale says"
NOISIER = "values scatter more than noise_std says"
QUIETER = "values scatter less than noise_std says"
FARTHER = "values lie farther from the prior mean than its standard deviation says"
CLOSER = "values lie closer to the prior mean than its standard deviation says"
SCALE_UP = "scale the kernel, tm.kernels.Scaled(kernel, 4.0), or correct the mean"
SCALE_DOWN = "safe, but slow: scale the kernel, tm.kernels.Scaled(kernel, 0.25)"
LENGTHEN = "safe, but slow: refit(), or give a longer lengthscale"
LOWER_NOISE = "safe, but slow: lower noise_std, if you trust it; refit() never does"

ALTERNATIVES = (  # lengthscale, noise_std, prior_std
    Alternative(
        "half the lengthscale", 0.5, 1, 1, SHORTER, "refit(), or give a shorter lengthscale"
    ),
    Alternative("three times the noise", 1, 3, 1, NOISIER, "refit(), or raise noise_std"),
    Alternative("twice the prior deviation", 1, 1, 2, FARTHER, SCALE_UP),
    Alternative("twice the lengthscale", 2, 1, 1, LONGER, LENGTHEN),
    Alternative("a third of the noise", 1, 1 / 3, 1, QUIETER, LOWER_NOISE),
    Alternative("half the prior deviation", 1, 1, 0.5, CLOSER, SCALE_DOWN),
)


def alternatives_to(kernel: Kernel) -> Iterator[Alternative]:
    """The alternatives that mean something for a kernel: not every kernel has a lengthscale."""
    is_stretched = has_lengthscale(kernel)
    return (one for one in ALTERNATIVES if is_stretched or one.lengthscale == 1.0)


def has_lengthscale(kernel: Kernel) -> bool:
    """Say whether all parts of a kernel have one. Stretching the points then shortens it."""
    if isinstance(kernel, Scaled):
        return has_lengthscale(kernel.kernel)
    if isinstance(kernel, Sum | Product):
        return has_lengthscale(kernel.first) and has_lengthscale(kernel.second)
    if isinstance(kernel, HasHyperparameters):
        return any("lengthscale" in name for name in kernel.hyperparameters())
    return isinstance(kernel, Gaussian | Laplace | Matern)


TOO_FEW = "too few observations to say"

IN_A_ROW = 3
"""So many implausible values one after the other are no glitches: the model is wrong. A right
model finds one value in 16,000 implausible, so they hardly add to the error."""


def is_decided(evidence: float, surprises: float) -> bool:
    """Whether so much evidence in nats, or so many implausible values, speak against a prior."""
    return evidence >= log(1 / CALIBRATION_ERROR) or surprises >= IN_A_ROW


@dataclass(frozen=True, eq=False)
class OutputCalibration:
    """It says how well the prior of one output fits."""

    name: str
    z: Float[np.ndarray, " t"]  # left out, place by place, in the order of the values
    places: int
    evidence: float  # log of the mean likelihood ratio, in nats; log(1 / error) decides
    likeliest: Alternative | None  # by which the values are most likely; None: the prior itself
    unseen: tuple[str, ...]  # alternatives that so many values would not show if they were true
    surprises: float = 0.0  # implausible values, less a tenth of the plausible ones since

    @property
    def coverage(self) -> dict[float, float]:
        """Share of the values within the central interval of each probability."""
        widths = {p: NormalDist().inv_cdf((1 + p) / 2) for p in CALIBRATION_LEVELS}
        return {
            p: float((np.abs(self.z) <= width).mean()) if len(self.z) else float("nan")
            for p, width in widths.items()
        }

    @property
    def is_wrong(self) -> bool:
        return is_decided(self.evidence, self.surprises)

    @property
    def is_overconfident(self) -> bool:
        """If true, the bounds are too narrow to be safe."""
        return self.verdict.startswith("overconfident")

    @property
    def verdict(self) -> str:
        """Overconfident, underconfident or consistent, or that too little is known to say."""
        if self.surprises >= IN_A_ROW:
            return "overconfident: too many of the last values are implausible"
        if self.is_wrong and self.likeliest is not None:
            word = "overconfident" if self.likeliest.is_wider else "underconfident"
            return f"{word}: {self.likeliest.finding}"
        would_be_missed = any(one.name in self.unseen for one in ALTERNATIVES[:2])
        return TOO_FEW if would_be_missed or not len(self.z) else "consistent"

    @property
    def advice(self) -> str:
        """It says what to do about it."""
        if self.is_wrong and self.likeliest is not None:
            return self.likeliest.advice
        open_yet = f"cannot be ruled out yet: {', '.join(self.unseen)}"
        return open_yet if self.unseen else "nothing to do"

    def cells(self) -> list[str]:
        mean, std = (float(f(self.z)) if len(self.z) else float("nan") for f in (np.mean, np.std))
        shares = [f"{share:.2f}" for share in self.coverage.values()]
        counts = [str(len(self.z)), str(self.places), f"{mean:+.2f}", f"{std:.2f}"]
        return [self.name, *counts, *shares, self.verdict.split(":")[0]]

    def explanation(self) -> str:
        """The finding, if there is one, and what to do about it."""
        finding = self.verdict.partition(": ")[2]
        return f"{self.name}: {finding}{'; ' * bool(finding)}{self.advice}."


@dataclass(frozen=True, eq=False)
class Calibration:
    """It says how well the priors fit, output by output. ``print`` shows it as a table."""

    outputs: dict[str, OutputCalibration]  # by every name that an output serves
    error: float = CALIBRATION_ERROR  # of calling a right prior wrong, for each output

    def __getitem__(self, name: str) -> OutputCalibration:
        return self.outputs[name]

    @property
    def is_wrong(self) -> bool:
        """If true, at least one prior does not fit."""
        return any(one.is_wrong for one in self.outputs.values())

    def __str__(self) -> str:
        each = list({id(one): one for one in self.outputs.values()}.values())
        levels = [f"in {100 * p:g}%" for p in CALIBRATION_LEVELS]
        header = ["output", "values", "places", "mean z", "std z", *levels, "verdict"]
        rows = [header, *(one.cells() for one in each)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        sides = ["<", *[">"] * (len(header) - 2), "<"]
        lines = [
            "  ".join(f"{cell:{side}{width}}" for cell, side, width in parts).rstrip()
            for parts in (zip(row, sides, widths, strict=True) for row in rows)
        ]
        lines += [one.explanation() for one in each]
        rate = f"{100 * self.error:g}% of runs, however often one looks"
        return "\n".join([*lines, f"A right prior is called wrong in at most {rate}."])


def calibrate(
    outputs: Sequence[Output], trials: Sequence[Trial], witnesses: Sequence["Witness"]
) -> Calibration:
    """All outputs, judged by the data of their priors, by what was told, and by the evidence."""
    found = {}
    for output, witness in zip(outputs, witnesses, strict=True):
        if output.is_bounded:
            continue
        points, y, noise = (torch.from_numpy(part) for part in observations_of(output, trials))
        seen = examine(output, points, y, noise)
        judged = replace(seen, surprises=witness.surprises)
        if output.gp.hyperprior is None:
            now = glance(output, witness.ratios(), witness.surprises)
            judged = replace(judged, evidence=now.evidence, likeliest=now.likeliest)
        found.update(dict.fromkeys(output.names, judged))
    return Calibration(found)


def glance(output: Output, ratios: Mapping[str, float], surprises: float) -> OutputCalibration:
    """The verdict alone, without z-scores."""
    evidence, likeliest = weigh(ratios)
    name, nothing = output.names[0], np.empty(0)
    return OutputCalibration(name, nothing, 0, evidence, likeliest, (), surprises)


def examine(
    output: Output,
    points: Points,
    y: Float[Tensor, " t"],
    noise_variance: Float[Tensor, " t"],
) -> OutputCalibration:
    """Judge how well the prior of one output fits its values, which are in their own unit."""
    if not len(y):
        names = tuple(one.name for one in alternatives_to(output.kernel))
        return OutputCalibration(output.names[0], np.empty(0), 0, 0.0, None, names)
    r = y / output.scale - output.mean_of(points)
    noise = noise_variance / output.scale**2
    given = _Likelihood.of(AS_GIVEN.covariance(output.kernel, points, noise), r)
    if given is None:
        raise ValueError(
            f"the noise of {output.names[0]!r} must be large enough for float64 to tell its "
            f"values apart; the smallest is {float(noise_variance.min()) ** 0.5:g}."
        )
    places = np.unique(points.numpy(), axis=0, return_inverse=True)[1].reshape(-1)
    ratios, unseen = _compare(output, points, noise, r, given)
    evidence, likeliest = weigh(ratios)
    evidence -= log(count_thetas(output.gp.hyperprior))  # it was chosen among so many
    z = leave_out(given.factor, r, places)
    count = int(places.max()) + 1
    return OutputCalibration(output.names[0], z, count, evidence, likeliest, unseen)


def leave_out(
    factor: Float[Tensor, "t t"], r: Float[Tensor, " t"], places: np.ndarray
) -> Float[np.ndarray, " t"]:
    """The z-scores of the values of each place given all others, from a Cholesky factor."""
    precision = torch.cholesky_inverse(factor).numpy()
    weighed, z = precision @ r.numpy(), np.empty(len(r))
    for place in range(places.max() + 1):
        rows = np.flatnonzero(places == place)
        covariance = np.linalg.inv(precision[np.ix_(rows, rows)])
        missed = covariance @ weighed[rows]
        z[rows] = np.linalg.solve(np.linalg.cholesky(covariance), missed)
    return z


@dataclass(frozen=True)
class _Likelihood:
    factor: Float[Tensor, "t t"]
    log_determinant: float
    log_density: float  # less the constant that all share

    @classmethod
    def of(cls, C: Float[Tensor, "t t"], r: Float[Tensor, " t"]) -> "_Likelihood | None":
        """The likelihood, or None if float64 cannot factor the covariance."""
        factor, info = torch.linalg.cholesky_ex(C)
        if int(info):
            return None
        u = torch.linalg.solve_triangular(factor, r[:, None], upper=False)
        log_determinant = 2 * float(factor.diagonal().log().sum())
        return cls(factor, log_determinant, -0.5 * (log_determinant + float(u.square().sum())))


def _compare(
    output: Output, points: Points, noise: Tensor, r: Tensor, given: _Likelihood
) -> tuple[dict[str, float], tuple[str, ...]]:
    """The log likelihood ratios, and the alternatives that could not be seen."""
    ratios, unseen, enough = {}, [], log(len(ALTERNATIVES) / CALIBRATION_ERROR)
    for one in alternatives_to(output.kernel):
        C = one.covariance(output.kernel, points, noise)
        other = _Likelihood.of(C, r)
        if other is not None:
            ratios[one.name] = other.log_density - given.log_density
        if other is None or _expected(C, other, given) < enough:
            unseen.append(one.name)
    return ratios, tuple(unseen)


def weigh(ratios: Mapping[str, float]) -> tuple[float, Alternative | None]:
    """The log of the mean likelihood ratio, and the alternative of the largest, if it is above 1.

    Weights stay the same if an alternative is left out, so the mean stays below a martingale.
    """
    if not ratios:
        return 0.0, None
    together = torch.tensor(list(ratios.values()), dtype=torch.float64)
    best = max(ratios, key=lambda name: ratios[name])
    found = next(one for one in ALTERNATIVES if one.name == best)
    evidence = float(together.logsumexp(dim=0)) - log(len(ALTERNATIVES))
    return evidence, found if ratios[best] > 0 else None


def _expected(C: Float[Tensor, "t t"], other: _Likelihood, given: _Likelihood) -> float:
    """The mean log likelihood ratio if the alternative is true: KL(other, given)."""
    explained = float(torch.cholesky_solve(C, given.factor).diagonal().sum())
    difference = other.log_determinant - given.log_determinant
    return 0.5 * (explained - len(C) - difference)


def fit_again(output: Output, trials: Sequence[Trial]) -> GP:
    """The prior under which all values of an output are most likely, with the same mean.

    Too little noise makes bounds too narrow to be safe, so the noise never shrinks: if the fit
    finds less than was stated, the stated noise is kept and the rest is fitted beside it.
    """
    X, y, _ = observations_of(output, trials)
    gp = output.gp
    if gp.hyperprior is not None:
        return gp  # it is weighed anew at every tell
    if not len(y):
        raise ValueError(f"nothing was told of {output.names[0]!r} yet, so nothing can be fitted.")
    found = GP.fit(X, y, gp.kernel, mean=gp.mean)
    if found.noise_std < gp.noise_std:
        found = GP.fit(X, y, gp.kernel, mean=gp.mean, noise_std=gp.noise_std)
    return replace(gp, kernel=found.kernel, noise_std=found.noise_std)


def observations_of(
    output: Output, trials: Sequence[Trial]
) -> tuple[Float[np.ndarray, "t d"], Float[np.ndarray, " t"], Float[np.ndarray, " t"]]:
    """All inputs, values and noise variances. Those that the prior brought along come first."""
    inputs, values, noise = [], [], []
    data = output.gp.data
    if data is not None:
        inputs = list(data.points.numpy())
        values, noise = data.y.tolist(), data.noise_variance.tolist()
    for trial in trials:
        value = output.value_in(trial.values)
        if value is not None:
            inputs.append(trial.x)
            values.append(value)
            noise.append(output.noise_std_of(trial.noise_std) ** 2)
    where = np.array(inputs) if inputs else np.empty((0, 1))
    return where, np.array(values), np.array(noise)
