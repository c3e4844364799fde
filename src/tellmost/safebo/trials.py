"""Queries are asked for, trials are told, points are recommended, and asking can be refused."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from torch import Tensor

from tellmost.running.extras import make_frame
from tellmost.running.notebooks import html_table
from tellmost.running.reading import refusing_damage
from tellmost.shapes import Float

if TYPE_CHECKING:
    import pandas

    from tellmost.targets.box import Box

Purpose = Literal["seed", "repeat", "explore", "expand", "risk"]
"""It says why a point is asked for. "seed": it was declared safe, and the bounds do not prove it,
or nothing was told of it yet. "repeat": a suspect value was told of it. "explore": it teaches
about safe points. "expand": it teaches whether others are safe. "risk": nothing proves it safe; a
strategy that does not keep safe chose it."""

Status = Literal["safe", "marginal", "violated", "failed"]
"""The told values satisfy the constraints, break them within the noise, or beyond it."""

STATUS = "status"
"""The column of the history that holds the status."""


@dataclass(frozen=True, eq=False)
class Query:
    """A point to measure, with what is known about its safety."""

    x: Float[np.ndarray, " d"]  # what to set, without the context
    index: int | None  # the row of a finite domain
    lower: Mapping[str, float]  # of each constraint's margin, in its unit; negative: not proven
    probability_safe: float  # under the model, of this point alone, without Lipschitz constants
    purpose: Purpose
    names: tuple[str, ...] = ()
    context: Float[np.ndarray, " c"] | None = None
    times_told: int = 0  # of a declared seed: so many trials were told of it
    id: str = ""  # its optimizer, and what it was chosen by
    setting: Mapping[str, Any] = field(default_factory=dict)  # of the parameters of a Box
    units: Mapping[str, str] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, Any]:
        """The values to set by name."""
        return dict(self.setting) or dict(zip(self.names, self.x.tolist(), strict=True))

    @property
    def risk(self) -> float:
        """What it risks under the model. A declared seed is safe by the user's statement."""
        return 0.0 if self.purpose == "seed" else 1.0 - self.probability_safe

    def to_json(self) -> str:
        """The query as text, for a database or another process."""
        context = None if self.context is None else self.context.tolist()
        plain = {"x": self.x.tolist(), "context": context, "lower": dict(self.lower)}
        return json.dumps({**vars(self), **plain})

    @classmethod
    def from_json(cls, text: str) -> "Query":
        """The query that ``to_json`` wrote."""
        with refusing_damage("this is no query in writing", "Query.to_json writes one."):
            given = json.loads(text)
            for name in ("x", "context"):
                if given[name] is not None:
                    given[name] = np.array(given[name], dtype=np.float64)
            return cls(**{**given, "names": tuple(given["names"])})

    def _repr_html_(self) -> str:
        """What to set, and how safe that is, as a table for a notebook."""
        rows = [(name, f"{to} {self.units.get(name, '')}") for name, to in self.parameters.items()]
        rows += [(f"margin of {name}", f"at least {low:.4g}") for name, low in self.lower.items()]
        return html_table(["set", "to"], rows, [str(self)])

    def __str__(self) -> str:
        known = "; ".join(f"{name} {low:+.3g}" for name, low in self.lower.items())
        margins = f"; margins at least: {known}" if known else ""
        where = _in_words(self.parameters, self.units)
        told = f"told {self.times_told} time{'s' * (self.times_told != 1)}"
        why = f"declared seed, {told}" if self.purpose == "seed" else self.purpose
        return f"{where} ({why}; safe with {self.probability_safe:.4f}{margins})"


@dataclass(frozen=True, eq=False)
class Recommendation:
    """The best point that is known to be safe, by the pessimistic bound of its objective."""

    x: Float[np.ndarray, " d"]
    index: int | None
    bound: float  # the objective is at least this, or at most if it is minimized
    mean: float
    std: float
    names: tuple[str, ...] = ()
    setting: Mapping[str, Any] = field(default_factory=dict)  # of the parameters of a Box
    units: Mapping[str, str] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, Any]:
        """The values to set by name."""
        return dict(self.setting) or dict(zip(self.names, self.x.tolist(), strict=True))

    def __str__(self) -> str:
        where = _in_words(self.parameters, self.units)
        return f"{where}, {self.mean:.4g} ± {self.std:.2g}"


def _in_words(parameters: Mapping[str, Any], units: Mapping[str, str]) -> str:
    """Values by name, with their units."""
    words = []
    for name, value in parameters.items():
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        words.append(f"{name}={text}{' ' * (name in units)}{units.get(name, '')}")
    return ", ".join(words)


@dataclass(frozen=True, eq=False)
class Trial:
    """A point, the values that were told of it, and the noise of each."""

    x: Float[np.ndarray, " d"]  # with the context, if there is one
    index: int | None  # of the domain's row
    values: Mapping[str, float]  # objective and constraints, in their units; some may be missing
    noise_std: Mapping[str, float]
    status: Status
    broken: tuple[str, ...] = ()  # constraints whose told value lies beyond a limit
    id: int = -1  # the number by which it is retracted, confirmed or discarded
    query: str | None = None  # the id of the query that it answers
    suspect: tuple[str, ...] = ()  # names of the values that may be glitches

    @property
    def trusted(self) -> dict[str, float]:
        """The values from which the models learn."""
        if not self.suspect:
            return dict(self.values)
        return {name: y for name, y in self.values.items() if name not in self.suspect}


@dataclass(frozen=True)
class Suspect:
    """A told value that the model before it found implausible."""

    id: int  # of the trial
    name: str
    value: float
    expected: float
    z: float  # so many standard deviations of the prediction lie between the two

    def __str__(self) -> str:
        return (
            f"trial {self.id}: {self.name} {self.value:.4g} is suspect: {self.expected:.4g} was "
            f"expected, {self.z:.3g} standard deviations away"
        )


