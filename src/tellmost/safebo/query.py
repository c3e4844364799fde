"""Where to measure next, and why that is safe."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tellmost.shapes import Float

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
