"""A Space reads the points that the user writes down, and a Search says where in a box to look.

Kirschner et al. 2019 (LineBO) search a line through the last point finely, along an axis or in any
direction. What was observed and what was recommended is always looked at too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.numerics import SOBOL_POINTS
from tellmost.rows.checks import check_rows, check_whole
from tellmost.rows.sources import read_array
from tellmost.safebo.trials import Located, Query
from tellmost.shapes import Float
from tellmost.targets.box import Box, check_names

SAME_ROW = 1e-9
"""Share of the domain's extent within which a point is taken for a row of it: the rounding of
numbers that were written down with all their digits."""


GRID_POINTS = 5_000
"""A box of at most so many points is searched whole: a round takes milliseconds."""


@dataclass(frozen=True)
class Space:
    """A finite set of points or a box, and the contexts, which are observed but not chosen."""

    rows: Float[Tensor, "n d"] | None
    box: Box | None
    names: tuple[str, ...]
    contexts: tuple[str, ...] = ()
    parameters: Box | None = None  # what points mean, where a box of parameters was given

    @property
    def dimension(self) -> int:
        return len(self.names)

    @cached_property
    def width(self) -> Float[Tensor, " d"]:
        """The extent along each parameter."""
        if self.box is not None:
            return self.box.width()
        assert self.rows is not None
        spread = self.rows.amax(dim=0) - self.rows.amin(dim=0)
        return spread.where(spread > 0, 1.0)

    def sample(self) -> Points:
        """Points that stand for the domain, as the models see them, where contexts are 0."""
        inside = self.rows if self.box is None else self.box.sobol(SOBOL_POINTS, 0)
        assert inside is not None
        return with_context(inside, torch.zeros(len(self.contexts), dtype=torch.float64))

    def read_point(self, x: Any, name: str) -> Located:
        """A point of the domain, and its row if the domain is finite."""
        if isinstance(x, Query):
            x = x.x if x.index is None else x.index
        if isinstance(x, bool | np.bool_):
            raise TypeError(f"{name} must be a point or a row of the domain; got {x!r}.")
        if isinstance(x, int | np.integer):
            return self._read_row(int(x), name)
        if self.parameters is not None and isinstance(x, Mapping):
            point = self.parameters.encode(x, name)
        else:
            point = self._read_numbers(x, name, self.names)
        if self.box is not None:
            if not bool(self.box.contains(point[None])):
                raise ValueError(f"{name} must lie in {self.box!r}; got {point.tolist()}.")
            return None, point if self.box.parameters is None else self.box.clip(point[None])[0]
        assert self.rows is not None
        row = self.find(point.numpy())
        if row is None:
            row = int(self._distances(point).argmin())
            raise ValueError(
                f"{name} must be a point of the domain; got {point.tolist()}, and the nearest is "
                f"row {row}, {self.rows[row].tolist()}."
            )
        return row, self.rows[row]

    def read_told(self, x: Any, row: int | None) -> Located:
        """The point at which something is told: a query, a point, or a row of the domain."""
        if (x is None) == (row is None):
            raise ValueError("tell must be given a query, x=[...] or row=..., one of them.")
        if isinstance(x, int | np.integer) and not isinstance(x, bool):
            raise TypeError(
                f"tell({x}) may mean row {x} or the point [{x}.0]: say tell(row={x}, ...) or "
                f"tell(x=[{x}.0], ...)."
            )
        return self.read_point(x if row is None else row, "x" if row is None else "row")

    def describe(self, x: Float[np.ndarray, " d"]) -> dict[str, Any]:
        """What a point means in words: its setting and the units, if parameters were given."""
        if self.parameters is None:
            return {}
        return {"setting": self.parameters.decode(x), "units": self.parameters.units}

    def find(self, x: Float[np.ndarray, " d"]) -> int | None:
        """The row of a point that was read before, if it is one of the domain's."""
        if self.rows is None:
            return None
        if (exact := self._first_rows.get(tuple(x.tolist()))) is not None:
            return exact
        apart = self._distances(torch.from_numpy(x))
        row = int(apart.argmin())
        return row if float(apart[row]) <= SAME_ROW else None

    def has(self, x: Float[np.ndarray, " d"]) -> bool:
        """If false, the domain was changed since something was told there."""
        return self.find(x) is not None if self.box is None else bool(self.box.contains(x[None]))

    def read_points(self, points: Any, name: str) -> list[Located]:
        """Several points: a list of whatever ``read_point`` takes, or an (n, d) array."""
        if isinstance(points, Query | Mapping):
            points = [points]
        if not isinstance(points, list | tuple):
            points = np.atleast_1d(np.asarray(points)).tolist()
        are_numbers = all(isinstance(one, int | float | np.number) for one in points)
        has_rows = self.rows is not None and not any(isinstance(one, float) for one in points)
        if points and are_numbers and not has_rows and self.dimension > 1:
            points = [points]  # the numbers of a single point
        return [self._read_seed(point, name) for point in points]

    def _read_seed(self, x: Any, name: str) -> Located:
        """A point, or one with a context behind it: then it is meant under that context alone."""
        names = (*self.names, *self.contexts)
        is_whole = set(x) == set(names) if isinstance(x, Mapping) else np.size(x) == len(names)
        if not (self.contexts and is_whole):
            return self.read_point(x, name)
        both = self._read_numbers(x, name, names)
        row, point = self.read_point(both[: self.dimension].tolist(), name)
        return row, torch.cat([point, both[self.dimension :]])

    def check_plain(self, points: Any, name: str) -> None:
        """Whole numbers are rows. Refuse them where they might be meant as a point."""
        if self.rows is None or isinstance(points, Query | Mapping):
            return
        given = np.atleast_1d(np.asarray(points, dtype=object)).tolist()
        if not all(isinstance(x, int | np.integer) and not isinstance(x, bool) for x in given):
            return
        meant = [[x] for x in given] if self.dimension == 1 else [given]
        for point in (one for one in meant if len(one) == self.dimension):
            row = self.find(np.array(point, dtype=np.float64))
            if row is not None and (self.dimension > 1 or [row] != point):
                raise ValueError(
                    f"{name} {given} may be rows of the domain, or the point {point}, which is "
                    f"row {row}. Pass domain[rows] for rows, [[...]] with decimal points for "
                    f"points."
                )

    @cached_property
    def _first_rows(self) -> dict[tuple[float, ...], int]:
        """The first row of each point: what is replayed mostly has all its digits."""
        assert self.rows is not None
        points = self.rows.tolist()
        return {tuple(points[row]): row for row in reversed(range(len(points)))}

    def _distances(self, point: Float[Tensor, " d"]) -> Float[Tensor, " n"]:
        """Measure how far the rows are from a point at most, in shares of the extents."""
        assert self.rows is not None
        return ((self.rows - point) / self.width).abs().amax(dim=1)

    def read_pending(self, pending: Any, now: Float[Tensor, " c"]) -> list[Located]:
        """Points that are waited for, as the models see them. A Query brings its context."""
        waiting = pending if isinstance(pending, list | tuple) else [pending]
        found = []
        for one in waiting:
            brings = isinstance(one, Query) and one.context is not None
            context = self.read_context(one.context) if brings else now
            row, x = self.read_point(one, "pending")
            found.append((row, with_context(x[None], context)[0]))
        return found

    def read_context(self, context: Any) -> Float[Tensor, " c"]:
        if not self.contexts and context is None:
            return torch.empty(0, dtype=torch.float64)
        if not self.contexts:
            raise ValueError("context was given, but the optimizer was made without contexts.")
        if context is None:
            raise ValueError(
                f"context must be given: the values of {', '.join(self.contexts)} now."
            )
        return self._read_numbers(context, "context", self.contexts)

    def context_of(self, point: Float[Tensor, " _"]) -> Float[Tensor, " c"] | None:
        """The context behind a declared point, if it has one."""
        return point[self.dimension :] if len(point) > self.dimension else None

    def _read_numbers(self, x: Any, name: str, names: Sequence[str]) -> Float[Tensor, " d"]:
        if isinstance(x, Mapping):
            if set(x) != set(names):
                raise ValueError(
                    f"{name} must have the names {', '.join(map(repr, names))}; got "
                    f"{', '.join(map(repr, x))}."
                )
            x = [x[one] for one in names]
        point = read_array(np.atleast_1d(np.array(x)), name).to(torch.float64)  # its own memory
        if point.shape != (len(names),):
            raise ValueError(
                f"{name} must have {len(names)} numbers ({', '.join(names)}); got shape "
                f"{tuple(point.shape)}."
            )
        if not bool(point.isfinite().all()):
            raise ValueError(f"{name} must be finite; got {point.tolist()}.")
        return point

    def read_inputs(self, X: Any) -> Points:
        """Points anywhere, as the models see them: with the contexts in their last columns."""
        width = self.dimension + len(self.contexts)
        points = read_array(X, "X").to(torch.float64)
        if points.ndim != 2 or points.shape[1] != width:
            raise ValueError(f"X must be (b, {width}) points; got shape {tuple(points.shape)}.")
        return points

    def _read_row(self, row: int, name: str) -> Located:
        if self.rows is None:
            raise TypeError(
                f"{name} must be a point of {self.box!r}; got the whole number {row}, and a box "
                f"has no rows. A point of one parameter is [{row}.0]."
            )
        if not 0 <= row < len(self.rows):
            raise ValueError(
                f"{name} must be a row of the domain, 0 to {len(self.rows) - 1}; got {row}."
            )
        return row, self.rows[row]