@dataclass(frozen=True)
class Event:
    """Something that happened beside the trials, and after how many of them.

    Its kind is "violation", "marginal", "failed", "acknowledged", "refit", "withdrawn", "suspect",
    "confirmed", "discarded", "retracted", "miscalibrated" or "changed".
    """

    trials: int
    kind: str
    text: str


@dataclass(frozen=True)
class History:
    """All trials in their order, as a table."""

    trials: tuple[Trial, ...]
    parameters: tuple[str, ...]  # of x
    outputs: tuple[str, ...]
    box: "Box | None" = None  # of parameters, whose values the columns show

    def __len__(self) -> int:
        return len(self.trials)

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.trials)

    def __getitem__(self, number: int) -> Trial:
        return self.trials[number]

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """A column per parameter and output, and the status. NaN means that nothing was told."""
        xs = np.array([trial.x for trial in self.trials]).reshape(len(self), len(self.parameters))
        table: dict[str, Any] = dict(zip(self.parameters, xs.T, strict=True))
        if self.box is not None:
            settings = [self.box.decode(x[: self.box.dimension]) for x in xs]
            table = {n: np.array([one[n] for one in settings]) for n in self.box.parameters or {}}
            table |= dict(
                zip(self.parameters[self.box.dimension :], xs.T[self.box.dimension :], strict=True)
            )
        for name in self.outputs:
            table[name] = np.array([trial.values.get(name, np.nan) for trial in self.trials])
        table[STATUS] = np.array([trial.status for trial in self.trials])
        return table

    def to_frame(self) -> "pandas.DataFrame":
        """The columns as a pandas table."""
        return make_frame(self.columns)


Located = tuple[int | None, Tensor]
"""A point, and before it its row if the domain is finite."""


@dataclass(frozen=True)
class Seeds:
    """Points that the user declared safe, under every context or with one behind them."""

    declared: tuple[Located, ...]

    @property
    def points(self) -> list[Float[Tensor, " _"]]:
        return [point for _, point in self.declared]

    def outcomes(self, trials: Sequence[Trial]) -> list[list[Status]]:
        """What came out at each seed in order, at its parameters and its context if it has one."""
        found: dict[tuple[float, ...], list[Status]] = {
            place: [] for place in (tuple(point.tolist()) for point in self.points)
        }
        lengths = {len(place) for place in found}
        for trial in trials if found else ():
            x = tuple(trial.x.tolist())
            for length in lengths:
                if x[:length] in found:
                    found[x[:length]].append(trial.status)
        return [found[tuple(point.tolist())] for point in self.points]

    def describe(self, number: int) -> str:
        return f"Seed ({', '.join(f'{x:.4g}' for x in self.points[number].tolist())})"


class NoSafePoint(Exception):  # noqa: N818 - a state of affairs, not a mistake
    """No point is known to be safe, and no seed is left to ask for."""


class Halted(Exception):  # noqa: N818
    """A violation was told, and has not been acknowledged yet."""

    def __init__(self, violation: str) -> None:
        super().__init__(
            f"a violation was told: {violation}. Bring the system back, for example to "
            f"restore_point, then acknowledge(), or make the optimizer with "
            f"on_violation='continue'."
        )


class RiskSpent(Exception):  # noqa: N818
    """The queries of a run are used up, or have risked all that they may."""

    def __init__(self, promise: str, asked: int, spent: float | None) -> None:
        super().__init__(
            f"the promise for the run, {promise}, allows no other query: {asked} asked for so "
            f"far, {spent or 0.0:.3g} risked. load(path, changed={{'confidence'}}) makes a new "
            f"promise with what was told."
        )


class MiscalibratedModel(Exception):  # noqa: N818
    """What was told speaks against a model, so its bounds cannot be relied on."""

    def __init__(
        self, name: str, reason: str, point: Sequence[float] = (), gap: float = 0.0
    ) -> None:
        super().__init__(reason)
        self.name, self.point, self.gap = name, tuple(point), gap

    @classmethod
    def by_verdict(cls, name: str, verdict: str) -> "MiscalibratedModel":
        """The calibration found a prior overconfident."""
        return cls(
            name,
            f"the model of {name!r} is {verdict}. So its bounds are too narrow to be safe. Usual "
            f"causes: (a) the lengthscale is too long, or the function is steeper in some places; "
            f"(b) the noise is larger than noise_std says, or a sensor is broken; (c) the prior "
            f"mean or the prior standard deviation is wrong. Look at print(calibration()), "
            f"suspects and history. Then refit(), or correct the prior in a new optimizer; "
            f"acknowledge() goes on as it is, and on_miscalibration='log' never halts.",
        )

    @classmethod
    def by_interval(
        cls, name: str, point: Sequence[float], gap: float, *, has_slopes: bool = False
    ) -> "MiscalibratedModel":
        """Confidence intervals of different rounds exclude each other."""
        where = ", ".join(f"{x:.4g}" for x in point)
        slopes = " (d) A Lipschitz constant is too small." if has_slopes else ""
        reason = (
            f"the interval of {name!r} at ({where}) is empty: the bounds of different rounds "
            f"exclude each other by {gap:.2g} prior standard deviations, so they do not hold. "
            f"(a) beta is too small to hold in all rounds at once: raise it, or give "
            f"confidence=, which intersects nothing; load(path, changed={{'beta'}}) keeps what "
            f"was told. (b) The kernel is wrong, most often its lengthscale too long: look at "
            f"calibration(), then refit(). (c) The noise is larger than stated.{slopes}"
        )
        return cls(name, reason, point, gap)
