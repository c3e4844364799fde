"""What was told, in its order, and how it is written down."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.running.writing import written_whole

OUTSIDE = -1
"""The row number of a point that is not in the pool."""

FORMAT = "tellmost-learner-1"

ARRAYS = ("rows", "points", "y", "noise_variance")


@dataclass(frozen=True)
class Told:
    """An observation: where, what, and how noisy."""

    row: int  # of the pool, or OUTSIDE
    point: Points  # a single row
    y: float
    noise_variance: float


@dataclass
class Record:
    """All observations, the first told first."""

    told: list[Told] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.told)

    @property
    def rows(self) -> list[int]:
        """Rows of the pool that were observed."""
        return [one.row for one in self.told if one.row != OUTSIDE]

    def state(self, empty: Points) -> dict[str, Any]:
        """As arrays; ``empty`` has the shape of no points."""
        points = torch.cat([empty, *(one.point for one in self.told)])
        return {
            "rows": np.array([one.row for one in self.told], dtype=np.int64),
            "points": points.cpu().numpy(),
            "y": np.array([one.y for one in self.told], dtype=np.float64),
            "noise_variance": np.array([one.noise_variance for one in self.told]),
        }


def single_rows(points: Points) -> list[Points]:
    """Each point as a single row."""
    return [points[i : i + 1] for i in range(len(points))]


def read_told(state: Mapping[str, Any], like: Tensor) -> list[Told]:
    """The observations of a state, as tensors like those of the pool."""
    missing = [name for name in ARRAYS if name not in state]
    if missing:
        raise ValueError(f"the state is damaged: it has no {missing[0]!r}.")
    if not (np.asarray(state["noise_variance"]) > 0).all():
        raise ValueError("the state is damaged: a noise variance is not positive.")
    points = torch.as_tensor(np.asarray(state["points"])).to(like)
    if points.shape[1:] != like.shape[1:]:
        raise ValueError(
            f"the state has points of shape {tuple(points.shape[1:])}, the pool of "
            f"{tuple(like.shape[1:])}: it belongs to another learner."
        )
    columns = [np.asarray(state[name]).tolist() for name in ("rows", "y", "noise_variance")]
    rows, y, noise = columns
    if not len(points) == len(rows) == len(y) == len(noise):
        raise ValueError("the state is damaged: its arrays differ in length.")
    return [Told(*one) for one in zip(rows, single_rows(points), y, noise, strict=True)]


def write_state(state: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """An .npz file, written whole or not at all."""
    about = {name: value for name, value in state.items() if name not in ARRAYS}
    arrays = {name: state[name] for name in ARRAYS}
    with written_whole(Path(path)) as unfinished, unfinished.open("wb") as file:
        np.savez(file, about=np.array(json.dumps(about)), **arrays)


def read_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            about = json.loads(str(stored["about"]))
            if about.get("format") != FORMAT:
                raise KeyError("format")
            return {**about, **{name: stored[name] for name in ARRAYS}}
    except (KeyError, ValueError, EOFError, AttributeError) as error:
        raise ValueError(
            f"{os.fspath(path)!r} is no saved learner: it was not written by "
            f"ActiveLearner.save, or is damaged."
        ) from error
