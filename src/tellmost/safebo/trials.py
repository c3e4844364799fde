"""What was tried and what came out.

Where to measure next, and why that is safe.

States of affairs in which no point can be named; each says what happened and what to do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tellmost.shapes import Float

if TYPE_CHECKING:
    import pandas

Status = Literal["safe", "marginal", "violated", "failed"]
"""Whether the told values satisfy the constraints, break them within the noise, or beyond it."""

STATUS = "status"
"""The column of the history that says so."""


@dataclass(frozen=True, eq=False)
class Trial:
    """A point, the values that were told of it, and the noise of each."""

    x: Float[np.ndarray, " d"]  # with the context, if there is one
    index: int | None  # of the domain's row
    values: Mapping[str, float]  # objective and constraints, in their units; some may be missing
    noise_std: Mapping[str, float]
    status: Status
    broken: tuple[str, ...] = ()  # constraints whose told value lies beyond a limit


@dataclass(frozen=True)
class Event:
    """Something to know of afterwards: after how many trials, and what."""

    trials: int
    kind: Literal["violation", "marginal", "failed", "acknowledged", "refit"]
    text: str


@dataclass(frozen=True)
class History:
    """All trials in their order, as a table."""

    trials: tuple[Trial, ...]
    parameters: tuple[str, ...]  # of x
    outputs: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.trials)

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.trials)

    def __getitem__(self, number: int) -> Trial:
        return self.trials[number]

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """A column per parameter and output, NaN where nothing was told, and the status."""
        xs = np.array([trial.x for trial in self.trials]).reshape(len(self), len(self.parameters))
        table: dict[str, Any] = dict(zip(self.parameters, xs.T, strict=True))
        for name in self.outputs:
            table[name] = np.array([trial.values.get(name, np.nan) for trial in self.trials])
        table[STATUS] = np.array([trial.status for trial in self.trials])
        return table

    def to_frame(self) -> "pandas.DataFrame":
        """The same as a pandas table."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame() needs pandas; pip install pandas.") from error
        return pandas.DataFrame(self.columns)


def parameter_names(names: Sequence[str] | None, dimension: int) -> tuple[str, ...]:
    return tuple(names) if names is not None else tuple(f"x{i}" for i in range(dimension))


Purpose = Literal["seed", "explore", "expand", "risk"]
"""A declared seed that the bounds do not prove safe, or that was not told yet; to learn about
points that are safe; to learn whether others are; or a point that nothing proves safe, which a
strategy chose that does not keep safe."""


@dataclass(frozen=True, eq=False)
class Query:
    """A point to measure, with what is known about its safety."""

    x: Float[np.ndarray, " d"]  # what to set, without the context
    index: int | None  # the row of a finite domain
    lower: Mapping[str, float]  # of each constraint's margin, in its unit; negative: not proven
    probability_safe: float  # under the model, of the point alone: Lipschitz constants aside
    purpose: Purpose
    names: tuple[str, ...] = ()
    context: Float[np.ndarray, " c"] | None = None

    @property
    def parameters(self) -> dict[str, float]:
        """x by name."""
        return dict(zip(self.names, self.x.tolist(), strict=True))

    def __str__(self) -> str:
        where = ", ".join(f"{name}={value:.4g}" for name, value in self.parameters.items())
        known = "; ".join(f"{name} {low:+.3g}" for name, low in self.lower.items())
        margins = f"; margins at least: {known}" if known else ""
        return f"{where} ({self.purpose}; safe with {self.probability_safe:.4f}{margins})"


@dataclass(frozen=True, eq=False)
class Recommendation:
    """The best point that is known to be safe, by the lower bound of its objective."""

    x: Float[np.ndarray, " d"]
    index: int | None
    bound: float  # the objective is at least this, or at most if it is minimized
    mean: float
    std: float
    names: tuple[str, ...] = ()

    @property
    def parameters(self) -> dict[str, float]:
        """x by name."""
        return dict(zip(self.names, self.x.tolist(), strict=True))

    def __str__(self) -> str:
        where = ", ".join(f"{name}={x:.4g}" for name, x in self.parameters.items())
        return f"{where}, {self.mean:.4g} ± {self.std:.2g}"


class NoSafePoint(Exception):  # noqa: N818 - a state of affairs, not a mistake
    """No point is known to be safe, and no seed is left to ask for."""


class Halted(Exception):  # noqa: N818
    """A violation was told, and has not been acknowledged yet."""


class MiscalibratedModel(Exception):  # noqa: N818
    """Confidence intervals of different rounds exclude each other: the model is wrong."""

    def __init__(
        self, name: str, point: Sequence[float], gap: float, *, has_slopes: bool = False
    ) -> None:
        where = ", ".join(f"{x:.4g}" for x in point)
        slopes = " (d) A Lipschitz constant is too small." if has_slopes else ""
        super().__init__(
            f"the interval of {name!r} at ({where}) is empty: the bounds of different rounds "
            f"exclude each other by {gap:.2g} prior standard deviations, which cannot be where "
            f"they hold. (a) beta is too small to hold in all rounds at once: raise it, or give "
            f"confidence=, which intersects nothing. (b) The kernel is wrong, most often its "
            f"lengthscale too long: look at calibration(), then refit(). (c) The noise is larger "
            f"than stated.{slopes}"
        )
        self.name, self.point, self.gap = name, tuple(point), gap
