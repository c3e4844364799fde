"""The plan is the same in every round: the pool, the targets, and what draws and chooses."""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from torch import Tensor, nn

from tellmost.finetune.inputs import Collate, Inputs, device_of, name_of
from tellmost.finetune.strategies import RoundInputs, check_choice, check_strategy, describe
from tellmost.rows.checks import check_indices, check_seed, check_whole
from tellmost.running.stopwatch import Stopwatch
from tellmost.shapes import Int


@runtime_checkable
class Candidates(Protocol):
    """Draws the candidates of a round: S in the paper's algorithm."""

    def draw(
        self, rows: Int[np.ndarray, " n"], generator: np.random.Generator
    ) -> Int[np.ndarray, " c"]:
        """Draw rows of the pool: at least one, and none twice."""


@dataclass(frozen=True)
class Uniform:
    """``size`` rows, drawn uniformly without repetition each round; all that are left if fewer."""

    size: int = 1_000

    def __post_init__(self) -> None:
        check_whole(self.size, "Uniform(size)")

    def draw(
        self, rows: Int[np.ndarray, " n"], generator: np.random.Generator
    ) -> Int[np.ndarray, " c"]:
        is_all = len(rows) <= self.size
        return rows if is_all else np.sort(generator.choice(rows, self.size, replace=False))


@dataclass(frozen=True)
class WholePool:
    """Every row of the pool that is left."""

    def draw(
        self, rows: Int[np.ndarray, " n"], generator: np.random.Generator
    ) -> Int[np.ndarray, " c"]:
        return rows


def check_candidates(candidates: Any) -> Candidates:
    """Candidates are a number of rows, None for the whole pool, or an object that draws them."""
    if candidates is None:
        return WholePool()
    if isinstance(candidates, type) or not isinstance(candidates, Candidates):
        return Uniform(check_whole(candidates, "candidates"))
    return candidates


