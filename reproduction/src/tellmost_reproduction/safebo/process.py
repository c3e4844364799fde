r"""The 6d task, beyond the paper: the recipe of a batch, with two limits that bind by degrees.

The quadcopter's constraint is in effect binary. Here a reactor (``reactor.py``) is to produce as
much as it can, kg/h, while its peak stays at most 326 K and its product at least 91% pure: limits
of different units and sides, kept by a sixth of all recipes. Either of them alone would admit
better recipes than the best one that keeps both, and that one is near the limits and far from
where it starts.

The domain is a fixed set of 2,048 Sobol points, searched whole, so that regret and safe set are
exact. So are the Lipschitz constants of SafeOpt and GoOSE, but they lead nowhere: no safe point of
the set is near enough to another to prove it safe. Points are shares of the range of each
parameter: a distance that adds kelvins to hours would mean nothing.

Known beforehand are the recipe farthest from both limits, in standard deviations of their noise,
and the eleven safe ones nearest to it, as if tried around the present recipe. Of one alone nobody
could go on: neighbours are 0.3 apart in six dimensions, and by the priors below purity may fall by
more than its margin over such a step, unless its slopes are known.

Priors: Matérn-5/2 with a lengthscale per parameter, by marginal likelihood (``GP.fit``) of 300
noisy recipes drawn uniformly from the box, with the noise as it is and the mean of the values;
rounded to three digits, and constants since. Of six such fits (samples of 200, 300 and 400, two
seeds) it is the one with the best z-scores: given its 300 values, those of the domain lie 1.1, 1.0
and 1.0 predicted standard deviations off (root mean square); with the others it was 0.8 to 1.4.
No run of an optimizer had a part in that. :func:`fit_priors` does it again.

Limits, number of points and starts were settled by the values of the domain and by short trial
runs, in which some method had to be able to leave the start, and before any run that is reported.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import torch

from tellmost.kernels import Matern, Scaled
from tellmost.posterior.gp import GP
from tellmost.safebo import Constraint, Lipschitz, SafeOptimizer
from tellmost.safebo.baselines import estimate_lipschitz, steepest_slope
from tellmost.safebo.baselines.expanding import find_reached
from tellmost.safebo.strategies import QueryStrategy
from tellmost.shapes import Bool, Float, Int
from tellmost.targets.box import Box
from tellmost_reproduction.safebo.reactor import RECIPES, make_batch
from tellmost_reproduction.safebo.tasks import Constants

POINTS, FEW_POINTS = 2_048, 256
STARTS = 12
SAMPLE = 300  # recipes that the priors were fitted to
HOTTEST, PUREST = 326.0, 91.0  # the limits: K, and % at least
NOISE_STD = {"objective": 1.0, "temperature": 0.5, "purity": 0.3}  # kg/h, K, %
LENGTHSCALES = {
    "objective": (6.41, 3.15, 5.13, 5.36, 14.0, 3.73),
    "temperature": (6.55, 3.54, 16.2, 5.36, 4.89, 995.0),  # it peaks before the batch is held
    "purity": (3.18, 5.78, 2.77, 2.48, 4.38, 3.67),
}
VARIANCES = {"objective": 4993.0, "temperature": 2710.0, "purity": 801.0}
MEANS = {"objective": 56.3, "temperature": 329.8, "purity": 89.3}

PRIORS = {
    name: GP(
        Scaled(Matern(2.5, LENGTHSCALES[name]), VARIANCES[name]),
        mean=MEANS[name],
        noise_std=NOISE_STD[name],
    )
    for name in NOISE_STD
}
"""What is believed, by name of the output."""


@dataclass(frozen=True)
class Process:
    """What is to be optimized: as a ``Task``, with two constraints in their own units."""

    domain: Float[np.ndarray, "n 6"]  # shares of the range of each parameter
    values: Mapping[str, Float[np.ndarray, " n"]]  # of every output, without noise
    starts: Int[np.ndarray, " s"]  # rows that are observed beforehand
    slopes: Mapping[Constants, Mapping[str, Lipschitz]]
    priors: Mapping[str, GP]
    name: str = "process"
    beta: float = 3.0
    rounds: int = 100
    is_intersected: bool = True  # whether bounds are kept over time, or those of now alone count

    @property
    def confidence(self) -> float:
        """Of a query whose two limits have one-sided bounds of beta standard deviations."""
        return 1 - 2 * NormalDist().cdf(-self.beta)

    @property
    def is_safe(self) -> Bool[np.ndarray, " n"]:
        return is_kept(self.values)

    @property
    def optimum(self) -> int:
        """The row of the best safe point."""
        return int(np.where(self.is_safe, self.values["objective"], -np.inf).argmax())

    def regret(self, row: int) -> float:
        f = self.values["objective"]
        return float(f[self.optimum] - f[row])

    def violates(self, row: int) -> bool:
        return not bool(self.is_safe[row])

    def count_safe(self, optimizer: SafeOptimizer) -> tuple[int, int]:
        """How many points it takes for safe, and how many of these are not."""
        mask = optimizer.safe_mask
        return int(mask.sum()), int((mask & ~self.is_safe).sum())

    def find_reaching(self) -> Bool[np.ndarray, " n"]:
        """Safe rows that would prove another row safe, if all were known, by true constants."""
        margins = (HOTTEST - self.values["temperature"], self.values["purity"] - PUREST)
        rows = np.flatnonzero(self.is_safe)
        slopes = [self.slopes["true"][name] for name in ("temperature", "purity")]
        found = np.zeros(len(self.domain), dtype=bool)
        points = torch.from_numpy(self.domain)
        for row in rows.tolist():
            known = torch.tensor([[float(margin[row])] for margin in margins])
            others = torch.cat([points[:row], points[row + 1 :]])
            found[row] = bool(find_reached(slopes, points[row : row + 1], known, others).any())
        return found

    def measure(self, row: int, rng: np.random.Generator) -> dict[str, Any]:
        """Noisy values of a row, as the optimizer is told them."""
        told = {
            name: float(values[row] + NOISE_STD[name] * rng.standard_normal())
            for name, values in self.values.items()
        }
        return {"objective": told.pop("objective"), "constraints": told}

    def optimizer(
        self,
        rng: np.random.Generator,
        *,
        rule: Any = "vtl",
        targets: Any = None,
        strategy: QueryStrategy | None = None,
        lipschitz: Constants | None = None,
        seed: int = 0,
    ) -> SafeOptimizer:
        """With the task's priors and beta, told the first observations.

        Where Lipschitz constants are given, these rows are declared safe, to grow from.
        """
        rows = self.starts.tolist()
        optimizer = SafeOptimizer(
            self.domain,
            objective=self.priors["objective"],
            constraints=self._constraints({} if lipschitz is None else self.slopes[lipschitz]),
            safe_seed=None if lipschitz is None else rows,
            beta=self.beta if self.is_intersected else None,
            confidence=None if self.is_intersected else self.confidence,
            rule=rule,
            targets=targets,
            strategy=strategy,
            on_violation="continue",
            seed=seed,
        )
        for row in rows:
            optimizer.tell(row, **self.measure(row, rng))
        return optimizer

    def _constraints(self, slopes: Mapping[str, Lipschitz]) -> dict[str, Constraint]:
        heat, purity = self.priors["temperature"], self.priors["purity"]
        return {
            "temperature": Constraint(heat, at_most=HOTTEST, lipschitz=slopes.get("temperature")),
            "purity": Constraint(purity, at_least=PUREST, lipschitz=slopes.get("purity")),
        }


@cache
def process(points: int = POINTS) -> Process:
    """The 6d task; the paper has no constants for it, so there are no oracle's."""
    domain = Box(6 * [0.0], 1.0).sobol(points, seed=0).numpy()
    values = evaluate(domain)
    limits = ("temperature", "purity")
    true = {name: steepest_slope(domain, values[name], norm=1) for name in limits}
    drawn = {name: estimate_lipschitz(PRIORS[name], domain, norm=1) for name in limits}
    slopes: dict[Constants, dict[str, Lipschitz]] = {"true": true, "estimated": drawn}
    return Process(domain, values, find_starts(domain, values), slopes, PRIORS)


