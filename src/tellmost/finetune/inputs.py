"""Inputs of a network: a tensor, an array or a dataset, with labels beside them or without."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset, default_collate

from tellmost import numerics
from tellmost.rows.checks import check_object
from tellmost.rows.pool import Fingerprint
from tellmost.rows.sources import as_tensor, spans
from tellmost.shapes import Bool, Int

LABEL_KEYS = ("labels", "label")  # in items that are mappings; never given to a network

FROM_ZERO = "class numbers from 0 on (leave out rows that have no label)"
"""The rule in errors about negative numbers, which other tools use for what is unlabelled."""

Collate = Callable[[list[Any]], Any]


@dataclass(frozen=True, eq=False)
class Inputs(Dataset[Any]):
    """Some of the inputs that the caller gave: ``data`` itself and the rows that are meant.

    An item of a dataset is an input; or a tuple of an input, a label, and perhaps more, which is
    not used; or a mapping, whose entries without the label are the network's keyword arguments.
    """

    data: Any
    rows: Int[np.ndarray, " n"]
    name: str  # the caller's argument, for errors
    collate: Collate = default_collate

    @staticmethod
    def of(data: Any, name: str, *, collate: Collate = default_collate) -> "Inputs":
        """All of a tensor, an array, or a dataset with a length."""
        if isinstance(data, Inputs):
            return data
        whole = as_tensor(data, name) if isinstance(data, np.ndarray) else data
        if not hasattr(whole, "__len__") or not hasattr(whole, "__getitem__"):
            raise TypeError(
                f"{name} must be a tensor, an array, or a dataset with a length and items; got "
                f"{type(data).__name__}. An iterable dataset has no rows to choose: list it first."
            )
        if isinstance(whole, Tensor) and whole.ndim == 0:
            raise ValueError(f"{name} must have a row per input; got a tensor of no dimension.")
        check_one(whole, name)
        return Inputs(whole, np.arange(len(whole)), name, collate)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, position: int) -> Any:
        """The input at this position, without its label."""
        item = self.data[int(self.rows[position])]
        if isinstance(item, Mapping):
            return {key: value for key, value in item.items() if key not in LABEL_KEYS}
        return item[0] if isinstance(item, tuple | list) else item

    def subset(self, rows: Int[np.ndarray, " k"]) -> "Inputs":
        """The inputs at these positions, in this order."""
        return Inputs(self.data, self.rows[rows], self.name, self.collate)

    def batch(self, rows: Int[np.ndarray, " k"], device: torch.device) -> Any:
        """Make the argument with which a network is called for these positions, without labels."""
        if isinstance(self.data, Tensor):
            return self.data[torch.from_numpy(self.rows[rows]).to(self.data.device)].to(device)
        return moved(self.collate([self[position] for position in rows.tolist()]), device)

    def batches(self, size: int, device: torch.device) -> Iterator[Any]:
        """All inputs in their order, batch by batch."""
        positions = np.arange(len(self))
        for start in range(0, len(self), size):
            yield self.batch(positions[start : start + size], device)

    def labels(self, rows: Int[np.ndarray, " k"] | None = None) -> Int[np.ndarray, " k"]:
        """The class numbers that the dataset itself yields at these positions; None: at all."""
        numbers = self.rows if rows is None else self.rows[rows]
        if isinstance(self.data, Tensor):
            raise ValueError(
                f"{self.name} is a tensor of inputs and yields no labels. Give labels= beside it, "
                f"or a torch.utils.data.TensorDataset(inputs, labels)."
            )
        found = [label_of(self.data[int(number)], self.name, int(number)) for number in numbers]
        return np.array(found, dtype=np.int64)


def check_one(data: Any, name: str) -> None:
    """The data have a row per input, and are not columns side by side."""
    if is_inputs_beside_labels(data):
        raise TypeError(
            f"{name} must be one tensor, array or dataset; got {in_words(data)}, which looks like "
            f"inputs beside their labels. Give the inputs alone, or "
            f"torch.utils.data.TensorDataset(inputs, labels)."
        )
    if isinstance(data, Mapping):
        raise TypeError(
            f"{name} must have a row per input; got {in_words(data)}, all rows under each key. "
            f"Give a tensor, or a dataset whose items are mappings: "
            f"torch.utils.data.StackDataset(**{name})."
        )
    if isinstance(data, list) and data and is_numbers(data[0]):
        raise TypeError(
            f"{name} must be a tensor, an array or a dataset; got {in_words(data)}. Give "
            f"torch.tensor({name})."
        )


def is_inputs_beside_labels(data: Any) -> bool:
    """Recognise a pair (X, y) in place of a dataset, whose items would be X and y."""
    if isinstance(data, tuple):
        return True
    if not isinstance(data, list) or len(data) != 2:
        return False
    first, second = (np.array(part) if is_numbers(part) else part for part in data)
    if not isinstance(first, Tensor | np.ndarray) or first.ndim < 2:
        return False
    if not hasattr(second, "__len__") or np.ndim(second) == 0:
        return False
    return len(second) == len(first) and np.shape(second) != tuple(first.shape)


def is_numbers(item: Any) -> bool:
    """Recognise a list of numbers, or of such lists, all of the same length."""
    if not isinstance(item, list) or not item:
        return False
    if all(isinstance(part, int | float) for part in item):
        return True
    return all(is_numbers(part) and len(part) == len(item[0]) for part in item)


def label_of(item: Any, name: str, number: int) -> int:
    """The class number of an item; the error says what the dataset yields instead."""
    if isinstance(item, Mapping):
        label = next((item[key] for key in LABEL_KEYS if key in item), None)
    else:
        label = item[1] if isinstance(item, tuple | list) and len(item) > 1 else None
    if label is None or np.ndim(label) != 0:
        raise ValueError(
            f"{name} must yield labels here: items (input, class number), or mappings with "
            f"'labels'; item {number} is {in_words(item)}."
        )
    if not is_whole(np.asarray(label.item() if isinstance(label, Tensor) else label)):
        raise ValueError(
            f"{name} must yield class numbers as labels, whole numbers; that of item {number} is "
            f"{label!r}. Number the classes: np.unique(names, return_inverse=True)."
        )
    if label < 0:
        raise ValueError(f"{name} must yield {FROM_ZERO}; that of item {number} is {int(label)}.")
    return int(label)


def is_whole(values: np.ndarray) -> bool:
    """Say if all values are whole numbers, of whatever type. True and false are 1 and 0."""
    if np.issubdtype(values.dtype, np.floating):
        return bool(np.isfinite(values).all() and (values == np.rint(values)).all())
    return values.dtype.kind in "biu"


def in_words(item: Any) -> str:
    """Describe an item, for errors."""
    if isinstance(item, Mapping):
        return f"a mapping with {', '.join(map(str, item))}"
    if is_numbers(item):
        return "a list of lists of numbers" if isinstance(item[0], list) else "a list of numbers"
    if isinstance(item, tuple | list):
        return f"a {type(item).__name__} of {', '.join(in_words(part) for part in item)}"
    if isinstance(item, Tensor | np.ndarray):
        return f"a {type(item).__name__} of shape {tuple(item.shape)}"
    return f"a {type(item).__name__}"


def moved(batch: Any, device: torch.device) -> Any:
    if isinstance(batch, Mapping):
        return {key: moved(value, device) for key, value in batch.items()}
    return batch.to(device) if isinstance(batch, Tensor) else batch


def call(model: Callable[..., Any], batch: Any) -> Tensor:
    """The (b, c) outputs of a network: its logits where it returns several things."""
    made = model(**batch) if isinstance(batch, Mapping) else model(batch)
    outputs = getattr(made, "logits", made)
    if not isinstance(outputs, Tensor) or outputs.ndim != 2:
        raise ValueError(
            f"the model must return (b, c) outputs, a row per input; got {in_words(outputs)}. "
            f"Wrap it in a module that flattens its outputs."
        )
    return outputs


def check_model(model: Any) -> nn.Module:
    return check_object(model, "model", nn.Module, "an instance of torch.nn.Module")


def device_of(model: nn.Module) -> torch.device:
    """The device of the model's parameters; the CPU if it has none."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