class RoundPlan:
    """A pool, targets, and what draws and chooses. Rounds differ by their number alone."""

    def __init__(
        self,
        pool: Any,
        targets: Any,
        *,
        strategy: Any,
        candidates: Any,
        targets_per_round: Any = None,
        batch_size: Any,
        collate: Collate,
        seed: Any,
        called: str = "targets",
    ) -> None:
        """Checks the arguments. Errors call the targets as the caller does, ``called``."""
        self.pool = Inputs.of(pool, "pool", collate=collate)
        if len(self.pool) == 0:
            raise ValueError("pool must have at least one input to choose from; it is empty.")
        is_undirected = targets is None
        self.targets = None if is_undirected else read_targets(targets, self.pool, collate, called)
        self.strategy = check_strategy(strategy)
        self.candidates = check_candidates(candidates)
        self.targets_per_round = check_targets_per_round(targets_per_round, self.targets)
        self.batch_size = check_whole(batch_size, "batch_size")
        self.seed = check_seed(seed)
        self._notes: list[str] = []
        self._said: set[str] = set()

    def generator(self, number: int, purpose: str) -> np.random.Generator:
        """It follows from the seed, the round and the purpose, so no state has to be kept."""
        return np.random.default_rng([self.seed, number, *purpose.encode()])

    def seed_of(self, number: int, purpose: str) -> int:
        return int(self.generator(number, purpose).integers(2**62))

    def identity(self) -> dict[str, Any]:
        """Plain values that tell this plan from others. The pool is read once."""
        return {
            **self._names_of_inputs,
            "targets_per_round": self.targets_per_round,
            "strategy": describe(self.strategy),
            "candidates": describe(self.candidates),
            "seed": self.seed,
        }

    @cached_property
    def _names_of_inputs(self) -> dict[str, str | None]:
        aims = self.targets
        return {"pool": name_of(self.pool), "targets": None if aims is None else name_of(aims)}

    def draw(
        self, number: int, open_rows: Int[np.ndarray, " n"], *, at_least: int
    ) -> Int[np.ndarray, " c"]:
        """The candidates of a round, as rows of the pool. The caller's object may be wrong."""
        drawn = self.candidates.draw(open_rows, self.generator(number, "candidates"))
        rows = np.asarray(drawn)
        is_vector = rows.ndim == 1 and np.issubdtype(rows.dtype, np.integer) and len(rows)
        is_each_once = is_vector and len(np.unique(rows)) == len(rows)
        if not is_each_once or not np.isin(rows, open_rows).all():
            raise ValueError(
                f"candidates must draw at least one of the rows that it is given, each at most "
                f"once; {self.candidates!r} drew {drawn!r}."
            )
        if len(rows) < min(at_least, len(open_rows)):
            raise ValueError(
                f"candidates must be at least the {at_least} rows that are chosen together; "
                f"{self.candidates!r} drew {len(rows)} of {len(open_rows)}. Draw more, or choose "
                f"fewer."
            )
        return rows.astype(np.int64)

    def inputs_of(
        self,
        model: nn.Module,
        number: int,
        rows: Int[np.ndarray, " c"],
        observed: Int[np.ndarray, " o"],
        observed_labels: Int[np.ndarray, " o"],
        labelled: Int[np.ndarray, " l"] | None = None,
    ) -> RoundInputs:
        """The inputs of a round. ``labelled`` is what cost a label; None: what was observed."""
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
            notes=self._notes,
        )

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        """Positions among the candidates, k of them or as many as there are."""
        count = min(k, len(inputs.candidates))
        with inputs.watch.measure("selecting"):
            chosen = self.strategy.choose(inputs, count)
        return check_choice(chosen, len(inputs.candidates), count, self.strategy)

    def warn_of_notes(self) -> None:
        """Warn the caller of the calling function of each note of the strategy, once."""
        new = [note for note in dict.fromkeys(self._notes) if note not in self._said]
        self._said.update(new)
        self._notes.clear()
        for note in new:
            warnings.warn(note, UserWarning, stacklevel=3)

    def _targets_of(self, number: int) -> Inputs | None:
        if self.targets is None or self.targets_per_round is None:
            return self.targets
        generator, n = self.generator(number, "targets"), len(self.targets)
        drawn = generator.choice(n, self.targets_per_round, replace=False)
        return self.targets.subset(np.sort(drawn))


def read_targets(targets: Any, pool: Inputs, collate: Collate, called: str) -> Inputs:
    """Targets are inputs, or whole numbers: rows of the pool. Their labels are not read."""
    if are_row_numbers(targets):
        rows = check_indices(targets, called, len(pool)).numpy()
        found = replace(pool.subset(rows), name=called)
    else:
        found = Inputs.of(targets, called, collate=collate)
    if len(found) == 0:
        raise ValueError(f"{called} must not be empty. None is for strategies without targets.")
    if isinstance(found.data, Tensor) and isinstance(pool.data, Tensor):
        its, own = tuple(found.data.shape), tuple(pool.data.shape)
        if its[1:] != own[1:]:
            raise ValueError(
                f"pool and {called} must have inputs of one shape; got pool {own} and {called} "
                f"{its}. (a) A single input needs a row of its own: x[None]. (b) A column of "
                f"labels is no input. (c) If the network takes inputs of several sizes, give a "
                f"dataset: list({called})."
            )
    return found


def are_row_numbers(values: Any) -> bool:
    """Recognise whole numbers or a mask in one dimension, which cannot be inputs."""
    if isinstance(values, Tensor):
        return values.ndim == 1 and not values.is_floating_point() and not values.is_complex()
    if isinstance(values, np.ndarray):
        return values.ndim == 1 and values.dtype.kind in "biu"
    is_list = isinstance(values, list | tuple | range) and len(values) > 0
    return is_list and all(isinstance(value, int | np.integer) for value in values)


def check_targets_per_round(count: Any, targets: Inputs | None) -> int | None:
    if count is None:
        return None
    there = 0 if targets is None else len(targets)
    name = f"targets_per_round of {there} targets (None takes all)"
    return check_whole(count, name, most=there)
