"""The record holds what was told and how noisy it is, and says what is left to learn."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.numerics import UNINFORMATIVE
from tellmost.rows.checks import check_all_positive, check_positives, check_range, check_vector
from tellmost.running.reading import open_archive, refusing_damage
from tellmost.running.writing import written_whole
from tellmost.shapes import Float
from tellmost.targets.box import Box

NOISE_STEP = 1e-5
"""Half the distance, in sides of a box, over which the slope of the caller's noise is taken. It is
near the cube root of float64's precision, where rounding and curvature err alike."""

OUTSIDE = -1  # the row number of a point that is not in the pool

FORMAT = "tellmost-learner-1"

ARRAYS = ("rows", "points", "y", "noise_variance")


@dataclass(frozen=True)
class Told:
    """An observation: where it was made, what came out, and how noisy it is."""

    row: int  # of the pool, or OUTSIDE
    point: Points  # a single row
    y: float
    noise_variance: float


def as_arrays(told: list[Told], empty: Points) -> dict[str, np.ndarray]:
    """Observations as arrays, in their order; ``empty`` has the shape of no points."""
    points = torch.cat([empty, *(one.point for one in told)])
    return {
        "rows": np.array([one.row for one in told], dtype=np.int64),
        "points": points.cpu().numpy(),
        "y": np.array([one.y for one in told], dtype=np.float64),
        "noise_variance": np.array([one.noise_variance for one in told]),
    }


def read_told(state: Mapping[str, Any], pool: Points, told_before: list[Told]) -> list[Told]:
    """The observations of a saved state, which begin with those of the learner's prior."""
    with refusing_damaged_state():
        found = {name: np.asarray(state[name]) for name in ARRAYS}
        rows = torch.as_tensor(found["rows"]).reshape(-1)
        if len(rows) and (rows.is_floating_point() or rows.dtype == torch.bool):
            raise ValueError(f"rows must be whole numbers; got {rows.dtype}")
        points = torch.as_tensor(found["points"]).to(pool)
        y, noise = (check_vector(found[n], n, len(rows), "observation") for n in ARRAYS[2:])
        if points.shape != (len(rows), *pool.shape[1:]):
            raise ValueError(
                f"{len(rows)} rows need points of shape {(len(rows), *pool.shape[1:])}; got "
                f"{tuple(points.shape)}"
            )
        check_all_positive(noise, "noise_variance")
        check_range(rows[rows != OUTSIDE], len(pool), "rows", "rows of the pool")
        is_inside = (rows != OUTSIDE).to(pool.device)
        if not torch.equal(points[is_inside], pool[rows.to(pool.device)[is_inside]]):
            raise ValueError("points must be those of their rows in the pool; others came")
        if not bool(torch.isfinite(points).all()):
            raise ValueError("points must be finite; a NaN or an infinity came")
        parts = zip(rows.tolist(), points[:, None], y.tolist(), noise.tolist(), strict=True)
        told = [Told(*one) for one in parts]
        theirs, mine = (
            [(one.point.tolist(), one.y, one.noise_variance) for one in some]
            for some in (told[: len(told_before)], told_before)
        )
        if theirs != mine:
            raise ValueError("it must begin with the data of the prior; others came")
        return told


@contextmanager
def refusing_damaged_state() -> Iterator[None]:
    """Refuse a damaged state while it is read, before anything of it counts."""
    what = "the state is damaged, and nothing of it was taken over"
    with refusing_damage(what, "Take one that state_dict() returned."):
        yield


def check_same(state: Mapping[str, Any], mine: Mapping[str, Any], what: str) -> None:
    """The state belongs to something of this kind that was made with the same arguments."""
    if not isinstance(state, Mapping):
        raise TypeError(
            f"state must be a mapping, as state_dict() returns it; got {type(state).__name__}. "
            f"load(path) reads a file, where there is one."
        )
    for name, value in mine.items():
        if state.get(name) != value:
            raise ValueError(
                f"the state is of another {what}: its {name} is {state.get(name)!r}, that of this "
                f"one {value!r}. Make the {what} with the arguments it had."
            )


