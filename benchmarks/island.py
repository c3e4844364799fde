"""The paper's 2d task of safe Bayesian optimisation: an island of safe points, as data to replay.

f = 100 N(x; (2, 2), [[1, .5], [.5, 1]]) is to be large where g = 100 N(x; 0, I) - 2.5 is not
negative, on a grid over [-3, 3)^2. Hübotter et al. 2024, App. "Safe Bayesian Optimization".
"""

from dataclasses import dataclass

import numpy as np

import tellmost as tm

NOISE_STD = 0.1
BETA = 15.0
LENGTHSCALES = {"equal": (1.0, 1.0), "unequal": (1.0, 1.1)}  # of f and of g


@dataclass(frozen=True)
class Island:
    """A grid of side x side points, and both functions there."""

    side: int

    @property
    def grid(self) -> np.ndarray:
        axis = -3.0 + 6.0 / self.side * np.arange(self.side)
        return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)

    @property
    def values(self) -> np.ndarray:
        """f and g, a column each."""
        f = 100 * normal_density(self.grid, 2.0, np.array([[1.0, 0.5], [0.5, 1.0]]))
        g = 100 * normal_density(self.grid, 0.0, np.eye(2)) - 2.5
        return np.stack([f, g], axis=1)

    @property
    def centre(self) -> int:
        return self.side // 2 * (self.side + 1)

    def optimizer(self, rule: str, kernels: str = "equal") -> tm.SafeOptimizer:
        objective, limited = (
            tm.GP(tm.kernels.Gaussian(lengthscale), noise_std=NOISE_STD)
            for lengthscale in LENGTHSCALES[kernels]
        )
        return tm.SafeOptimizer(
            self.grid,
            objective=objective,
            constraints={"g": tm.Constraint(limited, at_least=0.0)},
            beta=BETA,
            rule=rule,
            on_violation="continue",
            on_miscalibration="log",
            suspect_z=np.inf,
        )


@dataclass(frozen=True)
class Record:
    """Rows that were measured on an island, and what came out."""

    island: Island
    rows: np.ndarray
    y: np.ndarray  # two columns

    def on(self, side: int) -> "Record":
        """The same points and values on a finer grid."""
        finer = side // self.island.side
        i, j = np.divmod(self.rows, self.island.side)
        return Record(Island(side), (i * side + j) * finer, self.y)

    def tell(self, optimizer: tm.SafeOptimizer, number: int) -> None:
        f, g = self.y[number].tolist()
        optimizer.tell(row=int(self.rows[number]), objective=f, constraints={"g": g})


def explore(side: int, rounds: int) -> Record:
    """What VTL measures from the middle of the island on."""
    island, rng = Island(side), np.random.default_rng(0)
    values, optimizer = island.values, island.optimizer("vtl")
    record = Record(island, np.empty(rounds, dtype=int), np.empty((rounds, 2)))
    row = island.centre
    for number in range(rounds):
        record.rows[number] = row
        record.y[number] = values[row] + NOISE_STD * rng.standard_normal(2)
        record.tell(optimizer, number)
        row = optimizer.ask().index
    return record


def normal_density(X: np.ndarray, mean: float, covariance: np.ndarray) -> np.ndarray:
    apart = X - mean
    squared = np.einsum("ni,ij,nj->n", apart, np.linalg.inv(covariance), apart)
    return np.exp(-0.5 * squared) / (2 * np.pi * np.sqrt(np.linalg.det(covariance)))
