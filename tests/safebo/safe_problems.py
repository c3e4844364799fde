"""Random problems of a safe optimizer: the same one for Tellmost and for the oracle."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from hypothesis import strategies as st

import oracle_safebo
import tellmost as tm
from tellmost.posterior.gp import Data
from tellmost.safebo import Lipschitz

ROWS = 14
SEED_ROW = 3


@dataclass(frozen=True)
class Options:
    """What a problem is made of."""

    seed: int
    dimension: int = 1
    constraints: tuple[str, ...] = ("at_least",)  # "at_least", "at_most" or "both", of each
    is_shared: bool = False  # the objective is the first constraint too
    is_minimized: bool = False
    confidence: str = "beta"  # "confidence", "beta", "schedule", "rkhs"
    noise: str = "even"  # "even", "rows", "function", "told"
    has_data: bool = False
    has_context: bool = False
    slope_norm: int = 0  # 0: no Lipschitz constant is known
    steepness: float = 0.4  # that constant, in prior standard deviations
    max_step: float | None = None
    rule: str = "vtl"


options = st.builds(
    Options,
    seed=st.integers(0, 2**32 - 1),
    dimension=st.sampled_from([1, 2]),
    constraints=st.lists(
        st.sampled_from(["at_least", "at_most", "both"]), min_size=1, max_size=2
    ).map(tuple),
    is_shared=st.booleans(),
    is_minimized=st.booleans(),
    confidence=st.sampled_from(["confidence", "beta", "schedule", "rkhs"]),
    noise=st.sampled_from(["even", "rows", "function", "told"]),
    has_data=st.booleans(),
    has_context=st.booleans(),
    slope_norm=st.sampled_from([0, 0, 1, 2]),
    max_step=st.sampled_from([None, 0.3]),
)


def kernel_pair(lengthscale: float, variance: float):
    """Matern-3/2 of ours, and as a function of two arrays."""

    def covariance(X, Z):
        r = np.sqrt(3) * np.linalg.norm(X[:, None] - Z[None], axis=2) / lengthscale
        return variance * (1 + r) * np.exp(-r)

    ours = tm.kernels.Matern(1.5, lengthscale)
    return (ours if variance == 1 else tm.kernels.Scaled(ours, variance)), covariance


def slope(points):
    """A prior mean that is a function of the points."""
    return 0.3 * points[:, 0]


def loud(points):
    """A noise that is a function of the points."""
    return 0.1 + 0.1 * np.abs(np.asarray(points)[:, 0])


class Case:
    """An optimizer, the oracle's view of it, and the functions that it does not know."""

    def __init__(self, options: Options) -> None:
        self.options = o = options
        self.rng = rng = np.random.default_rng(o.seed)
        self.X = rng.uniform(0, 1, (ROWS, o.dimension))
        width = o.dimension + o.has_context
        count = len(o.constraints) + (not o.is_shared)
        self.names = [f"g{i}" for i in range(len(o.constraints))]
        served = [("objective", "g0")] if o.is_shared else [("objective",), ("g0",)]
        served += [(name,) for name in self.names[1:]]
        self.variances = [1.0, 4.0, 0.25][:count]
        self.functions, self.gps, self.f = [], [], []
        for number in range(count):
            self.add_function(number, served[number], width)
        self.limits = [self.limits_of(i, kind) for i, kind in enumerate(o.constraints)]
        self.oracle = oracle_safebo.Safe(
            X=self.at(0.0),
            functions=self.functions,
            limits=[limit for limits in self.limits for limit in limits],
            betas=self.betas,
            is_intersected=o.confidence != "confidence" and not o.has_context,
            is_minimized=o.is_minimized,
            has_context=o.has_context,
        )

    def at(self, context: float) -> np.ndarray:
        """The points of the domain as the models see them."""
        if not self.options.has_context:
            return self.X
        return np.column_stack([self.X, np.full(len(self.X), context)])

    def add_function(self, number: int, names: tuple[str, ...], width: int) -> None:
        o, rng, variance = self.options, self.rng, self.variances[number]
        ours, theirs = kernel_pair([0.4, 0.7, 0.5][number], variance)
        std = 0.1 * np.sqrt(variance)
        mean = [0.2, slope, -0.1][number]
        data = None
        if o.has_data and number == 0:
            points = rng.uniform(0, 1, (2, width))
            data = points, rng.normal(size=2), np.array([0.04, 0.09])
        self.gps.append(tm.GP(ours, mean=mean, noise_std=std, data=as_data(data)))
        stds = np.full(ROWS, std)
        if o.noise == "rows" and number == 0:
            stds = rng.uniform(0.05, 0.3, ROWS)
        elif o.noise == "function" and number == 0:
            stds = loud(self.X)
        as_mean = mean if callable(mean) else lambda points, m=mean: np.full(len(points), m)
        self.functions.append(oracle_safebo.Function(names, theirs, as_mean, stds, std, data))
        self.f.append(rng.normal(size=ROWS) * 0.2 * np.sqrt(variance) + as_mean(self.X))

    def limits_of(self, i: int, kind: str) -> list[oracle_safebo.Limit]:
        """Somewhat beyond what the function does at the seed."""
        number = i if self.options.is_shared else i + 1
        sd, here = np.sqrt(self.variances[number]), self.f[number][SEED_ROW]
        slope = (
            (self.options.steepness * sd, self.options.slope_norm)
            if self.options.slope_norm
            else None
        )
        lower = oracle_safebo.Limit(f"g{i}", number, True, here - 0.6 * sd, slope)
        upper = oracle_safebo.Limit(f"g{i}", number, False, here + 0.8 * sd, slope)
        return {"at_least": [lower], "at_most": [upper], "both": [lower, upper]}[kind]

    def betas(self, counts: list[int], information: list[float]) -> list[float]:
        kind, limits = self.options.confidence, sum(map(len, self.limits))
        if kind == "confidence":
            return [NormalDist().inv_cdf(1 - 0.1 / limits)] * len(counts)
        if kind == "rkhs":
            share = np.log(len(counts) / 0.5)
            return [0.5 + np.sqrt(2 * (one + share)) for one in information]
        return [1.5 + 0.1 * count * (kind == "schedule") for count in counts]

    def confidence(self) -> dict:
        return {
            "confidence": {"confidence": 0.9},
            "beta": {"beta": 1.5},
            "schedule": {"beta": lambda observations: 1.5 + 0.1 * observations},
            "rkhs": {"beta": tm.safebo.RKHSBound(0.5, 0.5)},
        }[self.options.confidence]

    def optimizer(self, targets=None, strategy=None) -> tm.SafeOptimizer:
        o = self.options
        noise = {"rows": self.functions[0].noise_std, "function": loud}.get(o.noise)
        rule = tm.rules.ITL(about="y") if o.rule == "itl-y" else o.rule
        return tm.SafeOptimizer(
            self.X,
            objective=self.gps[0],
            constraints={name: self.constraint(i) for i, name in enumerate(self.names)},
            safe_seed=[SEED_ROW],
            direction="minimize" if o.is_minimized else "maximize",
            rule=rule,
            targets=targets or (None if strategy else tm.targets.PotentialMaximizers()),
            strategy=strategy,
            noise_std=None if noise is None else {"objective": noise},
            contexts=["weather"] if o.has_context else None,
            max_step=o.max_step,
            on_violation="continue",
            on_miscalibration="log",
            suspect_z=np.inf,
            **self.confidence(),
        )

    def constraint(self, i: int) -> tm.Constraint:
        number = i if self.options.is_shared else i + 1
        given = {"at_least" if one.is_lower else "at_most": one.value for one in self.limits[i]}
        known = self.limits[i][0].slope
        return tm.Constraint(
            self.gps[number], lipschitz=None if known is None else Lipschitz(*known), **given
        )

    def seed_stands(self, optimizer: tm.SafeOptimizer) -> bool:
        """No violation was told of the seed, and no bound that values moved excludes it."""
        told = [trial.status for trial in optimizer.history if trial.index == SEED_ROW]
        return "violated" not in told and not any(map(self._speaks_against, self.oracle.limits))

    def _speaks_against(self, limit: oracle_safebo.Limit) -> bool:
        """Values moved the optimistic margin below 0, by a tenth where it was below before."""
        safe, number = self.oracle, limit.function
        lower, upper = safe.bounds()
        now = upper[number] - limit.value if limit.is_lower else limit.value - lower[number]
        counts = [len(safe.seen(i, len(safe.told))[1]) for i in range(len(self.functions))]
        told = [safe.information(i, len(safe.told)) for i in range(len(self.functions))]
        x, function = safe.X[SEED_ROW : SEED_ROW + 1], self.functions[number]
        gap = float(function.mean(x)[0]) - limit.value
        width = self.betas(counts, told)[number] * function.kernel(x, x)[0, 0] ** 0.5
        before = (gap if limit.is_lower else -gap) + width
        return now[SEED_ROW] < (0.0 if before >= 0 else before - 0.1 * safe.scale(number))

    def tell(self, optimizer: tm.SafeOptimizer, row: int, context: float) -> None:
        """A measurement of all functions, or of one of them."""
        o, rng = self.options, self.rng
        some = range(len(self.functions)) if rng.uniform() < 0.6 else [rng.integers(len(self.f))]
        values, stds = {}, {}
        for number in map(int, some):
            name = self.functions[number].names[-1]
            std = self.functions[number].noise_std[row]
            if o.noise == "told":
                std = stds[name] = float(std * rng.uniform(0.5, 2))
            values[number] = float(self.f[number][row] + std * rng.standard_normal()), std
        named = {self.functions[i].names[-1]: value for i, (value, _) in values.items()}
        optimizer.tell(
            row=row,
            objective=named.pop("objective", None),
            constraints=named,
            noise_std=stds or None,
            context=[context] if o.has_context else None,
        )
        x = np.append(self.X[row], context) if o.has_context else self.X[row]
        self.oracle.told.append(oracle_safebo.Told(x, values))


def as_data(data) -> Data | None:
    import torch

    return None if data is None else Data(*(torch.from_numpy(part) for part in data))