def write_state(state: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write an .npz file, whole or not at all."""
    about = {name: value for name, value in state.items() if name not in ARRAYS}
    arrays = {name: state[name] for name in ARRAYS}
    with written_whole(Path(path)) as unfinished, unfinished.open("wb") as file:
        np.savez(file, about=np.array(json.dumps(about)), **arrays)


def read_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    what = f"{os.fspath(path)!r} is no saved learner"
    with refusing_damage(what, "ActiveLearner.save writes one."), open_archive(path) as stored:
        about = json.loads(str(stored["about"].read()))
        if about["format"] != FORMAT:
            raise ValueError(f"its format is {about['format']!r}, and this one reads {FORMAT!r}")
        return {**about, **{name: stored[name].read() for name in ARRAYS}}


NoiseLike = float | np.ndarray | Tensor | Callable[[np.ndarray], Any]


@dataclass(frozen=True)
class Noise:
    """The noise variance of an observation, at pool rows and elsewhere."""

    of_rows: Float[Tensor, " n"]
    scalar: float | None  # None: it differs between points
    function: Callable[[np.ndarray], Any] | None = None

    @classmethod
    def of(cls, noise_std: NoiseLike, pool: Points) -> "Noise":
        """Checks standard deviations, and makes variances of them."""
        if callable(noise_std):
            return cls(_asked(noise_std, pool), None, noise_std)
        std = check_positives(noise_std, "noise_std", len(pool), "pool row").to(pool.device)
        return cls(std.square(), float(std[0]) ** 2 if np.ndim(noise_std) == 0 else None)

    def at(self, points: Points) -> Float[Tensor, " b"]:
        """The variance at points that are no rows of the pool."""
        if self.function is not None:
            return _asked(self.function, points)
        if self.scalar is None:
            raise ValueError(
                "noise_std was given per pool row, so the noise of a point outside the pool is "
                "not known. Give it to tell(points, y, noise_std=...), or give the learner a "
                "function of (n, d) points as noise_std."
            )
        return torch.full((len(points),), self.scalar, dtype=torch.float64, device=points.device)

    def near(self, points: Points, box: Box) -> Float[Tensor, " b"]:
        """The variance at points of a box, with a gradient by differences of the function."""
        here = points.detach()
        values = self.at(here)
        if self.function is None:
            return values
        slopes = []
        for step in NOISE_STEP * torch.diag(box.width()).to(here):  # the differences stay inside
            ahead, behind = box.clip(here + step), box.clip(here - step)
            slopes.append((self.at(ahead) - self.at(behind)) / (ahead - behind).sum(dim=1))
        return values + ((points - here) * torch.stack(slopes, 1)).sum(dim=1)


def _asked(function: Callable[[np.ndarray], Any], points: Points) -> Float[Tensor, " b"]:
    values = function(points.detach().cpu().numpy())
    std = check_vector(values, "noise_std(points)", len(points), "point").to(points.device)
    check_all_positive(std, "noise_std(points)")
    return std.square()


@dataclass(frozen=True)
class Outlook:
    """A stop signal: how uncertain the targets are, and what more observations can do about it.

    ``observations`` says how many more, chosen as ``ask`` does, bring the uncertainty down to
    ``level``; None if that takes more than ``at_most``, or if no number of them does. It is no
    estimate under the given prior and with fixed targets, since posterior variances do not depend
    on what is measured.
    """

    uncertainty: float  # mean variance of the targets now
    floor: float  # what would be left of it if f were known at every candidate
    level: float | None = None
    observations: int | None = None
    at_most: int | None = None

    @property
    def reducible(self) -> float:
        """The uncertainty that more observations could remove."""
        return max(self.uncertainty - self.floor, 0.0)

    @property
    def is_reachable(self) -> bool | None:
        """Say if any number of observations reaches the level; None without a level."""
        if self.level is None:
            return None
        return self.level > self.floor or self.uncertainty <= self.level

    @property
    def is_done(self) -> bool:
        """Say if the level is reached. Without a level: if nothing is left to reduce."""
        if self.level is not None:
            return self.uncertainty <= self.level
        return self.reducible <= UNINFORMATIVE * self.uncertainty

    def __str__(self) -> str:
        now = f"uncertainty {self.uncertainty:.4g}, of which {self.reducible:.4g} can be reduced"
        return now if self.level is None else f"{now}; {self._about_level()}"

    def _about_level(self) -> str:
        if self.observations is not None:
            more = f"{self.observations} more observations reach" if self.observations else "below"
            return f"{more} {self.level:.4g}"
        if not self.is_reachable:
            return f"{self.level:.4g} cannot be reached: the floor is {self.floor:.4g}"
        return f"{self.at_most} more observations do not reach {self.level:.4g}"
