"""Labels as people have them: names, whole numbers or measured numbers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.shapes import Float, Int

KINDS = ("classes", "numbers")


@dataclass(frozen=True)
class Labels:
    """Labels of some rows, as one kind of thing: classes, or numbers."""

    kind: str
    values: np.ndarray  # as given
    why: str  # how the kind was decided, in words

    @property
    def are_classes(self) -> bool:
        return self.kind == "classes"

    def numbers(self) -> Float[Tensor, " n"]:
        return torch.from_numpy(self.values.astype(np.float64))

    def __len__(self) -> int:
        return len(self.values)


def check_labels(labels: Any, name: str, count: int, per: str, kind: str | None = None) -> Labels:
    """One label per row, none missing; their kind comes from the dtype unless it is given."""
    values = _as_vector(labels, name)
    if values.shape != (count,):
        raise ValueError(f"{name} must have one entry per {per}, ({count},); got {values.shape}.")
    if kind is not None and kind not in KINDS:
        raise ValueError(f"kind must be None, 'classes' or 'numbers'; got {kind!r}.")
    is_number = values.dtype.kind in "fiub"
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(
            f"{name} must not be missing; row {row} has {values[row]}. Drop such rows."
        )
    if kind == "numbers" and not is_number:
        raise TypeError(f"{name} must be numbers for kind='numbers'; got dtype {values.dtype}.")
    if kind is not None:
        return Labels(kind, values, "as you say")
    if values.dtype.kind == "f":
        return Labels("numbers", values, "since they are floats")
    what = {"i": "whole numbers", "u": "whole numbers", "b": "true or false"}
    return Labels("classes", values, f"since they are {what.get(values.dtype.kind, 'names')}")


def _as_vector(labels: Any, name: str) -> np.ndarray:
    values = labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if values.dtype != object:
        return values
    missing = [i for i, value in enumerate(values.tolist()) if value is None or value != value]
    if missing:
        row = missing[0]
        raise ValueError(f"{name} must not be missing; row {row} has none. Drop such rows.")
    kinds = {isinstance(value, str) for value in values.tolist()}
    if len(kinds) > 1:
        raise TypeError(f"{name} must be all numbers or all names; got a mixture of both.")
    return np.array(values.tolist())


def number_classes(*labels: Labels) -> tuple[list[Int[Tensor, " _"]], list[str]]:
    """Numbers of the classes, the same for all, and the names of the classes."""
    texts = [label.values for label in labels]
    names, numbers = np.unique(np.concatenate(texts), return_inverse=True)
    ends = np.cumsum([len(text) for text in texts])[:-1]
    parts = np.split(numbers.reshape(-1).astype(np.int64), ends)
    return [torch.from_numpy(part) for part in parts], [str(name) for name in names]
