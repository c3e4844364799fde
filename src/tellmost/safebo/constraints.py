"""A safe point must satisfy limits of unknown functions, which may have Lipschitz constants."""

from collections.abc import Collection, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.numerics import CHUNK_BYTES
from tellmost.posterior.gp import GP, root_of_covariance
from tellmost.rows.checks import (
    check_number,
    check_positive,
    check_rows,
    check_seed,
    check_vector,
    check_whole,
)
from tellmost.rows.sources import read_array, spans
from tellmost.running import workers
from tellmost.shapes import Bool, Float

VIOLATION_Z = 3.0
"""A measured value beyond a limit by so many standard deviations of its noise is a violation: a
value right at the limit is measured as one in 1.3 of 1,000 cases."""


@dataclass(frozen=True)
class Lipschitz:
    """f(x) and f(z) differ by at most ``constant`` times their distance in a norm, 1 or 2.

    Contexts are inputs too, so they count in the distance.
    """

    constant: float
    norm: int = 2

    def __post_init__(self) -> None:
        check_positive(self.constant, "Lipschitz(constant)")
        if self.norm not in (1, 2):
            raise ValueError(f"Lipschitz(norm) must be 1 or 2; got {self.norm!r}.")

    def distances(self, x: Points, z: Points) -> Float[Tensor, "n m"]:
        """All distances, exact to the last digits. One that is too short would be dangerous."""
        exact = "donot_use_mm_for_euclid_dist"
        return torch.cdist(x, z, p=float(self.norm), compute_mode=exact)

    def raise_lower(
        self,
        lower: Float[Tensor, " n"],
        points: Points,
        where: Points,
        values: Float[Tensor, " z"],
    ) -> Float[Tensor, " n"]:
        r"""A lower bound l at the points, raised by its values at other points Z.

        .. math:: \max\big(l(x), \max_{z \in Z} l(z) - L \|x - z\|\big)
        """
        raised = lower.clone()
        if not len(where):
            return raised

        def raise_some(rows: slice) -> None:
            reached = (values - self.constant * self.distances(points[rows], where)).amax(dim=1)
            torch.maximum(raised[rows], reached, out=raised[rows])

        workers.each_slice(len(points), max(CHUNK_BYTES // (8 * len(where)), 1), raise_some)
        return raised


@dataclass(frozen=True, eq=False)
class Constraint:
    r"""A function that must stay above, below or between limits, and what is believed about it.

    ``gp`` may be the objective's own, or that of another constraint. Then one function serves as
    both, and its value is told once. A safe value can be measured as unsafe, so a told value
    violates the constraint only if it lies beyond the limit by more than ``violation_z`` standard
    deviations of its noise. With ``critical=True`` any value beyond the limit violates it.

    With ``noise_bound`` E, which no value is wrong by more than, the Lipschitz constant L alone
    proves points safe, and no prior (Fiedler et al., TMLR 2024). For a lower limit c these are

    .. math:: S_n = \{x : \max_t y_t - E - L \|x - x_t\| \ge c\}.

    Then ``gp`` only says what there is to learn. Without it the objective's kernel does.
    """

    gp: Any = None  # a GP, or None beside a noise bound
    _: KW_ONLY
    at_least: float | None = None
    at_most: float | None = None
    lipschitz: float | Lipschitz | None = None  # a number is a constant of the Euclidean norm
    noise_bound: float | None = None
    violation_z: float = VIOLATION_Z
    critical: bool = False

    def __post_init__(self) -> None:
        if self.noise_bound is not None:
            check_positive(self.noise_bound, "Constraint(noise_bound)")
        is_alone = self.noise_bound is not None and self.gp is None
        if not is_alone and not isinstance(self.gp, GP):
            raise TypeError(
                f"Constraint(gp) must be a tm.GP, such as tm.GP(tm.kernels.Matern(2.5)), or be "
                f"left out where lipschitz= and noise_bound= are known; got "
                f"{type(self.gp).__name__}."
            )
        if self.noise_bound is not None and self.lipschitz is None:
            raise ValueError("Constraint(noise_bound) proves nothing alone: give lipschitz= too.")
        self._check_limits()
        if self.lipschitz is not None and not isinstance(self.lipschitz, Lipschitz):
            object.__setattr__(self, "lipschitz", Lipschitz(self.lipschitz))
        check_number(self.violation_z, "Constraint(violation_z)", least=0)

    def _check_limits(self) -> None:
        if self.at_least is None and self.at_most is None:
            raise ValueError("Constraint must have a limit: at_least=..., at_most=..., or both.")
        for name in ("at_least", "at_most"):
            if (limit := getattr(self, name)) is not None:
                object.__setattr__(self, name, check_number(limit, f"Constraint({name})"))
        low, high = self._limits
        if not low < high:
            raise ValueError(
                f"Constraint(at_least, at_most) must leave room between them; got at_least="
                f"{low:g} and at_most={high:g}, which nothing satisfies."
            )

    @property
    def _limits(self) -> tuple[float, float]:
        low, high = self.at_least, self.at_most
        return -inf if low is None else low, inf if high is None else high

    @property
    def limits(self) -> list[float | None]:
        return [self.at_least, self.at_most]

    def believing(self, objective: GP) -> "Constraint":
        """The same with a GP: its own, or one that varies as the objective does."""
        if self.gp is not None:
            return self
        if (known := objective.hyperprior) is not None:
            return replace(self, gp=GP.unknown(known.lengthscale, ard=known.ard))
        limits = [one for one in (self.at_least, self.at_most) if one is not None]
        noise = self.noise_bound or objective.noise_std
        return replace(self, gp=replace(objective, mean=limits[0], noise_std=noise, data=None))

    @property
    def slope(self) -> Lipschitz | None:
        """The Lipschitz constant if one is known, whatever form it was given in."""
        return self.lipschitz if isinstance(self.lipschitz, Lipschitz) else None

    def excess(self, value: float) -> float:
        """Say how far a value lies beyond the limits. Within them this is 0 or negative."""
        low, high = self._limits
        return max(low - value, value - high)

    def is_violated(self, value: float, noise_std: float) -> bool:
        """Say whether a told value lies beyond the limits by more than noise explains."""
        bound = self.violation_z * noise_std if self.noise_bound is None else self.noise_bound
        return bool(self.excess(value) > (0.0 if self.critical else bound))


@dataclass(frozen=True)
class Side:
    """One limit of a constraint, in units of its output's prior standard deviation."""

    name: str  # of the constraint
    output: int
    is_lower: bool  # at_least
    limit: float

    def margins(
        self, lower: Float[Tensor, "*n"], upper: Float[Tensor, "*n"]
    ) -> tuple[Float[Tensor, "*n"], Float[Tensor, "*n"]]:
        """Say how far values between two bounds stay within the limit, at worst and at best."""
        worst, best = (lower, upper) if self.is_lower else (upper, lower)
        return self.margin(worst), self.margin(best)

    def margin(self, values: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
        """Say how far values stay within the limit."""
        return values - self.limit if self.is_lower else self.limit - values


def steepest_slope(points: Any, values: Any, *, norm: int = 2) -> Lipschitz:
    r"""The least constant that holds for a function on a finite set of points.

    .. math:: L = \max_{x \ne z} |f(x) - f(z)| / \|x - z\|

    Points at the same place count once. Between the points the function may be steeper.
    """
    where = _read_points(points)
    f = check_vector(values, "values", len(where), "point")
    return Lipschitz(_steepest(where, f[None], norm), norm)


def estimate_lipschitz(
    gp: GP, points: Any, *, draws: int = 1, seed: int = 0, norm: int = 2
) -> Lipschitz:
    """The steepest slope of functions drawn from a prior at some points.

    Hübotter et al. 2024 give this to SafeOpt where the constant is not known. It is no bound: the
    unknown function can be steeper than a draw.
    """
    where = _read_points(points)
    K = gp.kernel.block(where, where)
    root = root_of_covariance(K, gp.kernel.diagonal(where))
    generator = torch.Generator().manual_seed(check_seed(seed))
    size = root.shape[1], check_whole(draws, "draws")
    f = (root @ torch.randn(size, generator=generator, dtype=torch.float64)).T
    return Lipschitz(_steepest(where, f + gp.mean_of(where), norm), norm)


def _read_points(points: Any) -> Points:
    where = read_array(np.asarray(points, dtype=np.float64), "points")
    where = where[:, None] if where.ndim == 1 else where
    check_rows(where, "points")
    return where


def _steepest(points: Points, values: Float[Tensor, "k n"], norm: int) -> float:
    steepest = 0.0
    for start, stop in spans(len(points), max(CHUNK_BYTES // (8 * len(points)), 1)):
        apart = Lipschitz(1.0, norm).distances(points[start:stop], points)
        for f in values:
            slope = (f[start:stop, None] - f).abs() / apart
            steepest = max(steepest, float(slope.where(apart > 0, 0.0).max()))
    return steepest


def find_reached(
    slopes: Collection[Lipschitz], where: Points, margins: Float[Tensor, "s z"], points: Points
) -> Bool[Tensor, " n"]:
    """Find the points that some z reaches."""
    found = torch.zeros(len(points), dtype=torch.bool)
    for _, reaches in _reaches(slopes, where, margins, points):
        found |= reaches.any(dim=0)
    return found


def find_reaching(
    slopes: Collection[Lipschitz], where: Points, margins: Float[Tensor, "s z"], points: Points
) -> Bool[Tensor, " z"]:
    """Find the z that reach some point."""
    found = torch.zeros(len(where), dtype=torch.bool)
    for rows, reaches in _reaches(slopes, where, margins, points):
        found[rows] = reaches.any(dim=1)
    return found


def _reaches(
    slopes: Collection[Lipschitz], where: Points, margins: Float[Tensor, "s z"], points: Points
) -> Iterator[tuple[slice, Bool[Tensor, "b n"]]]:
    r"""Find which z reach which points, in blocks of z: they keep every limit there.

    .. math:: m_i(z) - L_i \|x - z\| \ge 0 \quad \forall i,

    where m are margins at z, pessimistic or optimistic.
    """
    for start, stop in spans(len(where), max(CHUNK_BYTES // (8 * max(len(points), 1)), 1)):
        rows = slice(start, stop)
        reaches = torch.ones(stop - start, len(points), dtype=torch.bool)
        for margin, slope in zip(margins[:, rows], slopes, strict=True):
            apart = slope.distances(where[rows], points)
            reaches &= margin[:, None] - slope.constant * apart >= 0
        yield rows, reaches
