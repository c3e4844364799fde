"""What happened in each round: a value."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tellmost.shapes import Bool, Float, Int

if TYPE_CHECKING:
    import pandas

SECONDS = ("embedding", "selecting", "training", "evaluating")
COLUMNS = ("round", "labels", "trained_on", "share")


@dataclass(frozen=True, eq=False)
class Round:
    """The picks of a round in their order, their labels, and what came of training on them."""

    number: int  # from 1
    rows: Int[np.ndarray, " k"]
    labels: Int[np.ndarray, " k"]
    is_in_task: Bool[np.ndarray, " k"]  # the others cost a label and are not trained on
    metrics: Mapping[str, float]  # what the trainer and the evaluation returned
    seconds: Mapping[str, float]  # of embedding, selecting, training and evaluating


@dataclass(frozen=True, eq=False)
class History:
    """The rounds so far. ``str(history)`` is a table, ``to_frame()`` the same for pandas."""

    rounds: tuple[Round, ...] = field(default=())
    has_task: bool = False

    def __len__(self) -> int:
        return len(self.rounds)

    def __iter__(self) -> Iterator[Round]:
        return iter(self.rounds)

    def __getitem__(self, number: int) -> Round:
        return self.rounds[number]

    def followed_by(self, one: Round) -> "History":
        return History((*self.rounds, one), self.has_task)

    @property
    def rows(self) -> Int[np.ndarray, " t"]:
        """All picks in their order, as rows of the pool."""
        return joined([one.rows for one in self.rounds], np.int64)

    @property
    def labels(self) -> Int[np.ndarray, " t"]:
        return joined([one.labels for one in self.rounds], np.int64)

    @property
    def is_in_task(self) -> Bool[np.ndarray, " t"]:
        return joined([one.is_in_task for one in self.rounds], np.bool_)

    def column(self, name: str) -> Float[np.ndarray, " r"]:
        """One value per round: a metric, or any other column of the table; NaN where missing."""
        table = self.columns()
        if name not in table:
            raise KeyError(f"the history has no column {name!r}; it has {', '.join(table)}.")
        return np.array(table[name], dtype=np.float64)

    def columns(self) -> dict[str, list[Any]]:
        """The table by columns.

        ``labels`` bought so far, of these ``trained_on``, and their ``share``, which is there if
        a task was given; metrics; seconds of the round, as ``embedding_s`` and so on.
        """
        bought = np.cumsum([len(one.rows) for one in self.rounds])
        right = np.cumsum([int(one.is_in_task.sum()) for one in self.rounds])
        table: dict[str, list[Any]] = {
            "round": [one.number for one in self.rounds],
            "labels": bought.tolist(),
        }
        if self.has_task:
            table |= {"trained_on": right.tolist(), "share": (right / bought).tolist()}
        for name in dict.fromkeys(name for one in self.rounds for name in one.metrics):
            table[name] = [one.metrics.get(name, float("nan")) for one in self.rounds]
        for name in SECONDS:
            if any(name in one.seconds for one in self.rounds):
                table[f"{name}_s"] = [one.seconds.get(name, 0.0) for one in self.rounds]
        return table

    def to_frame(self) -> "pandas.DataFrame":
        """A row per round. Needs pandas."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame() needs pandas; pip install pandas.") from error
        return pandas.DataFrame(self.columns())

    def __str__(self) -> str:
        cells = {
            name: [name, *(written(value) for value in values)]
            for name, values in self.columns().items()
        }
        widths = {name: max(map(len, texts)) for name, texts in cells.items()}
        columns = [[text.rjust(widths[name]) for text in cells[name]] for name in cells]
        return "\n".join("  ".join(line) for line in zip(*columns, strict=True))


def joined(parts: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype=dtype), *parts])


def written(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.3f}"
