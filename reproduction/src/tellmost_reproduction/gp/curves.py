"""Curves of what is known about the targets, for every method and seed of a setting."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from tellmost.evaluation.statistics import Mean
from tellmost.numerics import RANK_TOLERANCE, SAME_VALUES
from tellmost.rules import Rule
from tellmost.selecting.choosers import NO_NUMBERS
from tellmost.selecting.select import select_quietly
from tellmost.shapes import Float, Int
from tellmost_reproduction.gp.measures import RISING, Knowledge, information_at, measure, rank
from tellmost_reproduction.gp.methods import Method, methods_for
from tellmost_reproduction.gp.settings import Setting, Size


def pick(setting: Setting, rule: Rule, rounds: int) -> Int[np.ndarray, " t"]:
    """Rows of S in the order of their observation; a row may come again.

    Notes about the choice of rule and noise are left out: both are the experiment's.
    """
    return select_quietly(
        setting.pool,
        setting.target_points,
        rounds,
        rule=rule,
        kernel=setting.kernel,
        noise_std=setting.noise,
        replace=True,
        progress=False,
    ).indices


def pick_by(
    method: Method, setting: Setting, rounds: int, *, seed: int | None = None
) -> Int[np.ndarray, " t"]:
    """A method's picks; what fails in a rule of the user's is said with the rule's name."""
    rule = method.rule if seed is None else method.with_seed(seed)
    try:
        return pick(setting, rule, rounds)
    except Exception as error:
        if not method.is_own:
            raise
        what = (
            "a gain was NaN or infinite: guard the division or the logarithm"
            if str(error) == NO_NUMBERS  # whose advice is about the noise, which is given here
            else f"{type(error).__name__}: {error}"
        )
        raise RuntimeError(f"--rule: {method.key!r} failed in {setting.name}; {what}.") from error


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


LOOSE_CUT = 1e-4
TOLERANCES = (LOOSE_CUT, 1e-6, 1e-8, RANK_TOLERANCE, 1e-12)
"""At which the rank_methods of K_AA might be cut when entropies are measured."""


@dataclass(frozen=True)
class Comparison:
    """Two methods on one measure, by the means of their curves over 1 to t observations."""

    measure: str
    one: str
    other: str
    means: tuple[float, float]
    ahead: float  # share of the observations after which the first is better
    is_clear: bool  # the difference is no chance of the seeds, and no rounding

    @property
    def wins(self) -> bool:
        better = self.means[0] > self.means[1]
        return self.is_clear and better == (self.measure in RISING)

    def describe(self) -> str:
        one, other = self.means
        return f"{self.one} {one:.4g} against {self.other} {other:.4g}"

    @property
    def margin(self) -> float:
        """How far apart they are, as a share of the other's."""
        one, other = self.means
        return abs(one / other - 1) if other else 0.0

    @property
    def difference(self) -> str:
        """In nats, or as a share of the other's."""
        one, other = self.means
        if self.measure in RISING:
            return f"{one - other:+.1f} nats"
        return f"{100 * (one / other - 1):+.2g}%"


def compare(curves: Curves, measure: str, one: str, other: str) -> Comparison:
    """The first against the other; both keys."""
    first, second = curves.seeds(measure, one)[:, 1:], curves.seeds(measure, other)[:, 1:]
    mean, rival = first.mean(axis=0), second.mean(axis=0)
    ahead = mean > rival if measure in RISING else mean < rival
    return Comparison(
        measure=measure,
        one=curves.label(one),
        other=curves.label(other),
        means=(float(mean.mean()), float(rival.mean())),
        ahead=float(ahead.mean()),
        is_clear=_differ(first.mean(axis=1), second.mean(axis=1)),
    )


def _differ(one: Float[np.ndarray, " a"], other: Float[np.ndarray, " b"]) -> bool:
    """Beyond chance at 95% where seeds differ; beyond rounding where they do not."""
    difference = one - other  # a single curve serves every seed
    if len(difference) > 1:
        return Mean.of(difference).sign != 0
    return bool(abs(difference[0]) > SAME_VALUES * abs(other[0]))


def spread(curves: Curves, measure: str, keys: tuple[str, ...]) -> float:
    """How much the worst of these methods lacks to the best, as a share of the best."""
    means = [curves.area(measure, key) for key in keys]
    return max(means) / min(means) - 1 if measure not in RISING else 1 - min(means) / max(means)


def rank_methods(curves: Curves, measure: str) -> list[str]:
    """The paper's methods, the best first."""
    keys = [method.key for method in curves.methods if not method.is_extra]
    areas = {key: curves.area(measure, key) for key in keys}
    return sorted(keys, key=lambda key: areas[key], reverse=measure in RISING)


def fall_of(curves: Curves, key: str, tolerance: float) -> float:
    """Mean fall of the entropy of f on A, had the rank been cut elsewhere; picks as they are."""
    runs = [information_at(curves.setting, run.picks, tolerance)[1:] for run in curves.of(key)]
    return float(np.mean(runs))