def small_process() -> Process:
    """To see that code runs; another task, with fewer points."""
    return process(FEW_POINTS)


def evaluate(shares: Float[np.ndarray, "n 6"]) -> dict[str, Float[np.ndarray, " n"]]:
    """All outputs without noise, at shares of the ranges."""
    low, high = np.array(RECIPES.low), np.array(RECIPES.high)
    batch = make_batch(low + shares * (high - low))
    return {
        "objective": batch.production,
        "temperature": batch.temperature,
        "purity": batch.purity,
    }


def is_kept(values: Mapping[str, Float[np.ndarray, " n"]]) -> Bool[np.ndarray, " n"]:
    """Whether both limits are."""
    return (values["temperature"] <= HOTTEST) & (values["purity"] >= PUREST)


def find_starts(
    domain: Float[np.ndarray, "n 6"], values: Mapping[str, Float[np.ndarray, " n"]]
) -> Int[np.ndarray, " s"]:
    """The row farthest from both limits by its noise, and the safe ones nearest to it."""
    cool = (HOTTEST - values["temperature"]) / NOISE_STD["temperature"]
    pure = (values["purity"] - PUREST) / NOISE_STD["purity"]
    apart = np.linalg.norm(domain - domain[np.minimum(cool, pure).argmax()], axis=1)
    return np.where(is_kept(values), apart, np.inf).argsort(kind="stable")[:STARTS]


def fit_priors(seed: int = 0) -> dict[str, GP]:
    """How ``PRIORS`` were found (extra ``bo``)."""
    rng = np.random.default_rng(seed)
    shares = rng.random((SAMPLE, 6))
    found = {}
    for name, values in evaluate(shares).items():
        y = values + NOISE_STD[name] * rng.standard_normal(SAMPLE)
        kernel = Scaled(Matern(2.5, np.ones(6)), float(y.var()))
        found[name] = GP.fit(shares, y, kernel, noise_std=NOISE_STD[name], mean=float(y.mean()))
    return found
