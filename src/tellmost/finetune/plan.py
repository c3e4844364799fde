"""What is chosen from, what for, and how: the same in every round.

Which rows of the pool a round looks at.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from torch import Tensor, nn

from tellmost.finetune.inputs import Collate, Inputs, device_of, name_of
from tellmost.finetune.strategies import (
    RoundInputs,
    Strategy,
    check_choice,
    check_strategy,
    describe,
)
from tellmost.finetune.training import Stopwatch
from tellmost.learner.arguments import check_seed
from tellmost.rows.opening import check_indices, check_whole
from tellmost.shapes import Int


@runtime_checkable
class Candidates(Protocol):
    """Draws the sample space of a round: S in the paper's algorithm."""

    def draw(
        self, rows: Int[np.ndarray, " n"], generator: np.random.Generator
    ) -> Int[np.ndarray, " c"]:
        """Some of these rows of the pool, each at most once; at least one."""


@dataclass(frozen=True)
class Uniform:
    """So many rows, drawn uniformly without repetition each round; all that are left if fewer."""

    size: int = 1_000

    def __post_init__(self) -> None:
        check_whole(self.size, "Uniform(size)")

    def draw(
        self, rows: Int[np.ndarray, " n"], generator: np.random.Generator
    ) -> Int[np.ndarray, " c"]:
        if len(rows) <= self.size:
            return rows
        return np.sort(generator.choice(rows, self.size, replace=False))


@dataclass(frozen=True)
class WholePool:
    """Every row that is left."""

    def draw(
        self, rows: Int[np.ndarray, " n"], generator: np.random.Generator
    ) -> Int[np.ndarray, " c"]:
        return rows


def check_candidates(candidates: Any) -> Candidates:
    """A number of rows, None for the whole pool, or an object that draws them."""
    if candidates is None:
        return WholePool()
    if isinstance(candidates, type) or not isinstance(candidates, Candidates):
        return Uniform(check_whole(candidates, "candidates"))
    return candidates


def check_draw(
    drawn: Any, rows: Int[np.ndarray, " n"], candidates: Candidates
) -> Int[np.ndarray, " c"]:
    """Rows that a sampler of the caller's own drew."""
    found = np.asarray(drawn)
    is_vector = found.ndim == 1 and np.issubdtype(found.dtype, np.integer) and len(found)
    if not is_vector or len(np.unique(found)) != len(found) or not np.isin(found, rows).all():
        raise ValueError(
            f"candidates must draw at least one of the rows that it is given, each at most once; "
            f"{candidates!r} drew {drawn!r}."
        )
    return found.astype(np.int64)


