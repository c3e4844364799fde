r"""The candidates of a query: the rows that look best before anything is picked.

A row is ranked by the root of its first gain for the nearest target,

.. math:: s(x) = \max_a \frac{\langle a, x \rangle}{\sqrt{|x|^2 + \rho^2}},

without the noise for rules about correlation. A fast product says which rows may be among the
best, up to a bound on its rounding. These are scored again in float64, each row by itself, and cut
by score and row number. So the candidates depend on no batch, block or thread.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tellmost.retrieval.stored_rows import StoredRows
from tellmost.shapes import Bool, Float, Int

BLOCK_SCORES = 2**23  # of queries and rows at once, which bounds the memory of a search
RESCORED_AT_ONCE = 4_096  # so many rows; there are more only where thousands of rows tie
MARGIN = 16  # so many more rows are asked of an index, which rounds by the size of the batch
LOWEST = float(np.finfo(np.float32).min)  # below every score of a candidate, above -inf
PLAIN_LENGTHS = 1e-25, 1e25  # products of such rows neither vanish nor overflow in float32


@dataclass(frozen=True)
class Open:
    """The rows that may be candidates of each query of a batch."""

    allowed: Bool[np.ndarray, "*b n"] | None  # one mask for all queries, or one for each
    closed: Int[np.ndarray, "b c"]  # rows that may not; -1 for none

    def close(self, scores: Float[np.ndarray, "b c"], start: int) -> None:
        """Score -inf what may not be a candidate, of the rows from ``start`` on."""
        stop = start + scores.shape[1]
        if self.allowed is not None:
            scores[~np.broadcast_to(self.allowed[..., start:stop], scores.shape)] = -np.inf
        for score, rows in zip(scores, self.closed, strict=True):
            score[rows[(rows >= start) & (rows < stop)] - start] = -np.inf

    def among(self, ids: Int[np.ndarray, "b l c"]) -> Bool[np.ndarray, "b l c"]:
        """Say which of these rows may be candidates."""
        may = ids >= 0
        if self.allowed is not None:
            queries = np.arange(len(ids))[:, None, None]
            may &= self.allowed[ids] if self.allowed.ndim == 1 else self.allowed[queries, ids]
        for some, rows, closed in zip(may, ids, self.closed, strict=True):
            some &= ~np.isin(rows, closed)
        return may


@dataclass(frozen=True)
class NearestRows:
    """The nearest rows of each query, exactly, among those that a search proposes."""

    rows: StoredRows
    discount: Float[np.ndarray, " n"]
    search: "ExactSearch | IndexSearch"

    def find(
        self,
        targets: Float[np.ndarray, "b m d"],
        open_: Open,
        numbers: Int[np.ndarray, "b c"],
        X: Float[np.ndarray, "b c d"],
        *,
        both_signs: bool = False,
    ) -> None:
        """Write at most c rows of each query, ascending, and their features.

        Rows of a negative product with every target are taken only with ``both_signs``.
        """
        scaled = scaled_alike(targets)
        proposed = self.search.propose(scaled, X.shape[1], open_, both_signs=both_signs)
        for b, some in enumerate(proposed):
            rows, features = self._cut(some, scaled[b], X[b], both_signs=both_signs)
            numbers[b, : len(rows)] = rows
            X[b, len(rows) :] = 0.0
            if features is not None:
                X[b, : len(rows)] = features

    def _cut(
        self,
        numbers: Int[np.ndarray, " p"],
        targets: Float[np.ndarray, "m d"],
        room: Float[np.ndarray, "c d"],
        *,
        both_signs: bool,
    ) -> tuple[Int[np.ndarray, " _c"], Float[np.ndarray, "_c d"] | None]:
        """The best of these rows, and their features, unless they are in the room already."""
        is_room = len(numbers) <= len(room)
        score = np.empty(len(numbers))
        for start in range(0, len(numbers), RESCORED_AT_ONCE):
            some = slice(start, min(start + RESCORED_AT_ONCE, len(numbers)))
            rows = self.rows.take(numbers[some], room[some] if is_room else None)
            score[some] = exact_scores(rows, targets, both_signs=both_signs)
        score *= self.discount[numbers]
        best = np.lexsort((numbers, -score))[: len(room)]
        kept = np.sort(best[score[best] >= 0])  # the order decides about bits, too
        if is_room and len(kept) == len(numbers):
            return numbers, None
        return numbers[kept], self.rows.take(numbers[kept])


def scaled_alike(targets: Float[np.ndarray, "b m d"]) -> Float[np.ndarray, "b m d"]:
    """The targets of each query divided by the length of the longest."""
    longest = np.sqrt(np.einsum("bmd,bmd->bm", targets, targets).max(axis=1))
    return targets / np.where(longest > 0, longest, 1.0)[:, None, None]


def exact_scores(
    rows: Float[np.ndarray, "p d"], targets: Float[np.ndarray, "m d"], *, both_signs: bool
) -> Float[np.ndarray, " p"]:
    """The largest product with a target. A sum for each row by itself depends on no other row."""
    products = [np.einsum("pd,d->p", rows, target) for target in targets]
    return np.max(np.abs(products) if both_signs else products, axis=0)


class ExactSearch:
    """All rows that may be among the best, from products by blocks."""

    def __init__(self, rows: StoredRows, discount: Float[np.ndarray, " n"]) -> None:
        weight = discount if rows.inverse_length is None else discount * rows.inverse_length
        mean_length = 0.0 if rows.mean is None else float(np.linalg.norm(rows.mean))
        dtype = np.result_type(rows.values.dtype, np.float32)
        lengths = rows.length[rows.length > 0]
        if (
            len(lengths)
            and not PLAIN_LENGTHS[0] < lengths.min() <= lengths.max() < PLAIN_LENGTHS[1]
        ):
            dtype = np.dtype(np.float64)
        self._rows, self._dtype = rows, dtype
        self._weight = weight.astype(dtype)
        rounding = (rows.values.shape[1] + 16) * float(np.finfo(dtype).eps)
        self._error = rounding * float(((rows.length + mean_length) * weight).max())

    def propose(
        self, targets: Float[np.ndarray, "b m d"], count: int, open_: Open, *, both_signs: bool
    ) -> list[Int[np.ndarray, " _c"]]:
        B, m, d = targets.shape
        step = max(BLOCK_SCORES // (B * m), 1)
        found: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in range(B)]
        least = LOWEST if both_signs else -self._error
        for start in range(0, len(self._rows), step):
            scores = self._scores(targets.reshape(B * m, d), start, start + step)
            if both_signs:
                np.abs(scores, out=scores)
            if m > 1:
                scores = scores.reshape(B, m, -1).max(axis=1)
            open_.close(scores, start)
            for b, score in enumerate(scores):
                places = self._may_be_best(score, count, least)
                found[b].append((places + start, score[places]))
        if len(self._rows) <= step:
            return [numbers for ((numbers, _),) in found]
        merged = []
        for pieces in found:
            numbers, scores = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
            merged.append(numbers[self._may_be_best(scores, count, least)])
        return merged

    def _scores(
        self, targets: Float[np.ndarray, "a d"], start: int, stop: int
    ) -> Float[np.ndarray, "a c"]:
        block = self._rows.values[start:stop].astype(self._dtype, copy=False)
        scores = targets.astype(self._dtype) @ block.T
        if self._rows.mean is not None:
            scores -= (targets @ self._rows.mean)[:, None].astype(self._dtype)
        scores *= self._weight[start:stop]
        return scores

    def _may_be_best(
        self, score: Float[np.ndarray, " c"], count: int, least: float
    ) -> Int[np.ndarray, " _p"]:
        """Places whose true score may be among the best ``count``, and not below ``least``."""
        if len(score) > count:
            last = float(np.partition(score, len(score) - count)[len(score) - count])
            least = max(least, last - 2.0 * self._error)
        return np.flatnonzero(score >= least)


class IndexSearch:
    """The rows that an index finds: anything with ``search(queries, c) -> (scores, ids)``."""

    def __init__(self, index: Any, row_count: int) -> None:
        self._index, self._row_count = index, row_count

    def propose(
        self, targets: Float[np.ndarray, "b m d"], count: int, open_: Open, *, both_signs: bool
    ) -> list[Int[np.ndarray, " _c"]]:
        """Ask for more until each target's list has enough open rows, or there are no more."""
        B, _, d = targets.shape
        both = np.concatenate([targets, -targets], axis=1) if both_signs else targets
        asked = both.reshape(-1, d).astype(np.float32)
        wanted = min(count + MARGIN, self._row_count)
        while True:
            _, found = self._index.search(asked, wanted)
            ids = np.asarray(found).reshape(B, -1, wanted).astype(np.int64)
            may = open_.among(ids)
            lacks = (may.sum(axis=2) < count) & (ids >= 0).all(axis=2)
            if wanted == self._row_count or not lacks.any():
                return [np.unique(ids[b, may[b]]) for b in range(B)]
            wanted = min(2 * wanted, self._row_count)
