"""Box: a domain of parameters, for candidates that are not rows of a pool."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from tellmost.rows.checks import check_seed, check_whole
from tellmost.shapes import Bool, Float
from tellmost.targets.parameter import Parameter

SAME_VALUE = 1e-9
"""Share of a column's range within which a number is taken for a value that can be set."""

LONGEST_NAME = 200
"""Databases keep names in columns of a few hundred letters."""

Bounds = float | Sequence[float] | np.ndarray | Tensor


@dataclass(frozen=True, init=False, repr=False)
class Box:
    """All points between two corners: low <= x <= high in every dimension.

    ``low`` and ``high`` are numbers, or have an entry per dimension. A number beside a sequence
    stands for all dimensions. Both are kept as tuples of floats.

    ``Box({"power": tm.Parameter(1, 50, log=True, unit="W"), ...})`` is a box of parameters by
    name. Its points are what kernels see: a number is itself, or its decimal logarithm; a choice
    has a column of 0 or 1 for each of its values; what is fixed has none. ``encode`` and
    ``decode`` translate, and no point lies between the values of a parameter.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    names: tuple[str, ...] | None  # of the columns
    parameters: Mapping[str, Parameter] | None = field(hash=False)

    def __init__(
        self,
        low: Bounds | Mapping[str, Parameter],
        high: Bounds | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        if isinstance(low, Mapping):
            parameters = check_parameters(low, high, names)
            low, high, names = zip(
                *(column for name, one in parameters.items() for column in one.columns(name)),
                strict=True,
            )
            object.__setattr__(self, "parameters", parameters)
        else:
            object.__setattr__(self, "parameters", None)
        if high is None:
            raise TypeError(
                "Box(high) must be given beside low, or Box({name: tm.Parameter(...)}); got None."
            )
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
        count = check_whole(count, "sobol(count)", most=2**SobolEngine.MAXBIT)
        seed = check_seed(seed, "sobol(seed)")
        varying = self.dimension if self.parameters is None else len(self._varying)
        engine = SobolEngine(varying, scramble=True, seed=seed)  # type: ignore[no-untyped-call]
        shares = engine.draw(count, dtype=torch.float64)
        if self.parameters is None:
            return self.corners()[0] + shares * self.width()
        parts = zip(self._varying.values(), shares.T, strict=True)
        return torch.cat([one.spread(share) for one, share in parts], dim=1)

    def contains(self, X: Tensor | np.ndarray) -> Bool[Tensor, " _"]:
        """Say whether each row lies in the box or on its faces, at values that can be set."""
        points = self._read_points(X)
        low, high = self.corners().to(points.device)
        is_inside = ((points >= low) & (points <= high)).all(dim=1)
        if self.parameters is None:
            return is_inside
        apart = (points - self.clip(points)).abs() / self.width()
        return (apart <= SAME_VALUE).all(dim=1)

    def clip(self, X: Tensor | np.ndarray) -> Float[Tensor, "_ d"]:
        """The nearest point of the box for each row."""
        points = self._read_points(X)
        low, high = self.corners().to(points.device)
        points = points.clamp(low, high)
        if self.parameters is None:
            return points
        widths = [one.width for one in self._varying.values()]
        parts = zip(self._varying.values(), torch.split(points, widths, dim=1), strict=True)
        return torch.cat([one.snap(part) for one, part in parts], dim=1)

    @property
    def is_free(self) -> Bool[Tensor, " d"]:
        """The columns that can take all numbers between their bounds."""
        if self.parameters is None:
            return torch.ones(self.dimension, dtype=torch.bool)
        free = [[one.count is None] * one.width for one in self._varying.values()]
        return torch.tensor([is_free for each in free for is_free in each])

    def grid(self, most: int) -> Float[Tensor, "n d"] | None:
        """All points, if there are at most so many."""
        counts = [None] if self.parameters is None else [p.count for p in self._varying.values()]
        total = 1.0
        for count in counts:
            total *= float("inf") if count is None else count
        if total > most:
            return None
        each = [one.spread_all().tolist() for one in self._varying.values()]
        return torch.tensor([[*chain(*row)] for row in product(*each)], dtype=torch.float64)

    def encode(self, setting: Mapping[str, Any], name: str = "setting") -> Float[Tensor, " d"]:
        """The point of a setting, which has a value for every parameter that is not fixed."""
        assert self.parameters is not None
        missing = [one for one in self._varying if one not in setting]
        unknown = [one for one in setting if one not in self.parameters]
        if missing or unknown:
            raise ValueError(
                f"{name} must have the names {', '.join(map(repr, self._varying))}; got "
                f"{', '.join(map(repr, setting))}."
            )
        codes = [self.parameters[one].encode(value, one) for one, value in setting.items()]
        by_name = dict(zip(setting, codes, strict=True))
        return torch.cat([by_name[one] for one in self._varying])

    def decode(self, x: Tensor | np.ndarray) -> dict[str, Any]:
        """The value of every parameter at a point, by name."""
        assert self.parameters is not None
        point = self.clip(torch.as_tensor(x, dtype=torch.float64)[None])[0]
        widths = [one.width for one in self._varying.values()]
        parts = dict(zip(self._varying, torch.split(point, widths), strict=True))
        return {
            name: one.fixed if one.fixed is not None else one.decode(parts[name])
            for name, one in self.parameters.items()
        }

    def lengthscales(self, by_name: Mapping[str, float]) -> list[float]:
        """A lengthscale for each column, from one for each parameter that is not fixed."""
        if set(by_name) != set(self._varying):
            raise ValueError(
                f"lengthscales must have the names {', '.join(map(repr, self._varying))}; got "
                f"{', '.join(map(repr, by_name))}."
            )
        return [
            float(by_name[name]) for name, one in self._varying.items() for _ in range(one.width)
        ]

    @property
    def units(self) -> dict[str, str]:
        """The unit of each parameter that has one."""
        return {name: one.unit for name, one in (self.parameters or {}).items() if one.unit}

    @property
    def _varying(self) -> dict[str, Parameter]:
        return {name: one for name, one in (self.parameters or {}).items() if one.fixed is None}

    def _read_points(self, X: Tensor | np.ndarray) -> Float[Tensor, "_ d"]:
        points = torch.as_tensor(X, dtype=torch.float64)
        if points.ndim != 2 or points.shape[1] != self.dimension:
            raise ValueError(
                f"points of {self!r} must be rows of {self.dimension} numbers each; got shape "
                f"{tuple(points.shape)}. A single point is one row, (1, {self.dimension})."
            )
        return points

    def __repr__(self) -> str:
        if self.parameters is not None:
            return f"Box({dict(self.parameters)!r})"
        low, high = (b[0] if len(b) == 1 else list(b) for b in (self.low, self.high))
        names = "" if self.names is None else f", names={list(self.names)}"
        return f"Box({low}, {high}{names})"


def check_parameters(parameters: Mapping[str, Any], high: Any, names: Any) -> dict[str, Parameter]:
    if high is not None or names is not None:
        raise TypeError(
            "Box({name: tm.Parameter(...)}) has its bounds and names: drop the others."
        )
    for name, one in parameters.items():
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
            raise ValueError(
                f"a parameter must have a name of 1 to {LONGEST_NAME} letters; got {name!r:.80}."
            )
        if not isinstance(one, Parameter):
            raise TypeError(f"parameter {name!r} must be a tm.Parameter; got {one!r}.")
    if all(one.fixed is not None for one in parameters.values()):
        raise ValueError("Box must have a parameter that is not fixed.")
    return dict(parameters)


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
