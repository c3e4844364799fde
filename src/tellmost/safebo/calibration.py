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
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels import Gaussian, Kernel, Laplace, Matern, Product, Scaled, Sum
from tellmost.kernels.kernel import Points
from tellmost.kernels.written import HasHyperparameters, is_written, read_kernel
from tellmost.numerics import CALIBRATION_ERROR
from tellmost.posterior.gp import GP
from tellmost.safebo.mixture import count_thetas
from tellmost.safebo.outputs import Output
from tellmost.safebo.trials import Trial
from tellmost.shapes import Float

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

ALTERNATIVES = (
    Alternative(
        "half the lengthscale",
        lengthscale=0.5,
        finding="the function changes over shorter distances than its lengthscale says",
        advice="refit(), or give a shorter lengthscale",
    ),
    Alternative(
        "three times the noise",
        noise_std=3.0,
        finding="values scatter more than noise_std says",
        advice="refit(), or raise noise_std",
    ),
    Alternative(
        "twice the prior deviation",
        prior_std=2.0,
        finding="values lie farther from the prior mean than its standard deviation says",
        advice="scale the kernel, tm.kernels.Scaled(kernel, 4.0), or correct the mean",
    ),
    Alternative(
        "twice the lengthscale",
        lengthscale=2.0,
        finding="the function changes over longer distances than its lengthscale says",
        advice="safe, but slow: refit(), or give a longer lengthscale",
    ),
    Alternative(
        "a third of the noise",
        noise_std=1 / 3,
        finding="values scatter less than noise_std says",
        advice="safe, but slow: lower noise_std, if you trust it; refit() never does",
    ),
    Alternative(
        "half the prior deviation",
        prior_std=0.5,
        finding="values lie closer to the prior mean than its standard deviation says",
        advice="safe, but slow: scale the kernel, tm.kernels.Scaled(kernel, 0.25)",
    ),
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


@dataclass(frozen=True, eq=False)
class OutputCalibration:
    """It says how well the prior of one output fits."""

    name: str
    z: Float[np.ndarray, " t"]  # left out, place by place, in the order of the values
    places: int
    evidence: float  # log of the mean likelihood ratio, in nats; log(1 / error) decides
    likeliest: Alternative | None  # by which the values are most likely; None: the prior itself
    unseen: tuple[str, ...]  # alternatives that so many values would not show if they were true

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
        return self.evidence >= log(1 / CALIBRATION_ERROR)

    @property
    def verdict(self) -> str:
        """Overconfident, underconfident or consistent, or that too little is known to say."""
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


def calibrate(outputs: Sequence[Output], trials: Sequence[Trial]) -> Calibration:
    """All outputs, judged by the data of their priors and by what was told."""
    found = {}
    for output in outputs:
        points, y, noise = (torch.from_numpy(part) for part in observations_of(output, trials))
        found.update(dict.fromkeys(output.names, examine(output, points, y, noise)))
    return Calibration(found)


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
    evidence, likeliest, unseen = _weigh(output, points, noise, r, given)
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


def _weigh(
    output: Output, points: Points, noise: Tensor, r: Tensor, given: _Likelihood
) -> tuple[float, Alternative | None, tuple[str, ...]]:
    """The mean likelihood ratio, the best alternative, and those that could not be seen."""
    ratios, unseen, enough = {AS_GIVEN: 0.0}, [], log(len(ALTERNATIVES) / CALIBRATION_ERROR)
    for one in alternatives_to(output.kernel):
        C = one.covariance(output.kernel, points, noise)
        other = _Likelihood.of(C, r)
        if other is not None:
            ratios[one] = other.log_density - given.log_density
        if other is None or _expected(C, other, given) < enough:
            unseen.append(one.name)
    best = max(ratios, key=lambda one: ratios[one])
    together = torch.tensor([value for one, value in ratios.items() if one is not AS_GIVEN])
    # weights stay the same if an alternative is left out, so the mean stays below a martingale
    evidence = float(together.logsumexp(dim=0)) - log(len(ALTERNATIVES))
    return evidence, None if best is AS_GIVEN else best, tuple(unseen)


def _expected(C: Float[Tensor, "t t"], other: _Likelihood, given: _Likelihood) -> float:
    """The mean log likelihood ratio if the alternative is true: KL(other, given)."""
    explained = float(torch.cholesky_solve(C, given.factor).diagonal().sum())
    difference = other.log_determinant - given.log_determinant
    return 0.5 * (explained - len(C) - difference)


@dataclass(frozen=True)
class Refit:
    """New priors of all outputs, by their first names, and after how many trials they came."""

    trials: int
    priors: Mapping[str, GP]

    def state(self) -> dict[str, Any]:
        """The refit as plain values. A mean that is a function stays that of the old prior."""
        for name, gp in self.priors.items():
            if not is_written(gp.kernel):
                raise ValueError(
                    f"the kernel to which {name!r} was fitted again cannot be written down: "
                    f"{gp.kernel!r}. Keep history, or use kernels of tm.kernels."
                )
        return {
            "trials": self.trials,
            "priors": {
                name: {"kernel": repr(gp.kernel), "noise_std": gp.noise_std}
                for name, gp in self.priors.items()
            },
        }

    @classmethod
    def read(cls, state: Mapping[str, Any], outputs: Sequence[Output], told: int) -> "Refit":
        """The refit that ``state`` wrote, after some of the ``told`` trials."""
        old = {output.names[0]: output.gp for output in outputs}
        priors = {
            name: replace(
                old[name], kernel=read_kernel(prior["kernel"]), noise_std=prior["noise_std"]
            )
            for name, prior in state["priors"].items()
        }
        if state["trials"] not in range(told + 1) or priors.keys() != old.keys():
            raise ValueError(f"a refit of all outputs must come after at most {told} trials")
        return cls(state["trials"], priors)


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


def describe_refit(old: GP, new: GP, name: str) -> str:
    kept = " (noise kept: the fit found less)" if new.noise_std == old.noise_std else ""
    return f"{name}: {old} -> {new}{kept}"
