"""What is asked of a Retriever: queries with their targets, and the rows that each may have."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.retrieval.stored_rows import StoredRows
from tellmost.rows.checks import (
    check_distinct,
    check_features,
    check_indices,
    check_mask,
    check_rows,
)
from tellmost.rows.sources import as_tensor, read_array
from tellmost.shapes import Bool, Float, Int


@dataclass(frozen=True)
class Batch:
    """Some queries with equally many targets and equally many observed rows."""

    numbers: Int[np.ndarray, " b"]  # their places among all queries
    targets: Float[np.ndarray, "b m d"]  # normalised as the rows are
    observed: Int[np.ndarray, "b o"]
    allowed: Bool[np.ndarray, "*b n"] | None  # rows that may be picked, for all or for each


class Queries:
    """All queries of a call, checked."""

    def __init__(self, queries: Any, allowed: Any, observed: Any, rows: StoredRows) -> None:
        n = len(rows)
        points, counts = check_queries(queries, rows.values.shape)
        self._targets = np.split(rows.normalized(points), np.cumsum(counts)[:-1])
        self._allowed: Bool[np.ndarray, "*q n"] | None = None
        self._observed = [np.empty(0, dtype=np.int64)] * len(self)
        if allowed is not None and not is_for_each(allowed):
            self._allowed = mask_of(allowed, "allowed", n)
        elif allowed is not None:
            check_count(allowed, "allowed", len(self))
            masks = [mask_of(each, f"allowed[{i}]", n) for i, each in enumerate(allowed)]
            self._allowed = np.stack(masks)
        if observed is not None:
            each = observed if is_for_each(observed) or len(self) > 1 else [observed]
            check_count(each, "observed", len(self))
            self._observed = [row_numbers(r, f"observed[{i}]", n) for i, r in enumerate(each)]

    def __len__(self) -> int:
        return len(self._targets)

    def batches(self, most: int) -> Iterator[Batch]:
        """Batches of at most so many queries each, which cover all of them."""

        def kind(query: int) -> tuple[int, int]:
            return len(self._targets[query]), len(self._observed[query])

        for _, alike in groupby(sorted(range(len(self)), key=kind), key=kind):
            numbers = np.array(list(alike))
            for start in range(0, len(numbers), most):
                yield self._batch(numbers[start : start + most])

    def _batch(self, numbers: Int[np.ndarray, " b"]) -> Batch:
        targets = np.stack([self._targets[query] for query in numbers])
        observed = np.stack([self._observed[query] for query in numbers])
        allowed = self._allowed
        if allowed is not None and allowed.ndim == 2:
            allowed = allowed[numbers]
        return Batch(numbers, targets, observed, allowed)


def check_queries(
    queries: Any, shape: tuple[int, ...]
) -> tuple[Float[np.ndarray, "t d"], list[int]]:
    """The targets of all queries as rows, and how many each query has."""
    is_list = isinstance(queries, list | tuple) and any(np.ndim(each) == 2 for each in queries)
    if is_list:
        parts = [as_tensor(each, f"queries[{i}]") for i, each in enumerate(queries)]
    else:
        data = read_array(queries, "queries")
        parts = [data[None] if data.ndim == 1 else data]
    for i, part in enumerate(parts):
        name = "queries" if len(parts) == 1 else f"queries[{i}]"
        check_rows(part, name)
        check_features(part.shape, name, shape)
    counts = [len(part) for part in parts] if is_list else [1] * len(parts[0])
    points = torch.cat([part.to(device="cpu", dtype=torch.float64) for part in parts])
    return points.numpy(), counts


def is_for_each(values: Any) -> bool:
    """Say whether there is a vector for every query, not one for all."""
    if isinstance(values, list | tuple):
        return any(np.ndim(each) == 1 for each in values)
    return np.ndim(values) == 2


def mask_of(given: Any, name: str, n: int) -> Bool[np.ndarray, " n"]:
    """A mask, from a mask or from row numbers."""
    values = as_tensor(given, name).cpu()
    if values.numel() == 0:
        return np.zeros(n, dtype=bool)
    if values.dtype != torch.bool:
        mask = np.zeros(n, dtype=bool)
        mask[check_indices(values, name, n).numpy()] = True
        return mask
    check_mask(values, name, n)
    return values.numpy()


def row_numbers(given: Any, name: str, n: int) -> Int[np.ndarray, " o"]:
    """The numbers of the rows that a query has already; -1 fills up short lists."""
    values: Tensor = as_tensor(given, name)
    if values.numel() == 0:
        return np.empty(0, dtype=np.int64)
    if values.dtype == torch.int64:
        values = values[values != -1]
    numbers = check_indices(values, name, n)
    check_distinct(numbers, name, "Name each row once.")
    return numbers.numpy()


def check_count(values: Any, name: str, count: int) -> None:
    if len(values) != count:
        raise ValueError(
            f"{name} must have an entry per query, {count}; got {len(values)}. A vector of row "
            f"numbers for each query is a list of vectors."
        )
