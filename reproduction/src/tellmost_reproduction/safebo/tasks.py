r"""The synthetic tasks: a function in one dimension, an island in two, and local barriers.

Hübotter et al. 2024, App. "Safe Bayesian Optimization: Experiment Details". With N the normal
density of a mean and a standard deviation (or covariance),

.. math::
    f_1(x) = 5 N(0.4, 0.85) + 1.45 N(2.5, 0.9) + 1.8 N(3.2, 0.55) + 4.5 N(5.5, 0.93) - 0.95,

which is objective and constraint at once, :math:`f_1 \ge 0`; and

.. math::
    f_2(x) = 100 N\big((2, 2), (\begin{smallmatrix}1 & .5\\.5 & 1\end{smallmatrix})\big), \qquad
    g_2(x) = 100 N(0, I) - 2.5 \ge 0.

Lipschitz constants are those of the L1 norm. The true ones are the steepest slopes between
neighbours of the grid, so they hold on it. The paper's own, which it calls oracle, are below them.

The barriers are a reconstruction of App. "Jumping Past Local Barriers". The paper prints a linear
kernel on a sin transform, a prior mean 0.1 x, and that three disjoint regions, of two of the three
safe bumps, are known to be safe at first. Its code does not have the experiment, so domain, noise
and beta are ours:

.. math::
    f(x) = \sin x + 0.1 x \ge 0, \quad x \in [-10, 10], \qquad
    f \sim w \sin x + 0.1 x, \quad w \sim N(0, 1).

With beta = 3 the points with :math:`0.1 x \ge 3 |\sin x|` are known to be safe: around pi, two pi
and three pi, of which the latter two belong to one bump. The third bump, around -3/2 pi, is safe
once :math:`w \ge 0.47` is known. No path of safe points leads there, but any other point tells of
w, and the more the larger :math:`|\sin x|`. So the kernel reaches it. A Lipschitz constant, which
grows safe sets from where they are, never does; that of f is 1.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels import FeatureMap, Gaussian
from tellmost.posterior.gp import GP
from tellmost.safebo import Constraint, Lipschitz, SafeOptimizer
from tellmost.shapes import Bool, Float, Int
from tellmost_reproduction.gp.settings import axis_of, grid
from tellmost_reproduction.safebo.methods import BY_KEY, Constants, Method

NOISE_STD = 0.1
MIXTURE = ((5.0, 0.4, 0.85), (1.45, 2.5, 0.9), (1.8, 3.2, 0.55), (4.5, 5.5, 0.93))
"""Weight, mean and standard deviation of the densities of the 1d task."""

STARTS = (4.8136, 4.9138, 5.0741, 5.1944, 5.2545, 5.3146, 5.4148, 5.8958)
"""Where the 1d task is observed beforehand, up to the digits that were printed."""

SMOOTH = GP(Gaussian(1.0), noise_std=NOISE_STD)
"""What the paper believes about the functions of its synthetic tasks."""

DRIFT = 0.1  # the slope of the barriers' prior mean
STEEPEST = 1.0 + DRIFT

Values = Mapping[str, Float[np.ndarray, " n"]]
"""Values without noise on the domain, of the objective and of each constraint by its name."""


@dataclass(frozen=True)
class Task:
    """What is to be optimized on a finite domain. The values are known to us, not to a method."""

    name: str
    domain: Float[np.ndarray, "n d"]
    values: Values
    objective: GP  # the prior
    constraints: Mapping[str, Constraint]  # the priors and limits; the objective's GP may be one
    starts: Int[np.ndarray, " s"]  # rows that may be observed beforehand
    slopes: Mapping[Constants, Mapping[str, Lipschitz]]  # of the constraints
    beta: float
    rounds: int
    draws_start: bool = False  # whether one start is drawn at random, or all are observed
    is_intersected: bool = True  # whether bounds are kept over time, or those of now alone count

    @property
    def f(self) -> Float[np.ndarray, " n"]:
        return self.values["objective"]

    @property
    def is_safe(self) -> Bool[np.ndarray, " n"]:
        return keeps(self.constraints, self.values)

    @property
    def optimum(self) -> int:
        """The row of the best safe point."""
        return int(np.where(self.is_safe, self.f, -np.inf).argmax())

    def regret(self, row: int) -> float:
        return float(self.f[self.optimum] - self.f[row])

    def violates(self, row: int) -> bool:
        return not bool(self.is_safe[row])

    def count_safe(self, optimizer: SafeOptimizer) -> tuple[int, int]:
        """How many points it takes for safe, and how many of these are not."""
        mask = optimizer.safe_mask
        return int(mask.sum()), int((mask & ~self.is_safe).sum())

    def measure(self, row: int, rng: np.random.Generator) -> dict[str, Any]:
        """Measure a row with noise. A function that is also the objective is measured once."""
        told: dict[str, Any] = {"objective": self._observe("objective", self.objective, row, rng)}
        others = {n: c.gp for n, c in self.constraints.items() if c.gp is not self.objective}
        if others:
            told["constraints"] = {n: self._observe(n, gp, row, rng) for n, gp in others.items()}
        return told

    def _observe(self, name: str, gp: GP, row: int, rng: np.random.Generator) -> float:
        return float(self.values[name][row] + gp.noise_std * rng.standard_normal())

    def optimizer(
        self, rng: np.random.Generator, method: Method = BY_KEY["vtl"], *, seed: int = 0
    ) -> SafeOptimizer:
        """Make the method's optimizer, and tell it the first observations.

        Methods that grow a safe set by Lipschitz constants grow it from these rows, so they are
        declared safe to them.
        """
        slopes = {} if method.lipschitz is None else self.slopes[method.lipschitz]
        limits = {n: replace(c, lipschitz=slopes.get(n)) for n, c in self.constraints.items()}
        rows = (rng.choice(self.starts, size=1) if self.draws_start else self.starts).tolist()
        confidence = 1 - len(limits) * NormalDist().cdf(-self.beta)  # of one-sided bounds
        optimizer = SafeOptimizer(
            self.domain,
            objective=self.objective,
            constraints=limits,
            safe_seed=rows if rows and slopes else None,
            beta=self.beta if self.is_intersected else None,
            confidence=None if self.is_intersected else confidence,
            rule=method.rule,
            targets=None if method.strategy else method.targets,
            strategy=method.strategy,
            on_violation="continue",
            on_miscalibration="log",
            suspect_z=np.inf,
            seed=seed,
        )
        for row in rows:
            optimizer.tell(row=row, **self.measure(row, rng))
        return optimizer


def keeps(constraints: Mapping[str, Constraint], values: Values) -> Bool[np.ndarray, " n"]:
    """Which points keep every constraint."""
    kept = [
        (values[name] >= (-np.inf if one.at_least is None else one.at_least))
        & (values[name] <= (np.inf if one.at_most is None else one.at_most))
        for name, one in constraints.items()
    ]
    return np.all(kept, axis=0)


def one_function(f: Float[np.ndarray, " n"], prior: GP) -> dict[str, Any]:
    """Fields of a task whose objective is also its constraint."""
    return {
        "values": {"objective": f, "g": f},
        "objective": prior,
        "constraints": {"g": Constraint(prior, at_least=0.0)},
    }


def slopes_of_g(true: float, oracle: float, estimated: float) -> dict[Constants, dict]:
    constants: dict[Constants, float] = {"true": true, "oracle": oracle, "estimated": estimated}
    return {which: {"g": Lipschitz(value, norm=1)} for which, value in constants.items()}


def bumps() -> Task:
    """The 1d task: to the higher of two hills through a valley that is barely safe."""
    x = np.linspace(-2.0, 8.0, 500)
    parts = [weight * normal_density(x, mean, std) for weight, mean, std in MIXTURE]
    f = np.sum(parts, axis=0) - 0.95
    slope = float(np.abs(np.diff(f) / np.diff(x)).max())
    return Task(
        name="1d",
        domain=x[:, None],
        **one_function(f, SMOOTH),
        starts=np.array([np.abs(x - start).argmin() for start in STARTS]),
        slopes=slopes_of_g(slope, oracle=1.54725186, estimated=2.50495534),
        beta=5.0,
        rounds=1_000,
    )


def island() -> Task:
    """The 2d task: the best safe point is on the shore that faces the maximum."""
    axis = axis_of(3.0, 50)
    points = grid(axis)
    f = 100 * normal_density_2d(points, np.array([2.0, 2.0]), np.array([[1, 0.5], [0.5, 1]]))
    g = 100 * normal_density_2d(points, np.zeros(2), np.eye(2)) - 2.5
    return Task(
        name="2d",
        domain=points,
        values={"objective": f, "g": g},
        objective=SMOOTH,
        constraints={"g": Constraint(replace(SMOOTH), at_least=0.0)},  # another function
        starts=np.flatnonzero((np.abs(points) <= 0.5).all(axis=1)),
        slopes=slopes_of_g(steepest(g, axis), oracle=7.8560165, estimated=80.97604292),
        beta=15.0,
        rounds=100,
        draws_start=True,
    )


def normal_density(x: Float[np.ndarray, " n"], mean: float, std: float) -> Float[np.ndarray, " n"]:
    return np.exp(-0.5 * ((x - mean) / std) ** 2) / (std * np.sqrt(2 * np.pi))


def normal_density_2d(
    points: Float[np.ndarray, "n 2"], mean: Float[np.ndarray, "2"], covariance: np.ndarray
) -> Float[np.ndarray, " n"]:
    apart = points - mean
    exponent = -0.5 * (apart @ np.linalg.inv(covariance) * apart).sum(axis=1)
    return np.exp(exponent) / (2 * np.pi * np.sqrt(np.linalg.det(covariance)))


def steepest(values: Float[np.ndarray, " n"], axis: Float[np.ndarray, " s"]) -> float:
    """The L1 Lipschitz constant on a grid: every path goes along its edges."""
    table = values.reshape(len(axis), len(axis))
    step = axis[1] - axis[0]
    return float(max(np.abs(np.diff(table, axis=i)).max() for i in (0, 1)) / step)


def barriers() -> Task:
    """The task with barriers. Nothing is observed beforehand."""
    x = np.linspace(-10.0, 10.0, 500)
    f = np.sin(x) + DRIFT * x
    return Task(
        name="barriers",
        domain=x[:, None],
        **one_function(f, GP(FeatureMap(torch.sin), mean=drift, noise_std=NOISE_STD)),
        starts=np.array([], dtype=np.int64),
        slopes=slopes_of_g(STEEPEST, STEEPEST, STEEPEST),  # the paper prints none
        beta=3.0,
        rounds=100,
    )


def drift(points: Float[Tensor, "n 1"]) -> Float[Tensor, " n"]:
    """The prior mean."""
    return DRIFT * points[:, 0]


def third_bump(task: Task) -> Bool[np.ndarray, " n"]:
    """The safe points that lie beyond the barrier."""
    return task.is_safe & (task.domain[:, 0] < 0)
