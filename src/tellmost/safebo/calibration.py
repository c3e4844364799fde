r"""Whether the priors fit what was told.

Two views of every output. *Left out*: all values of a place are predicted from those of all other
places. With the precision :math:`Q = (K + N)^{-1}` of the values and their distances r from the
prior mean, those of a place B miss their prediction by

.. math:: e_B = (Q_{BB})^{-1} (Q r)_B \sim N\big(0, (Q_{BB})^{-1}\big),

turned into independent z-scores, the first of a place from other places alone. Rasmussen and
Williams 2006, Sec. 5.4.2, for single values.

*As they came*: z-scores of different places are correlated, and what was asked for depends on what
was told before. So the verdict rests on the likelihood of the values under the prior and under
:data:`tellmost.safebo.alternatives.ALTERNATIVES`. The mean of the likelihood ratios is a
martingale of mean 1 under the prior, however points were chosen, so by Ville's inequality it ever
reaches 1 / alpha with probability alpha at most: look as often as you like.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.numerics import CALIBRATION_ERROR, CALIBRATION_LEVELS
from tellmost.safebo.alternatives import ALTERNATIVES, AS_GIVEN, Alternative, alternatives_to
from tellmost.safebo.outputs import Output
from tellmost.safebo.refitting import observations_of
from tellmost.safebo.telling import value_of
from tellmost.safebo.trials import Trial
from tellmost.shapes import Float

HEADER = ("output", "values", "places", "mean z", "std z")
TOO_FEW = "too few observations to say"


@dataclass(frozen=True, eq=False)
class OutputCalibration:
    """How well the prior of one output fits."""

    name: str
    z: Float[np.ndarray, " t"]  # left out, place by place, in the order of the values
    places: int
    evidence: float  # log of the mean likelihood ratio, in nats; log(1 / error) decides
    likeliest: Alternative | None  # by which the values are most likely; None: the prior itself
    unseen: tuple[str, ...]  # alternatives that so many values would not show, were they true

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
        """In words: overconfident, underconfident, consistent, or not to be said yet."""
        if self.is_wrong and self.likeliest is not None:
            word = "overconfident" if self.likeliest.is_wider else "underconfident"
            return f"{word}: {self.likeliest.finding}"
        would_be_missed = [one.name for one in ALTERNATIVES[:2] if one.name in self.unseen]
        return TOO_FEW if would_be_missed or not len(self.z) else "consistent"

    @property
    def advice(self) -> str:
        """What to do about it."""
        if self.is_wrong and self.likeliest is not None:
            return self.likeliest.advice
        open_yet = f"cannot be ruled out yet: {', '.join(self.unseen)}"
        return open_yet if self.unseen else "nothing to do"

    def cells(self) -> list[str]:
        mean, std = (float(f(self.z)) if len(self.z) else float("nan") for f in (np.mean, np.std))
        shares = [f"{share:.2f}" for share in self.coverage.values()]
        word = self.verdict.split(":")[0]
        return [
            *(self.name, str(len(self.z)), str(self.places), f"{mean:+.2f}", f"{std:.2f}"),
            *(*shares, word),
        ]


@dataclass(frozen=True, eq=False)
class Calibration:
    """How well the priors fit, output by output; ``print`` shows it as a table."""

    outputs: dict[str, OutputCalibration]  # by every name that an output serves
    error: float = CALIBRATION_ERROR  # of calling a right prior wrong, for each output

    def __getitem__(self, name: str) -> OutputCalibration:
        return self.outputs[name]

    @property
    def is_wrong(self) -> bool:
        """Whether any prior does not fit."""
        return any(one.is_wrong for one in self.outputs.values())

    def __str__(self) -> str:
        each = list({id(one): one for one in self.outputs.values()}.values())
        header = [*HEADER, *(f"in {100 * p:g}%" for p in CALIBRATION_LEVELS), "verdict"]
        rows = [header, *(one.cells() for one in each)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [_line(cells, widths) for cells in rows]
        lines += [f"{one.name}: {_explain(one)}." for one in each]
        rate = f"{100 * self.error:g}% of runs, however often one looks"
        return "\n".join([*lines, f"A right prior is called wrong in at most {rate}."])


def calibrate(outputs: Sequence[Output], trials: Sequence[Trial]) -> Calibration:
    """All outputs, by the data of their priors and by what was told."""
    found = {}
    for output in outputs:
        one = examine(output, *_values_of(output, trials))
        found.update(dict.fromkeys(output.names, one))
    return Calibration(found)


def examine(
    output: Output,
    points: Points,
    y: Float[Tensor, " t"],
    noise_variance: Float[Tensor, " t"],
) -> OutputCalibration:
    """One output, in its own unit."""
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
    z = leave_out(given.factor, r, places)
    count = int(places.max()) + 1
    return OutputCalibration(output.names[0], z, count, evidence, likeliest, unseen)


def leave_out(
    factor: Float[Tensor, "t t"], r: Float[Tensor, " t"], places: np.ndarray
) -> Float[np.ndarray, " t"]:
    """z-scores of all values of a place, given those of the others; from a Cholesky factor."""
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
        """None: float64 cannot factor the covariance."""
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
    ratios, unseen = {AS_GIVEN: 0.0}, []
    for one in alternatives_to(output.kernel):
        C = one.covariance(output.kernel, points, noise)
        other = _Likelihood.of(C, r)
        if other is not None:
            ratios[one] = other.log_density - given.log_density
        if other is None or _expected(C, other, given) < log(
            len(ALTERNATIVES) / CALIBRATION_ERROR
        ):
            unseen.append(one.name)
    best = max(ratios, key=lambda one: ratios[one])
    together = torch.tensor([value for one, value in ratios.items() if one is not AS_GIVEN])
    # weights stay the same where an alternative is left out, so the mean stays below a martingale
    evidence = float(together.logsumexp(dim=0)) - log(len(ALTERNATIVES))
    return evidence, None if best is AS_GIVEN else best, tuple(unseen)


def _expected(C: Float[Tensor, "t t"], other: _Likelihood, given: _Likelihood) -> float:
    """The log likelihood ratio on average, were the alternative true: KL(other, given)."""
    explained = float(torch.cholesky_solve(C, given.factor).diagonal().sum())
    difference = other.log_determinant - given.log_determinant
    return 0.5 * (explained - len(C) - difference)


def _values_of(output: Output, trials: Sequence[Trial]) -> tuple[Points, Tensor, Tensor]:
    """Inputs, values and noise variances, in the order of ``observations_of``."""
    told = [trial for trial in trials if value_of(output, trial.values) is not None]
    data = output.gp.data
    noise = [trial.noise_std[output.names[0]] ** 2 for trial in told]
    if data is not None:
        noise = [*data.noise_variance.tolist(), *noise]
    if not noise:
        empty = torch.empty(0, dtype=torch.float64)
        return empty[:, None], empty, empty
    X, y = observations_of(output, trials)
    return torch.from_numpy(X), torch.from_numpy(y), torch.tensor(noise, dtype=torch.float64)


def _explain(one: OutputCalibration) -> str:
    reason = one.verdict.partition(": ")[2]
    return f"{reason}; {one.advice}" if reason else one.advice


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first = cells[0].ljust(widths[0])
    middle = [cell.rjust(width) for cell, width in zip(cells[1:-1], widths[1:-1], strict=True)]
    return "  ".join([first, *middle, cells[-1]])