Labeller = Callable[[Int[np.ndarray, " k"]], Int[np.ndarray, " k"]]  # from rows to classes


@dataclass(frozen=True, eq=False)
class PoolLabels:
    """The labels of the pool, by rows."""

    read: Labeller
    is_bought: bool  # they come from a function of the caller's, which may ask somebody again

    def __call__(self, rows: Int[np.ndarray, " k"]) -> Int[np.ndarray, " k"]:
        return self.read(rows)

    def check_same(self, rows: Int[np.ndarray, " k"], saved: Int[np.ndarray, " k"]) -> None:
        """The labels of a saved state are those of this pool. Nothing is bought to find out."""
        if self.is_bought:
            return
        own = self.read(rows)
        for at in np.flatnonzero(own != saved)[:1]:
            raise ValueError(
                f"the state is of another pool or has other labels: there row {rows[at]} has "
                f"label {saved[at]}, here {own[at]}. Make the loop with the pool and the labels "
                f"it had."
            )


def check_labels(labels: Any, pool: Inputs) -> PoolLabels:
    """Labels come from the dataset itself (None), one per row of the pool, or by a function."""
    if labels is None:
        pool.labels(np.arange(min(len(pool), 1)))  # an error says at once if it yields none
        return PoolLabels(pool.labels, is_bought=False)
    if callable(labels) and not isinstance(labels, Tensor | np.ndarray):

        def ask(rows: Int[np.ndarray, " k"]) -> Int[np.ndarray, " k"]:
            return class_numbers(labels(rows), len(rows), "what labels(rows) returns")

        return PoolLabels(ask, is_bought=True)
    every = class_numbers(labels, len(pool), "labels")
    return PoolLabels(lambda rows: every[rows], is_bought=False)


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
    """The class numbers that count, ascending; None counts all."""
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


def name_of(inputs: Inputs) -> str:
    """The number of these inputs and, of tensors, a checksum of all values, the same anywhere."""
    held = inputs.data.tensors[0] if isinstance(inputs.data, TensorDataset) else inputs.data
    if not isinstance(held, Tensor):
        return f"{len(inputs)} inputs"
    rows, made = torch.from_numpy(inputs.rows).to(held.device), Fingerprint(held.device)
    width = max(held[:1].numel(), 1)
    for start, stop in spans(len(rows), max(numerics.CHUNK_BYTES // (8 * width), 1)):
        made.add(start, held[rows[start:stop]].detach().reshape(stop - start, -1))
    return f"{len(inputs)} inputs of content {made.name((len(rows), *held.shape[1:]))}"
