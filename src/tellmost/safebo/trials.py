"""What was tried and what came out."""

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
