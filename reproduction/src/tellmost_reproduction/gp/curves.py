"""Curves of what is known about the targets, for every method and seed of a setting."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from tellmost.numerics import RANK_TOLERANCE
from tellmost.rules import Rule
from tellmost.selecting.limits import NO_NUMBERS
from tellmost.selecting.select import select_quietly
from tellmost.shapes import Float, Int
from tellmost_reproduction.frame.comparing import PairedComparison, compare_scores
from tellmost_reproduction.gp.measures import RISING, Knowledge, information_at, measure, rank
from tellmost_reproduction.gp.methods import Method, methods_for
from tellmost_reproduction.gp.settings import Setting, Size


def pick(setting: Setting, rule: Rule, rounds: int) -> Int[np.ndarray, " t"]:
    """Choose rows of S in the order of their observation. A row may come again.

    Warnings about the rule and the noise are left out, since both are the experiment's.
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
    """Make a method's picks. An error in a rule of the user names the rule."""
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
"""Is told that a run of a method is done."""


@dataclass(frozen=True)
class Run:
    """The picks of a method, and what they tell."""

    method: Method
    seed: int | None  # None: the picks do not depend on y, so every seed has the same
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

    def seeds(self, measure: str, key: str) -> Float[np.ndarray, "s steps"]:
        """A curve per seed, or one curve if all seeds have the same."""
        curves = [getattr(run.knowledge, measure) for run in self.of(key)]
        return np.concatenate([np.atleast_2d(curve) for curve in curves])

    def mean(self, measure: str, key: str) -> Float[np.ndarray, " steps"]:
        return self.seeds(measure, key).mean(axis=0)

    def error(self, measure: str, key: str) -> Float[np.ndarray, " steps"] | None:
        """Standard error of the mean. None means that one curve stands for all seeds."""
        curves = self.seeds(measure, key)
        if len(curves) == 1:
            return None
        return curves.std(axis=0, ddof=1) / np.sqrt(len(curves))

    def area(self, measure: str, key: str) -> float:
        """The mean over 1 to t observations: the area under the mean curve, per observation."""
        return float(self.mean(measure, key)[1:].mean())

    def share(self, key: str, chosen: np.ndarray, first: int | None = None) -> float:
        """The share of the picks, or of the first so many, that are among these rows."""
        return float(np.mean([chosen[run.picks[:first]].mean() for run in self.of(key)]))


def needed(curve: Float[np.ndarray, " steps"], level: float) -> int | None:
    """Observations after which a falling curve has reached a level. None means never."""
    reached = np.flatnonzero(curve <= level)
    return int(reached[0]) if len(reached) else None


def trace_curves(
    setting: Setting,
    size: Size,
    own: Sequence[Method] = (),
    *,
    only: Sequence[str] | None = None,
    tell: Tell = lambda done: None,
) -> Curves:
    """Run every method, and those that draw with every seed."""
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
"""Where the rank of K_AA might be cut when entropies are measured."""


def compare(curves: Curves, measure: str, one: str, other: str) -> PairedComparison:
    """Compare two methods by the means of their curves over 1 to t observations."""
    first, second = (curves.seeds(measure, key)[:, 1:].mean(axis=1) for key in (one, other))
    labels = curves.label(one), curves.label(other)
    return compare_scores(labels, first, second, rises=measure in RISING, is_exact=True)


def share_ahead(curves: Curves, measure: str, one: str, other: str) -> float:
    """The share of the observations after which the first is better."""
    mean, rival = (curves.mean(measure, key)[1:] for key in (one, other))
    return float((mean > rival if measure in RISING else mean < rival).mean())


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
    """Mean fall of the entropy of f on A if the rank is cut elsewhere; the picks stay."""
    runs = [information_at(curves.setting, run.picks, tolerance)[1:] for run in curves.of(key)]
    return float(np.mean(runs))