@dataclass(frozen=True, eq=False)
class RoundPlan:
    """A pool, targets, and what draws and chooses; rounds differ by their number alone."""

    pool: Inputs
    targets: Inputs | None
    strategy: Strategy
    candidates: Candidates
    targets_per_round: int | None
    batch_size: int
    seed: int

    @staticmethod
    def of(
        pool: Any,
        targets: Any,
        *,
        strategy: Any,
        candidates: Any,
        targets_per_round: Any,
        batch_size: Any,
        collate: Collate,
        seed: Any,
        called: str = "targets",
    ) -> "RoundPlan":
        """``called``: the caller's argument for the targets, for errors."""
        rows = Inputs.of(pool, "pool", collate=collate)
        if len(rows) == 0:
            raise ValueError("pool must have at least one input to choose from; it is empty.")
        aims = None if targets is None else check_targets(targets, rows, collate, called)
        return RoundPlan(
            pool=rows,
            targets=aims,
            strategy=check_strategy(strategy),
            candidates=check_candidates(candidates),
            targets_per_round=check_targets_per_round(targets_per_round, aims),
            batch_size=check_whole(batch_size, "batch_size"),
            seed=check_seed(seed),
        )

    def generator(self, number: int, purpose: str) -> np.random.Generator:
        """A function of the seed, the round and the purpose, so that no state has to be kept."""
        return np.random.default_rng([self.seed, number, *purpose.encode()])

    def seed_of(self, number: int, purpose: str) -> int:
        return int(self.generator(number, purpose).integers(2**62))

    def identity(self) -> dict[str, Any]:
        """What tells this plan from others, as plain values."""
        return {
            **self._names_of_inputs,
            "targets_per_round": self.targets_per_round,
            "strategy": describe(self.strategy),
            "candidates": describe(self.candidates),
            "seed": self.seed,
        }

    @cached_property
    def _names_of_inputs(self) -> dict[str, str | None]:
        """Made once, when a state is first saved or loaded, as it reads all values."""
        aims = self.targets
        return {"pool": name_of(self.pool), "targets": None if aims is None else name_of(aims)}

    def draw(
        self, number: int, open_rows: Int[np.ndarray, " n"], *, at_least: int
    ) -> Int[np.ndarray, " c"]:
        """The candidates of a round, as rows of the pool; all of these if there are no more."""
        drawn = self.candidates.draw(open_rows, self.generator(number, "candidates"))
        rows = check_draw(drawn, open_rows, self.candidates)
        if len(rows) < min(at_least, len(open_rows)):
            raise ValueError(
                f"candidates must be at least the {at_least} rows that are chosen together; "
                f"{self.candidates!r} drew {len(rows)} of {len(open_rows)}. Draw more, or choose "
                f"fewer."
            )
        return rows

    def inputs_of(
        self,
        model: nn.Module,
        number: int,
        rows: Int[np.ndarray, " c"],
        observed: Int[np.ndarray, " o"],
        observed_labels: Int[np.ndarray, " o"],
        labelled: Int[np.ndarray, " l"] | None = None,
    ) -> RoundInputs:
        """Round ``number`` with these rows of the pool as candidates; its targets are drawn.

        ``labelled``: what cost a label, inside the task or outside; None: what was observed.
        """
        paid = observed if labelled is None else labelled
        return RoundInputs(
            model=model,
            candidates=self.pool.subset(rows),
            targets=self._targets_of(number),
            observed=replace(self.pool.subset(observed), name="observed"),
            observed_labels=observed_labels,
            labelled=replace(self.pool.subset(paid), name="labelled"),
            seed=self.seed_of(number, "strategy"),
            batch_size=self.batch_size,
            watch=Stopwatch(device_of(model)),
        )

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        """Positions among the round's candidates; fewer than k where there are fewer."""
        count = min(k, len(inputs.candidates))
        with inputs.watch.measure("selecting"):
            chosen = self.strategy.choose(inputs, count)
        return check_choice(chosen, len(inputs.candidates), count, self.strategy)

    def _targets_of(self, number: int) -> Inputs | None:
        if self.targets is None or self.targets_per_round is None:
            return self.targets
        generator = self.generator(number, "targets")
        count = len(self.targets), self.targets_per_round
        return self.targets.subset(np.sort(generator.choice(*count, replace=False)))


def check_targets(targets: Any, pool: Inputs, collate: Collate, called: str) -> Inputs:
    """Inputs of their own, or whole numbers: rows of the pool. Labels, if any, are not read."""
    if are_row_numbers(targets):
        rows = check_indices(as_numbers(targets), called, len(pool)).numpy()
        found = replace(pool.subset(rows), name=called)
    else:
        found = Inputs.of(targets, called, collate=collate)
    if len(found) == 0:
        raise ValueError(f"{called} must not be empty. None is for strategies without targets.")
    check_shape_of(found, pool)
    return found


def check_shape_of(targets: Inputs, pool: Inputs) -> None:
    """One network takes both: in tensors, items of one shape."""
    if not isinstance(targets.data, Tensor) or not isinstance(pool.data, Tensor):
        return
    its, own = tuple(targets.data.shape), tuple(pool.data.shape)
    if its[1:] != own[1:]:
        raise ValueError(
            f"pool and {targets.name} must have inputs of one shape; got pool {own} and "
            f"{targets.name} {its}. (a) A single input needs a row of its own: x[None]. (b) A "
            f"column of labels is no input. (c) If the network takes inputs of several sizes, "
            f"give a dataset: list({targets.name})."
        )


def are_row_numbers(values: Any) -> bool:
    """A vector of whole numbers, which no network takes as a row of inputs each; or a mask."""
    if isinstance(values, Tensor):
        return values.ndim == 1 and not values.is_floating_point() and not values.is_complex()
    if isinstance(values, np.ndarray):
        return values.ndim == 1 and values.dtype.kind in "biu"
    is_list = isinstance(values, list | tuple | range) and len(values) > 0
    return is_list and all(isinstance(value, int | np.integer) for value in values)


def as_numbers(values: Any) -> Any:
    return values if isinstance(values, Tensor) else np.asarray(values)


def check_targets_per_round(count: Any, targets: Inputs | None) -> int | None:
    if count is None:
        return None
    wanted = check_whole(count, "targets_per_round")
    if targets is None or wanted > len(targets):
        there = 0 if targets is None else len(targets)
        raise ValueError(
            f"targets_per_round must be at most the number of targets, {there}; got {wanted}. "
            f"None takes all of them every round."
        )
    return wanted
