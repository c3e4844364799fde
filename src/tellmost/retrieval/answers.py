"""The answer to a batch of queries: their candidates, and the greedy choice among these."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from tellmost.numerics import TIE_FLOOR, TIE_TOLERANCE
from tellmost.retrieval.beliefs import BatchBeliefs
from tellmost.retrieval.nearest import NearestRows, Open
from tellmost.retrieval.queries import Batch
from tellmost.rules import Rule, noise_of_targets
from tellmost.shapes import Float, Int

SEARCHES = (0, 1, 2, 4, 8, 16, 32)  # with ``refresh`` rows are searched after so many picks
GRAM_SHARE = 8  # a Gram matrix pays where there are more picks than candidates / GRAM_SHARE
MOST_IN_GRAM = 2_048  # Gram matrices of more candidates take too much memory
BATCH_BYTES = 96 * 2**20  # of memory for the candidates of the queries that are worked on together
MOST_TOGETHER = 64  # queries at most; half as many take a tenth longer each


NO_ROW = np.iinfo(np.int64).max  # a number above that of every row


@dataclass(frozen=True)
class BatchCandidates:
    """The rows that each query of a batch has observed, and then its candidates."""

    numbers: Int[np.ndarray, "b w"]  # of pool rows; -1 where there is none that may be picked
    X: Float[np.ndarray, "b w d"]
    observed: Int[np.ndarray, "b o"]  # the places of the observed rows
    gram: Float[np.ndarray, "b w w"] | None = None  # the products of X with itself

    def add_products(self, start: int, stop: int) -> None:
        """Complete the Gram matrix for rows that were filled in behind the others."""
        assert self.gram is not None
        products = self.X[:, start:stop] @ self.X[:, :stop].transpose(0, 2, 1)
        self.gram[:, start:stop, :stop] = products
        self.gram[:, :start, start:stop] = products[:, :, :start].transpose(0, 2, 1)


@dataclass(frozen=True)
class Work:
    """How batches are answered; the same for all of them."""

    rule: Rule
    noise_variance: float
    picks: int  # a query has enough after so many
    min_gain_share: float | None  # or below this share of its first gain
    alpha: float | None  # or when more compute no longer pays
    nearest: NearestRows
    most_candidates: int | None
    refresh: bool

    @property
    def width(self) -> int:
        """The number of candidates, also where a query has fewer."""
        n = len(self.nearest.rows)
        if self.most_candidates is None:
            return n
        return (
            min(self.most_candidates, n) if not self.refresh else self.per_search * len(SEARCHES)
        )

    @property
    def per_search(self) -> int:
        assert self.most_candidates is not None
        return -(-self.most_candidates // len(SEARCHES))

    @property
    def has_gram(self) -> bool:
        """This decides about bits, so it depends on the settings alone."""
        if self.most_candidates is None or self.width > MOST_IN_GRAM:
            return False
        return self.refresh or GRAM_SHARE * self.picks > self.width

    @property
    def queries_together(self) -> int:
        row = self.nearest.rows.values.shape[1] + self.picks
        if self.has_gram:
            row += self.width
        return min(max(BATCH_BYTES // (8 * row * self.width), 1), MOST_TOGETHER)

    def answer(self, batch: Batch) -> tuple[Float[np.ndarray, "b k"], Int[np.ndarray, "b k"]]:
        """The gains and the row numbers of the picks."""
        if self.most_candidates is None:
            some = self._all_rows(batch)
        else:
            some = self._collected(batch) if self.refresh else self._nearest_rows(batch)
        gains, places = self._choose(self._greedy(batch, some, self.picks))
        rows = np.take_along_axis(some.numbers, np.maximum(places, 0), axis=1)
        return gains, np.where(places < 0, -1, rows)

    def _choose(self, greedy: "Greedy") -> tuple[Float[np.ndarray, "b k"], Int[np.ndarray, "b k"]]:
        """The gains and the places of the picks, NaN and -1 from where a query has enough."""
        count = len(greedy.is_closed)
        gains = np.full((count, self.picks), np.nan)
        places = np.full((count, self.picks), -1)
        goes_on = np.ones(count, dtype=bool)
        for step in range(self.picks):
            place, gain = greedy.best()
            goes_on &= gain > -np.inf
            if self.min_gain_share is not None and greedy.first is not None:
                goes_on &= gain >= self.min_gain_share * greedy.first
            if self.alpha is not None and step > 0:
                deviation = np.sqrt(greedy.beliefs.uncertainty_share())
                goes_on &= deviation <= 1.0 / (self.alpha * step)
            if not goes_on.any():
                break
            gains[goes_on, step], places[goes_on, step] = gain[goes_on], place[goes_on]
            if step + 1 < self.picks:
                greedy.take(place)
        return gains, places

    def _greedy(
        self, batch: Batch, some: BatchCandidates, picks: int, *, grows: bool = False
    ) -> "Greedy":
        """A greedy choice that has observed what the queries have already."""
        beliefs = BatchBeliefs(
            some.X,
            batch.targets,
            self.noise_variance,
            some.observed.shape[1] + picks,
            needs=self.rule.needs,
            gram=some.gram,
            noise_of_targets=noise_of_targets(self.rule, self.noise_variance),
            grows=grows,
        )
        for places in some.observed.T:
            beliefs.observe(places)
        return Greedy(self.rule, beliefs, some.numbers)

    def _all_rows(self, batch: Batch) -> BatchCandidates:
        rows = self.nearest.rows
        count, n = len(batch.numbers), len(rows)
        numbers = np.tile(np.arange(n), (count, 1))
        if batch.allowed is not None:
            numbers[~np.broadcast_to(batch.allowed, numbers.shape)] = -1
        np.put_along_axis(numbers, batch.observed, -1, axis=1)
        X = rows.take(slice(None))
        return BatchCandidates(numbers, np.broadcast_to(X, (count, *X.shape)), batch.observed)

    def _empty(self, batch: Batch) -> BatchCandidates:
        """The observed rows, and room for candidates."""
        B, o = batch.observed.shape
        X = np.empty((B, o + self.width, batch.targets.shape[2]))
        X[:, :o] = self.nearest.rows.take(batch.observed.reshape(-1)).reshape(X[:, :o].shape)
        places = np.broadcast_to(np.arange(o), (B, o))
        return BatchCandidates(np.full(X.shape[:2], -1), X, places)

    def _nearest_rows(self, batch: Batch) -> BatchCandidates:
        some, o = self._empty(batch), batch.observed.shape[1]
        open_ = Open(batch.allowed, batch.observed)
        self.nearest.find(batch.targets, open_, some.numbers[:, o:], some.X[:, o:])
        gram = some.X @ some.X.transpose(0, 2, 1) if self.has_gram else None
        return replace(some, gram=gram)

    def _collected(self, batch: Batch) -> BatchCandidates:
        """Rows in both directions of what is left to learn, after more and more picks."""
        some, o = self._empty(batch), batch.observed.shape[1]
        some.X[:, o:] = 0.0
        some = replace(some, gram=np.zeros((*some.numbers.shape, some.numbers.shape[1])))
        some.add_products(0, o)
        greedy = self._greedy(batch, some, SEARCHES[-1], grows=True)
        for search, step in enumerate(step for step in SEARCHES if step < self.picks):
            greedy.advance(step)
            start = o + search * self.per_search
            new = slice(start, start + self.per_search)
            open_ = Open(batch.allowed, np.c_[batch.observed, some.numbers[:, o:start]])
            left, places = greedy.beliefs.residual(), (some.numbers[:, new], some.X[:, new])
            self.nearest.find(left, open_, *places, both_signs=True)
            some.add_products(new.start, new.stop)
            greedy.extend(new)
        return some


class Greedy:
    """Picks for B queries, one at a time."""

    def __init__(self, rule: Rule, beliefs: BatchBeliefs, numbers: Int[np.ndarray, "b w"]) -> None:
        self.beliefs, self.is_closed = beliefs, numbers < 0
        self._rule, self._numbers, self._some = rule, numbers, np.arange(len(numbers))
        self._taken = 0
        self.first: Float[np.ndarray, " b"] | None = None  # the largest gain of the first step

    def best(self) -> tuple[Int[np.ndarray, " b"], Float[np.ndarray, " b"]]:
        """The best candidate of each query and its gain, which is -inf where none is left."""
        gains = self._gains()
        largest = gains.max(axis=1)
        if self.first is None:
            self.first = largest
        width = TIE_TOLERANCE * np.abs(largest) + TIE_FLOOR * np.abs(self.first)
        ties = gains >= (largest - width)[:, None]
        places = np.where(ties, self._numbers, NO_ROW).argmin(axis=1)
        return places, gains[self._some, places]

    def take(self, places: Int[np.ndarray, " b"]) -> None:
        """Pick these and observe them."""
        self.is_closed[self._some, places] = True
        self.beliefs.observe(places)
        self._taken += 1

    def advance(self, steps: int) -> None:
        """Go on until there are so many picks."""
        while self._taken < steps:
            self.take(self.best()[0])

    def extend(self, new: slice) -> None:
        """Take in candidates that were added to the numbers and to X."""
        self.beliefs.extend(new)
        self.is_closed[:, new] = self._numbers[:, new] < 0

    def _gains(self) -> Float[np.ndarray, "b w"]:
        gains = [self._rule.gain(state) for state in self.beliefs.states()]
        scores = torch.cat(gains).numpy().reshape(self.is_closed.shape)
        scores[self.is_closed] = -np.inf
        return scores
