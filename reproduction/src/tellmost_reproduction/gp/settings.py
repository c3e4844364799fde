r"""The settings of the experiments: a grid, what may be observed, and what is to be known.

Hübotter et al. 2024, Sec. "Experiments in the Gaussian Process Setting" and App. "Additional GP
Experiments". f is a draw from a zero-mean prior of variance 1. A measurement may be repeated.
The Laplace kernel has lengthscale 10, as in the paper's caption (its prose has 1).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from tellmost.kernels import Gaussian, Kernel, Laplace
from tellmost.shapes import Bool, Float, Int

NOISE_STD, LOUD_STD = 0.1, 1.0
ROUNDS, SEEDS = 500, 10
SIDE = 50

Box = tuple[float, float, float, float]
"""From and to in the first coordinate, from and to in the second. The ends are inside."""

SQUARE: Box = (-1.0, 1.0, -1.0, 1.0)
LOUD_SQUARE: Box = (-0.5, 0.5, -0.5, 0.5)
CORNER: Box = (-1.0, 3.0, -1.0, 3.0)
ELBOW: tuple[Box, ...] = ((-1.0, 0.0, -1.5, -0.5), (-2.0, -1.0, -1.5, 0.5))


@dataclass(frozen=True)
class Size:
    """How much of an experiment is run."""

    side: int = SIDE
    rounds: int = ROUNDS
    seeds: int = SEEDS


FULL, SMOKE = Size(), Size(side=20, rounds=30, seeds=2)


@dataclass(frozen=True)
class Setting:
    """A prior on a grid, the points that may be observed, and those to be predicted."""

    name: str
    title: str
    kernel: Kernel
    axis: Float[np.ndarray, " s"]  # the coordinates of the grid, alike in both directions
    samples: Int[np.ndarray, " n"]  # points of the grid that may be observed: S
    targets: Int[np.ndarray, " m"]  # points of the grid to be predicted: A
    noise_std: Float[np.ndarray, " n"]

    @cached_property
    def domain(self) -> Float[np.ndarray, "g 2"]:
        return grid(self.axis)

    @property
    def pool(self) -> Float[np.ndarray, "n 2"]:
        return self.domain[self.samples]

    @property
    def target_points(self) -> Float[np.ndarray, "m 2"]:
        return self.domain[self.targets]

    @property
    def is_target(self) -> Bool[np.ndarray, " n"]:
        """Which points that may be observed are targets."""
        return np.isin(self.samples, self.targets)

    @property
    def has_all_targets(self) -> bool:
        return bool(np.isin(self.targets, self.samples).all())

    @property
    def noise(self) -> "float | Float[np.ndarray, ' n']":
        """The noise as ``select`` takes it: one number if it is the same for all points."""
        return float(self.noise_std[0]) if np.ptp(self.noise_std) == 0 else self.noise_std

    def draw(self, seed: int) -> Float[np.ndarray, " g"]:
        """Draw f on the grid from the prior. The kernels are products over the coordinates."""
        points = torch.from_numpy(self.axis)[:, None]
        values, U = np.linalg.eigh(self.kernel.block(points, points).numpy())
        root = U * np.sqrt(np.clip(values, 0.0, None))  # singular up to rounding
        normal = np.random.default_rng([seed, 0]).standard_normal((len(values), len(values)))
        return (root @ normal @ root.T).reshape(-1)


def grid(axis: Float[np.ndarray, " s"]) -> Float[np.ndarray, "g 2"]:
    first, second = np.meshgrid(axis, axis, indexing="ij")
    return np.stack([first, second], axis=-1).reshape(-1, 2)


def axis_of(half: float, side: int) -> Float[np.ndarray, " s"]:
    """``side`` points of [-half, half), rounded so that 0 is 0 and boxes have sharp ends."""
    return np.round(-half + 2 * half / side * np.arange(side), 10)


def inside(points: Float[np.ndarray, "g 2"], *boxes: Box) -> Bool[np.ndarray, " g"]:
    """Which points are in any of the boxes."""
    x, y = points.T
    return np.any([(x >= a) & (x <= b) & (y >= c) & (y <= d) for a, b, c, d in boxes], axis=0)


def make(
    name: str,
    title: str,
    side: int,
    *,
    kernel: Kernel | None = None,
    half: float = 3.0,
    samples: tuple[Box, ...] = (),
    targets: tuple[Box, ...] = (SQUARE,),
    loud: tuple[Box, ...] = (),
) -> Setting:
    axis = axis_of(half, side)
    points = grid(axis)
    rows = np.flatnonzero(inside(points, *samples)) if samples else np.arange(len(points))
    is_loud = inside(points[rows], *loud) if loud else np.zeros(len(rows), dtype=bool)
    return Setting(
        name=name,
        title=title,
        kernel=Gaussian() if kernel is None else kernel,
        axis=axis,
        samples=rows,
        targets=np.flatnonzero(inside(points, *targets)),
        noise_std=np.where(is_loud, LOUD_STD, NOISE_STD),
    )


LAPLACE = Laplace(10.0)
COUNTS = {  # points of S, of A, and of both, on the full grid
    "gp-fig3": (2500, 289, 289),
    "gp-laplace": (2500, 289, 289),
    "gp-extrapolation": (1089, 208, 36),
    "gp-extrapolation-laplace": (1089, 208, 36),
    "gp-heteroscedastic": (2500, 289, 289),
    "gp-sparse": (2500, 25, 25),
}


def settings(side: int = SIDE) -> dict[str, Setting]:
    """All settings by name. Those of the paper's size are checked against its counts."""
    made = [
        make("gp-fig3", "Gaussian kernel, A inside S", side),
        make("gp-laplace", "Laplace kernel, A inside S", side, kernel=LAPLACE),
        *(
            make(
                name,
                f"{words}, A mostly outside S",
                side,
                kernel=k,
                samples=(CORNER,),
                targets=ELBOW,
            )
            for name, words, k in (
                ("gp-extrapolation", "Gaussian kernel", None),
                ("gp-extrapolation-laplace", "Laplace kernel", LAPLACE),
            )
        ),
        make("gp-heteroscedastic", "Noise sd 1 inside a square", side, loud=(LOUD_SQUARE,)),
        make("gp-sparse", "Gaussian kernel, domain [-10, 10)^2", side, half=10.0),
    ]
    if side == SIDE:
        for setting in made:
            check_counts(setting)
    return {setting.name: setting for setting in made}


def check_counts(setting: Setting) -> None:
    found = len(setting.samples), len(setting.targets), int(setting.is_target.sum())
    if found != COUNTS[setting.name]:
        raise RuntimeError(
            f"{setting.name} has {found} points in S, in A and in both, where the paper's setting "
            f"has {COUNTS[setting.name]}: the grid is another one."
        )
