"""Labels: where they come from, and which of them count."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from tellmost.finetune.inputs import FROM_ZERO, Inputs, is_whole
from tellmost.shapes import Bool, Int

Labeller = Callable[[Int[np.ndarray, " k"]], Int[np.ndarray, " k"]]
"""From rows of the pool to their class numbers."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Of the pool, by rows."""

    read: Labeller
    is_bought: bool  # from a function of the caller's, which may ask somebody again

    def __call__(self, rows: Int[np.ndarray, " k"]) -> Int[np.ndarray, " k"]:
        return self.read(rows)

    def check_same(self, rows: Int[np.ndarray, " k"], saved: Int[np.ndarray, " k"]) -> None:
        """Labels of a state are those of this pool; nothing is bought to find out."""
        if self.is_bought:
            return
        own = self.read(rows)
        for at in np.flatnonzero(own != saved)[:1]:
            raise ValueError(
                f"the state is of another pool or has other labels: there row {rows[at]} has "
                f"label {saved[at]}, here {own[at]}. Make the loop with the pool and the labels "
                f"it had."
            )


def check_labels(labels: Any, pool: Inputs) -> Labels:
    """From the dataset itself (None), one per row of the pool, or a function of rows."""
    if labels is None:
        pool.labels(np.arange(min(len(pool), 1)))  # says at once if the dataset yields none
        return Labels(pool.labels, is_bought=False)
    if callable(labels) and not isinstance(labels, Tensor | np.ndarray):

        def ask(rows: Int[np.ndarray, " k"]) -> Int[np.ndarray, " k"]:
            return class_numbers(labels(rows), len(rows), "what labels(rows) returns")

        return Labels(ask, is_bought=True)
    every = class_numbers(labels, len(pool), "labels")
    return Labels(lambda rows: every[rows], is_bought=False)


def class_numbers(labels: Any, count: int, name: str) -> Int[np.ndarray, " k"]:
    values = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if values.shape != (count,) or not is_whole(values):
        raise ValueError(
            f"{name} must be class numbers, a whole number per row, ({count},); got "
            f"{values.dtype} of shape {values.shape}."
        )
    for at in np.flatnonzero(values < 0)[:1]:
        raise ValueError(f"{name} must be {FROM_ZERO}; got {int(values[at])} at position {at}.")
    return values.astype(np.int64)


def check_task(task: Any) -> tuple[int, ...] | None:
    """The class numbers that count, ascending."""
    if task is None:
        return None
    if not isinstance(task, Iterable):
        raise TypeError(f"task must be several class numbers, such as [3, 6]; got {task!r}.")
    named = list(task)
    numbers = class_numbers(named, len(named), "task")
    if len(numbers) == 0:
        raise ValueError("task must name at least one class number; got none. None counts all.")
    return tuple(np.unique(numbers).tolist())


def is_in_task(
    labels: Int[np.ndarray, " k"], task: tuple[int, ...] | None
) -> Bool[np.ndarray, " k"]:
    return np.ones(len(labels), dtype=bool) if task is None else np.isin(labels, task)
