"""Box: a continuous domain, for candidates that are not rows of a pool."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from tellmost.shapes import Bool, Float

Bounds = float | Sequence[float] | np.ndarray | Tensor


@dataclass(frozen=True, init=False, repr=False)
class Box:
    """All points between two corners: low <= x <= high in every dimension.

    ``low`` and ``high`` are numbers, or have an entry per dimension. A number beside a sequence
    stands for all dimensions. Both are kept as tuples of floats.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    names: tuple[str, ...] | None

    def __init__(self, low: Bounds, high: Bounds, names: Sequence[str] | None = None) -> None:
        lows, highs = read_bounds(low, "low"), read_bounds(high, "high")
        dimension = max(len(lows), len(highs))
        lows = lows * dimension if np.ndim(low) == 0 else lows
        highs = highs * dimension if np.ndim(high) == 0 else highs
        words = None if names is None else check_names(names, dimension)
        check_order(lows, highs, words)
        object.__setattr__(self, "low", lows)
        object.__setattr__(self, "high", highs)
        object.__setattr__(self, "names", words)

    @property
    def dimension(self) -> int:
        return len(self.low)

    def corners(self) -> Float[Tensor, "2 d"]:
        """``low`` and ``high``, in float64."""
        return torch.tensor([self.low, self.high], dtype=torch.float64)

    def width(self) -> Float[Tensor, " d"]:
        """The length of each side."""
        low, high = self.corners()
        return high - low

    def sobol(self, count: int, seed: int) -> Float[Tensor, "_ d"]:
        """``count`` points of a scrambled Sobol sequence, which fill the box evenly.

        They depend on the arguments alone: torch's random numbers are neither used nor changed.
        A larger count begins with the same points.
        """
        most = 2**SobolEngine.MAXBIT
        for name, value, low, high in (("count", count, 1, most), ("seed", seed, 0, 2**62)):
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            if not is_whole or not low <= value <= high:
                raise ValueError(
                    f"sobol({name}) must be a whole number from {low} to {high}; got {value!r}."
                )
        engine = SobolEngine(self.dimension, scramble=True, seed=seed)  # type: ignore[no-untyped-call]
        shares = engine.draw(count, dtype=torch.float64)
        return self.corners()[0] + shares * self.width()

    def contains(self, X: Tensor | np.ndarray) -> Bool[Tensor, " _"]:
        """Say whether each row lies in the box or on its faces."""
        points = self._read_points(X)
        low, high = self.corners().to(points.device)
        return ((points >= low) & (points <= high)).all(dim=1)

    def clip(self, X: Tensor | np.ndarray) -> Float[Tensor, "_ d"]:
        """The nearest point of the box for each row."""
        points = self._read_points(X)
        low, high = self.corners().to(points.device)
        return points.clamp(low, high)

    def _read_points(self, X: Tensor | np.ndarray) -> Float[Tensor, "_ d"]:
        points = torch.as_tensor(X, dtype=torch.float64)
        if points.ndim != 2 or points.shape[1] != self.dimension:
            raise ValueError(
                f"points of {self!r} must be rows of {self.dimension} numbers each; got shape "
                f"{tuple(points.shape)}. A single point is one row, (1, {self.dimension})."
            )
        return points

    def __repr__(self) -> str:
        low, high = (b[0] if len(b) == 1 else list(b) for b in (self.low, self.high))
        names = "" if self.names is None else f", names={list(self.names)}"
        return f"Box({low}, {high}{names})"


def read_bounds(bounds: object, name: str) -> tuple[float, ...]:
    """Finite numbers, one per dimension."""
    wrong = f"Box({name}) must be a finite number, or a sequence with one per dimension"
    try:
        values = np.asarray(bounds)
        if values.dtype.kind not in "iuf":  # neither text nor truth values, which float() takes
            raise TypeError
    except (TypeError, ValueError) as error:
        raise TypeError(f"{wrong}; got {bounds!r}.") from error
    if values.ndim > 1 or values.size == 0:
        raise ValueError(f"{wrong}; got an array of shape {values.shape}.")
    read = tuple(float(value) for value in values.reshape(-1))
    if not all(isfinite(value) for value in read):
        raise ValueError(f"{wrong}; got {bounds!r}. A box has no open sides: give finite limits.")
    return read


def check_names(
    names: Sequence[str], dimension: int, argument: str = "Box(names)"
) -> tuple[str, ...]:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{argument} must be a list of words, one per dimension; got {names!r}.")
    if len(names) != dimension:
        raise ValueError(
            f"{argument} must have one name per dimension; got {len(names)} for {dimension}. "
            f"Give low and high of a Box an entry for each dimension."
        )
    if len(set(names)) < len(names):
        raise ValueError(f"{argument} must differ from each other; got {list(names)!r}.")
    return tuple(names)


def check_order(
    low: tuple[float, ...], high: tuple[float, ...], names: tuple[str, ...] | None
) -> None:
    if len(low) != len(high):
        raise ValueError(
            f"Box(low, high) must have the same number of dimensions; got {len(low)} and "
            f"{len(high)}."
        )
    for i, (a, b) in enumerate(zip(low, high, strict=True)):
        where = f"dimension {i}" if names is None else f"{names[i]!r}"
        if not a < b:
            raise ValueError(
                f"Box(low, high) must have low < high in every dimension; got {a} and {b} in "
                f"{where}. Leave out what does not vary."
            )
        if not isfinite(b - a):
            raise ValueError(
                f"Box(low, high) must have a width that float64 can hold; got {a} to {b} in "
                f"{where}. Measure it in another unit."
            )
