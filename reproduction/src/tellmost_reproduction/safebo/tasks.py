r"""The synthetic tasks: a function in one dimension, and an island in two.

Hübotter et al. 2024, App. "Safe Bayesian Optimization: Experiment Details". With N the normal
density of a mean and a standard deviation (or covariance),

.. math::
    f_1(x) = 5 N(0.4, 0.85) + 1.45 N(2.5, 0.9) + 1.8 N(3.2, 0.55) + 4.5 N(5.5, 0.93) - 0.95,

which is objective and constraint at once, :math:`f_1 \ge 0`; and

.. math::
    f_2(x) = 100 N\big((2, 2), (\begin{smallmatrix}1 & .5\\.5 & 1\end{smallmatrix})\big), \qquad
    g_2(x) = 100 N(0, I) - 2.5 \ge 0.

The Lipschitz constants are those of the L1 norm: the steepest slopes between neighbours of the
grid, so that they hold on it; the paper's own, which it calls oracle, are below them.

A reconstruction: jumping past local barriers.

Hübotter et al. 2024, App. "Jumping Past Local Barriers", prints a linear kernel on a sin
transform, a prior mean 0.1 x, and that three disjoint regions, of two of the three safe bumps, are
known to be safe at first. Its code does not have the experiment; domain, noise and beta are ours:

.. math::
    f(x) = \sin x + 0.1 x \ge 0, \quad x \in [-10, 10], \qquad
    f \sim w \sin x + 0.1 x, \quad w \sim N(0, 1).

With beta = 3, known to be safe is where :math:`0.1 x \ge 3 |\sin x|`: around pi, two pi and three
pi, of which the latter two belong to one bump. The third bump, around -3/2 pi, is safe once
:math:`w \ge 0.47` is known. No path of safe points leads there, but any other point tells of w,
and the more the larger :math:`|\sin x|`. So the kernel reaches it, and a Lipschitz constant, which
grows safe sets from where they are, never does; that of f is 1.1.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels import FeatureMap, Gaussian
from tellmost.posterior.gp import GP
from tellmost.safebo import Constraint, Lipschitz, SafeOptimizer
from tellmost.safebo.strategies import QueryStrategy
from tellmost.shapes import Bool, Float, Int
from tellmost_reproduction.gp.settings import axis_of, grid

NOISE_STD = 0.1
MIXTURE = ((5.0, 0.4, 0.85), (1.45, 2.5, 0.9), (1.8, 3.2, 0.55), (4.5, 5.5, 0.93))
"""Weight, mean and standard deviation of the densities of the 1d task."""

STARTS = (4.8136, 4.9138, 5.0741, 5.1944, 5.2545, 5.3146, 5.4148, 5.8958)
"""Where the 1d task is observed beforehand, up to the digits that were printed."""

SMOOTH = GP(Gaussian(1.0), noise_std=NOISE_STD)
"""What the paper believes about both functions of its synthetic tasks."""

Constants = Literal["true", "oracle", "estimated"]
"""Which Lipschitz constants: correct ones, those that the paper calls oracle, or its estimates."""


@dataclass(frozen=True)
class Task:
    """What is to be optimized on a grid, known to us and not to a method."""

    name: str
    domain: Float[np.ndarray, "n d"]
    f: Float[np.ndarray, " n"]  # the objective, to be large
    g: Float[np.ndarray, " n"]  # the constraint, to be at least 0
    is_shared: bool  # whether both are one function
    starts: Int[np.ndarray, " s"]  # rows that may be observed beforehand
    draws_start: bool  # one of them at random, or all
    beta: float
    rounds: int
    lipschitz: tuple[float, float]  # of f and g, in the L1 norm
    paper_lipschitz: tuple[float, float]  # the constants that the paper calls oracle
    estimated_lipschitz: tuple[float, float]  # those that it estimates from draws of the prior
    prior: GP = SMOOTH  # of f, and of g

    @property
    def is_safe(self) -> Bool[np.ndarray, " n"]:
        return self.g >= 0

    @property
    def optimum(self) -> int:
        """The row of the best safe point."""
        return int(np.where(self.is_safe, self.f, -np.inf).argmax())

    def regret(self, row: int) -> float:
        return float(self.f[self.optimum] - self.f[row])

    def measure(self, row: int, rng: np.random.Generator) -> dict[str, Any]:
        """Noisy values of a row, as the optimizer is told them."""
        noise = NOISE_STD * rng.standard_normal(1 if self.is_shared else 2)
        told: dict[str, Any] = {"objective": float(self.f[row] + noise[0])}
        if not self.is_shared:
            told["constraints"] = {"g": float(self.g[row] + noise[1])}
        return told

    def start(self, rng: np.random.Generator) -> Int[np.ndarray, " s"]:
        """The rows that are observed beforehand."""
        return rng.choice(self.starts, size=1) if self.draws_start else self.starts

    def violates(self, row: int) -> bool:
        return not bool(self.is_safe[row])

    def count_safe(self, optimizer: SafeOptimizer) -> tuple[int, int]:
        """How many points it takes for safe, and how many of these are not."""
        mask = optimizer.safe_mask
        return int(mask.sum()), int((mask & ~self.is_safe).sum())

    def constants(self, which: Constants) -> tuple[float, float]:
        known = {"oracle": self.paper_lipschitz, "estimated": self.estimated_lipschitz}
        return known.get(which, self.lipschitz)

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
        """With the task's prior and beta, told the first observations.

        Methods that grow a safe set by Lipschitz constants grow it from these: where constants are
        given, the rows are declared safe.
        """
        other = self.prior if self.is_shared else replace(self.prior)  # one GP: one function
        slope = None if lipschitz is None else Lipschitz(self.constants(lipschitz)[1], norm=1)
        rows = self.start(rng).tolist()
        optimizer = SafeOptimizer(
            self.domain,
            objective=self.prior,
            constraints={"g": Constraint(other, at_least=0.0, lipschitz=slope)},
            safe_seed=rows if rows and lipschitz is not None else None,
            beta=self.beta,
            rule=rule,
            targets=targets,
            strategy=strategy,
            on_violation="continue",
            seed=seed,
        )
        for row in rows:
            optimizer.tell(row, **self.measure(row, rng))
        return optimizer


def bumps() -> Task:
    """The 1d task: to the higher of two hills through a valley that is barely safe."""
    x = np.linspace(-2.0, 8.0, 500)
    parts = [weight * normal_density(x, mean, std) for weight, mean, std in MIXTURE]
    f = np.sum(parts, axis=0) - 0.95
    slope = float(np.abs(np.diff(f) / np.diff(x)).max())
    return Task(
        name="1d",
        domain=x[:, None],
        f=f,
        g=f,
        is_shared=True,
        starts=np.array([np.abs(x - start).argmin() for start in STARTS]),
        draws_start=False,
        beta=5.0,
        rounds=1_000,
        lipschitz=(slope, slope),
        paper_lipschitz=(1.54725186, 1.54725186),
        estimated_lipschitz=(2.50495534, 2.50495534),
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
        f=f,
        g=g,
        is_shared=False,
        starts=np.flatnonzero((np.abs(points) <= 0.5).all(axis=1)),
        draws_start=True,
        beta=15.0,
        rounds=100,
        lipschitz=(steepest(f, axis), steepest(g, axis)),
        paper_lipschitz=(11.66914771, 7.8560165),
        estimated_lipschitz=(63.15282346, 80.97604292),
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


BETA = 3.0
SLOPE = 0.1  # of the prior mean
STEEPEST = 1.0 + SLOPE


def barriers() -> Task:
    """One function is objective and constraint; nothing is observed beforehand."""
    x = np.linspace(-10.0, 10.0, 500)
    f = np.sin(x) + SLOPE * x
    return Task(
        name="barriers",
        domain=x[:, None],
        f=f,
        g=f,
        is_shared=True,
        starts=np.array([], dtype=np.int64),
        draws_start=False,
        beta=BETA,
        rounds=100,
        lipschitz=(STEEPEST, STEEPEST),
        paper_lipschitz=(STEEPEST, STEEPEST),  # the paper prints none
        estimated_lipschitz=(STEEPEST, STEEPEST),
        prior=GP(FeatureMap(torch.sin), mean=drift, noise_std=NOISE_STD),
    )


def drift(points: Float[Tensor, "n 1"]) -> Float[Tensor, " n"]:
    """The prior mean."""
    return SLOPE * points[:, 0]


def third_bump(task: Task) -> Bool[np.ndarray, " n"]:
    """The safe points that lie beyond the barrier."""
    return task.is_safe & (task.domain[:, 0] < 0)
