"""The history is a value. The state of a loop or sampler is made of plain values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from tellmost.learner.record import refusing_damaged_state
from tellmost.running.extras import make_frame
from tellmost.shapes import Bool, Float, Int

if TYPE_CHECKING:
    import pandas

FORMAT = "tellmost-fine-tuner-3"
SECONDS = ("embedding", "selecting", "training", "evaluating")
COLUMNS = ("round", "labels", "trained_on", "share")
NO_ROWS: Int[np.ndarray, " o"] = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class FineTuningRound:
    """The picks of a round in their order, their labels, and what came of training on them."""

    number: int  # from 1
    rows: Int[np.ndarray, " k"]
    labels: Int[np.ndarray, " k"]
    is_in_task: Bool[np.ndarray, " k"]  # the others cost a label and are not trained on
    metrics: Mapping[str, float]  # what the trainer and the evaluation returned
    seconds: Mapping[str, float]  # of embedding, selecting, training and evaluating
    is_trained: bool = field(default=True, repr=False)  # not in a round that failed before


@dataclass(frozen=True, eq=False)
class FineTuningHistory:
    """The rounds so far. ``str(history)`` is a table; ``to_frame()`` is the same for pandas."""

    rounds: tuple[FineTuningRound, ...] = field(default=())
    has_task: bool = False

    def __len__(self) -> int:
        return len(self.rounds)

    def __iter__(self) -> Iterator[FineTuningRound]:
        return iter(self.rounds)

    def __getitem__(self, number: int) -> FineTuningRound:
        return self.rounds[number]

    @property
    def rows(self) -> Int[np.ndarray, " t"]:
        """All picks in their order, as rows of the pool."""
        return np.concatenate([NO_ROWS, *(one.rows for one in self.rounds)])

    @property
    def labels(self) -> Int[np.ndarray, " t"]:
        return np.concatenate([NO_ROWS, *(one.labels for one in self.rounds)])

    @property
    def is_in_task(self) -> Bool[np.ndarray, " t"]:
        return np.concatenate([np.empty(0, dtype=bool), *(one.is_in_task for one in self.rounds)])

    def column(self, name: str) -> Float[np.ndarray, " r"]:
        """A column of the table, such as a metric: a value per round, NaN where there is none."""
        table = self.columns()
        if name not in table:
            raise KeyError(f"the history has no column {name!r}; it has {', '.join(table)}.")
        return np.array(table[name], dtype=np.float64)

    def columns(self) -> dict[str, list[Any]]:
        """The table by columns.

        ``labels`` counts those bought so far and ``trained_on`` those of the task among them;
        ``share`` is their ratio. The last two are there if a task was given. Metrics follow, and
        the seconds of the round, as ``embedding_s`` and so on.
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
        """The table with a row per round. It needs pandas."""
        return make_frame(self.columns())

    def __str__(self) -> str:
        columns = []
        for name, values in self.columns().items():
            texts = [name, *(str(v) if isinstance(v, int) else f"{v:.3f}" for v in values)]
            columns.append([text.rjust(max(map(len, texts))) for text in texts])
        return "\n".join("  ".join(line) for line in zip(*columns, strict=True))


def write_round(one: FineTuningRound) -> dict[str, Any]:
    """A round as plain values; its place among the rounds is its number."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.tolist()
        return value if isinstance(value, bool) else dict(value)

    return {f.name: plain(getattr(one, f.name)) for f in fields(one) if f.name != "number"}


def read_saved(
    state: Mapping[str, Any], *, has_task: bool, n: int, taken: Int[np.ndarray, " o"]
) -> tuple[FineTuningHistory, FineTuningRound | None]:
    """The rounds that are over, and the one that is not, if there is one."""
    with refusing_damaged_state():
        is_whole = state["unfinished"] is None
        saved = [*state["history"], *([] if is_whole else [state["unfinished"]])]
        rounds = [read_round(number, one) for number, one in enumerate(saved, 1)]
        check_rows(np.concatenate([taken, *(one.rows for one in rounds)]), n)
        unfinished = None if is_whole else rounds.pop()
        return FineTuningHistory(tuple(rounds), has_task), unfinished


def read_batches(state: Mapping[str, Any], n: int) -> tuple[int, list[list[int]], list[list[int]]]:
    """The epoch of a sampler over n rows, and its batches: given, and chosen ahead."""
    with refusing_damaged_state():
        epoch, given, ahead = int(state["epoch"]), state["given"], state["ahead"]
        batches = [numbers(one) for one in (*given, *ahead)]
        check_rows(np.concatenate([NO_ROWS, *batches]), n)
        as_lists = [one.tolist() for one in batches]
        return epoch, as_lists[: len(given)], as_lists[len(given) :]


def check_rows(rows: Int[np.ndarray, " r"], n: int) -> None:
    """Rows of the pool, each once."""
    if len(np.unique(rows)) != len(rows) or (len(rows) and not 0 <= rows.min() <= rows.max() < n):
        raise ValueError(f"picks must be different rows of the pool, 0 to {n - 1}")


def numbers(values: Any) -> Int[np.ndarray, " r"]:
    found = np.asarray(values)
    if found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
        raise ValueError(f"whole numbers are needed where there is {values!r}")
    return found.astype(np.int64)


def read_round(number: int, one: Mapping[str, Any]) -> FineTuningRound:
    rows, labels = numbers(one["rows"]), numbers(one["labels"])
    inside = np.array(one["is_in_task"], dtype=bool)
    if labels.shape != rows.shape or inside.shape != rows.shape:
        raise ValueError(
            f"{len(rows)} rows need as many labels and as many of is_in_task; there are "
            f"{len(labels)} and {inside.size}"
        )
    metrics, seconds = dict(one["metrics"]), dict(one["seconds"])
    return FineTuningRound(number, rows, labels, inside, metrics, seconds, bool(one["is_trained"]))