def check_space(domain: Any, names: Sequence[str] | None, contexts: Any) -> Space:
    """The space of a box or of (n, d) points."""
    own, box = None, domain if isinstance(domain, Box) else None
    if box is not None:
        if names is not None:
            raise ValueError("names belong to the Box that was given: Box(low, high, names=...).")
        d, names = box.dimension, box.names
        if box.parameters is not None:
            own = box.grid(GRID_POINTS)
    else:
        rows = read_array(domain, "domain")
        rows = rows[:, None] if rows.ndim == 1 else rows
        check_rows(rows, "domain")
        own = rows.to(torch.float64, copy=True)  # the caller may go on to change the array
        d = own.shape[1]
    words = tuple(f"x{i}" for i in range(d)) if names is None else check_names(names, d, "names")
    others = () if contexts is None else tuple(contexts)
    if isinstance(contexts, str) or not all(isinstance(word, str) for word in others):
        raise TypeError(f"contexts must be a list of names; got {contexts!r}.")
    if len({*others, *words}) < len(others) + len(words):
        raise ValueError(f"contexts must have names of their own; got {list(others)}.")
    parameters = None if box is None or box.parameters is None else box
    return Space(own, box if own is None else None, words, others, parameters)


def with_context(points: Points, context: Float[Tensor, " c"]) -> Points:
    """Points as the models see them: the context in the last columns."""
    if not len(context):
        return points
    return torch.cat([points, context.expand(len(points), -1)], dim=1)


