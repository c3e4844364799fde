"""Curves of what is known about the targets, for every method and seed of a setting."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from tellmost.shapes import Float, Int
from tellmost_reproduction.gp.measures import Knowledge, measure, rank
from tellmost_reproduction.gp.methods import Method, methods_for
from tellmost_reproduction.gp.picking import pick_by
from tellmost_reproduction.gp.settings import Setting, Size

Tell = Callable[[str], None]
"""Takes in that a run of a method is done."""


@dataclass(frozen=True)
class Run:
    """The picks of a method, and what they tell; of a seed, or of all where they do not differ."""

    method: Method
    seed: int | None  # None: the picks do not depend on y, so they are those of every seed
    picks: Int[np.ndarray, " t"]
    knowledge: Knowledge
    seconds: float  # for the picks


@dataclass(frozen=True)
class Curves:
    """All runs of a setting."""

    setting: Setting
    size: Size
    methods: tuple[Method, ...]
    runs: tuple[Run, ...]
    rank: int  # of K_AA

    def of(self, key: str) -> list[Run]:
        return [run for run in self.runs if run.method.key == key]

    def label(self, key: str) -> str:
        return next(method.label for method in self.methods if method.key == key)

    def has(self, *keys: str) -> bool:
        return all(self.of(key) for key in keys)

    def seeds(self, measure: str, key: str) -> Float[np.ndarray, "s steps"]:
        """A curve per seed; one curve where all seeds have the same."""
        curves = [getattr(run.knowledge, measure) for run in self.of(key)]
        return np.concatenate([np.atleast_2d(curve) for curve in curves])

    def mean(self, measure: str, key: str) -> Float[np.ndarray, " steps"]:
        return self.seeds(measure, key).mean(axis=0)

    def error(self, measure: str, key: str) -> Float[np.ndarray, " steps"] | None:
        """Standard error of the mean; None where there is one curve for all seeds."""
        curves = self.seeds(measure, key)
        if len(curves) == 1:
            return None
        return curves.std(axis=0, ddof=1) / np.sqrt(len(curves))

    def area(self, measure: str, key: str) -> float:
        """Under the mean curve, per observation: its mean over 1 to t observations."""
        return float(self.mean(measure, key)[1:].mean())

    def seconds(self, key: str) -> float:
        """For the picks of one run, on average."""
        return float(np.mean([run.seconds for run in self.of(key)]))

    def share(self, key: str, chosen: np.ndarray, first: int | None = None) -> float:
        """Of the picks, or of the first so many, that are among these rows."""
        return float(np.mean([chosen[run.picks[:first]].mean() for run in self.of(key)]))


def needed(curve: Float[np.ndarray, " steps"], level: float, *, rises: bool = False) -> int | None:
    """Observations after which a curve has reached a level; None: it never does."""
    reached = np.flatnonzero(curve >= level if rises else curve <= level)
    return int(reached[0]) if len(reached) else None


def trace_curves(
    setting: Setting,
    size: Size,
    own: Sequence[Method] = (),
    *,
    only: Sequence[str] | None = None,
    tell: Tell = lambda done: None,
) -> Curves:
    """Run every method; a random one with every seed."""
    methods = [m for m in methods_for(setting, own) if only is None or m.key in only]
    runs = []
    for method in methods:
        for seed in range(size.seeds) if method.is_random else (None,):
            runs.append(run_method(setting, size, method, seed))
            tell(method.label)
    return Curves(setting, size, tuple(methods), tuple(runs), rank(setting))


def run_method(setting: Setting, size: Size, method: Method, seed: int | None) -> Run:
    started = perf_counter()
    picks = pick_by(method, setting, size.rounds, seed=seed)
    seconds = perf_counter() - started
    seeds = range(size.seeds) if seed is None else range(seed, seed + 1)
    return Run(method, seed, picks, measure(setting, picks, seeds), seconds)


def count_runs(setting: Setting, size: Size, own: Sequence[Method] = ()) -> int:
    return sum(size.seeds if m.is_random else 1 for m in methods_for(setting, own))
