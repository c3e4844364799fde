"""A small task of safe optimisation whose two functions are drawn from their priors."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

BETA, NOISE_STD = 3.0, 0.1
STARTS, STEPS = 3, 25


@dataclass(frozen=True)
class Grid:
    side: int  # points along it
    dimension: int
    length: float

    @property
    def points(self) -> np.ndarray:
        axis = np.linspace(0.0, self.length, self.side)
        axes = np.meshgrid(*[axis] * self.dimension, indexing="ij")
        return np.stack(axes, axis=-1).reshape(-1, self.dimension)


@dataclass(frozen=True)
class Priors:
    """Zero-mean Gaussian kernels, of the objective and of the constraint."""

    stds: tuple[float, float]
    lengthscales: tuple[float, float]

    def draw(self, points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A column per function."""
        apart = ((points[:, None] - points[None]) ** 2).sum(axis=-1)
        columns = []
        for std, lengthscale in zip(self.stds, self.lengthscales, strict=True):
            values, vectors = np.linalg.eigh(np.exp(-0.5 * apart / lengthscale**2))
            weights = np.sqrt(values.clip(min=0)) * rng.standard_normal(len(points))
            columns.append(std * vectors @ weights)
        return np.stack(columns, axis=1)


@dataclass(frozen=True)
class DrawnTask:
    """Both functions on a grid, where to start, and the noise of all observations in turn."""

    priors: Priors
    points: np.ndarray
    values: np.ndarray  # a column per function
    start: np.ndarray
    noise: np.ndarray

    @classmethod
    def of(cls, grid: Grid, priors: Priors, seed: int) -> "DrawnTask":
        """Begins where the constraint is largest, and at other points where it holds."""
        rng, points = np.random.default_rng(seed), grid.points
        values = priors.draw(points, rng)
        others = rng.choice(np.flatnonzero(values[:, 1] > 0), STARTS - 1)
        start = np.array([values[:, 1].argmax(), *others])
        noise = NOISE_STD * rng.standard_normal((STARTS + STEPS, 2))
        return cls(priors, points, values, start, noise)

    def steps_of_safeopt(self, folder: Path) -> dict:
        """What the package chooses in its own environment, and the sets of each step."""
        problem = {
            "grid": self.points.tolist(),
            "values": self.values.tolist(),
            "start": self.start.tolist(),
            "noise": self.noise.tolist(),
            "prior_stds": self.priors.stds,
            "lengthscales": self.priors.lengthscales,
            "noise_std": NOISE_STD,
            "beta": BETA,
        }
        script = Path(__file__).parent / "peers" / "safeopt_steps.py"
        command = [str(folder / "safeopt" / "bin" / "python"), str(script)]
        text = json.dumps(problem)
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{script.name} failed:\n{done.stderr}")
        return json.loads(done.stdout.strip().splitlines()[-1])