@runtime_checkable
class Search(Protocol):
    """Says at which points of a box a round looks."""

    @property
    def is_refined(self) -> bool:
        """If true, the round climbs from the best of these points."""

    def points(
        self, box: Box, through: Float[Tensor, " d"], seed: int, generator: np.random.Generator
    ) -> Float[Tensor, "n d"]:
        """The points. ``seed`` is the same in all rounds, the generator is that of this one."""


@dataclass(frozen=True)
class CoordinateLines:
    """A line along a random axis through the last point, from face to face of the box."""

    count: int = 2_000

    is_refined: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_whole(self.count, "CoordinateLines(count)", 2)

    def points(
        self, box: Box, through: Float[Tensor, " d"], seed: int, generator: np.random.Generator
    ) -> Float[Tensor, "n d"]:
        axis = int(generator.integers(box.dimension))
        line = through.expand(self.count, -1).clone()
        low, high = box.low[axis], box.high[axis]
        line[:, axis] = torch.linspace(low, high, self.count, dtype=torch.float64)
        return box.clip(line)


@dataclass(frozen=True)
class RandomLines:
    """A line in a random direction through the last point, from face to face of the box.

    Directions are uniform in the unit cube that the box is scaled to.
    """

    count: int = 2_000

    is_refined: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_whole(self.count, "RandomLines(count)", 2)

    def points(
        self, box: Box, through: Float[Tensor, " d"], seed: int, generator: np.random.Generator
    ) -> Float[Tensor, "n d"]:
        low, high = box.corners()
        direction = torch.from_numpy(generator.standard_normal(box.dimension)) * box.width()
        faces = torch.stack([(low - through) / direction, (high - through) / direction])
        back = faces.amin(dim=0).amax()
        ahead = faces.amax(dim=0).amin()
        steps = torch.linspace(float(back), float(ahead), self.count, dtype=torch.float64)
        return box.clip(through + steps[:, None] * direction)


@dataclass(frozen=True)
class SobolSet:
    """The same evenly spread points in every round. The round climbs from the best safe one."""

    count: int = SOBOL_POINTS
    is_refined: bool = True

    def __post_init__(self) -> None:
        check_whole(self.count, "SobolSet(count)", 2)

    def points(
        self, box: Box, through: Float[Tensor, " d"], seed: int, generator: np.random.Generator
    ) -> Float[Tensor, "n d"]:
        return box.sobol(self.count, seed)
