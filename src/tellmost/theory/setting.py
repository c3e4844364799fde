"""Pool, targets, prior and noise of a question about theory, checked."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels import Kernel
from tellmost.kernels.composed import matrix_size
from tellmost.kernels.kernel import Points
from tellmost.rows.opening import (
    NOT_NUMBERS,
    check_all_positive,
    check_indices,
    check_matrix_rows,
    check_positive,
    check_rows,
    check_vector,
    read_array,
)
from tellmost.selecting.arguments import check_kernel, check_points
from tellmost.selecting.limits import check_squares
from tellmost.shapes import Float

RULES = ("itl", "vtl", "mm-itl")
"""Rules whose uncertainty reduction is a function of the set that was observed."""


@dataclass(frozen=True, eq=False)
class Setting:
    """A sample space S (the pool), a target space A, a kernel, and the noise at each sample."""

    kernel: Kernel
    pool: Points
    targets: Points
    noise_variance: Float[Tensor, " n"]

    @property
    def target_count(self) -> int:
        return len(self.targets)

    @property
    def pool_is_targeted(self) -> bool:
        """Whether every sample is a target, digit for digit: then ITL is submodular."""
        return bool(_among(self.pool, self.targets).all())

    @property
    def sampled_targets(self) -> np.ndarray:
        """Which targets are samples, (m,)."""
        return _among(self.targets, self.pool)

    @property
    def signal_to_noise(self) -> float:
        """The largest prior variance over noise variance of a sample."""
        return float((self.kernel.diagonal(self.pool) / self.noise_variance).max())

    def about(self, targets: Points) -> "Setting":
        """The same with other targets."""
        return Setting(self.kernel, self.pool, targets, self.noise_variance)

    def within(self, rows: Tensor) -> "Setting":
        """Some samples alone, as targets too."""
        points = self.pool[rows]
        return Setting(self.kernel, points, points, self.noise_variance[rows])


def check_setting(pool: Any, targets: Any, kernel: Any, noise_std: Any) -> Setting:
    """Arguments as ``tm.select`` takes them; without targets the pool is to be learned."""
    prior = check_kernel(kernel)
    data = read_array(pool, "pool").cpu()
    if matrix_size(prior) is not None:
        samples = check_matrix_rows(data, "pool", prior)
    else:
        check_rows(data, "pool")
        samples = data.to(torch.float64)
    points = samples
    if targets is not None:
        points = check_points(targets, "targets", tuple(samples.shape), prior).cpu()
    return Setting(prior, samples, points, check_noise_variance(noise_std, len(samples)))


def check_noise_variance(noise_std: Any, n: int) -> Float[Tensor, " n"]:
    if np.ndim(noise_std) == 0:
        std = torch.full((n,), check_positive(noise_std, "noise_std"), dtype=torch.float64)
    else:
        std = check_vector(noise_std, "noise_std", n, "pool row").cpu()
        check_all_positive(std, "noise_std")
    check_squares(std)
    return std.square()


def check_rule_name(rule: Any) -> str:
    if rule not in RULES:
        raise ValueError(f"rule must be one of {', '.join(map(repr, RULES))}; got {rule!r}.")
    return str(rule)


def check_nonnegative(value: Any, name: str) -> float:
    if isinstance(value, NOT_NUMBERS) or np.ndim(value) != 0:
        raise TypeError(f"{name} must be a number; got {type(value).__name__}.")
    number = float(value)
    if not 0 <= number < float("inf"):
        raise ValueError(f"{name} must be a finite number, 0 or more; got {value}.")
    return number


def check_picks(picks: Any, name: str, n: int) -> list[int]:
    """Row numbers, in their order; a row may come again, as another observation."""
    values = np.asarray(picks.cpu() if isinstance(picks, Tensor) else picks)
    if values.size == 0:
        return []
    return [int(row) for row in check_indices(values, name, n)]


def _among(points: Points, others: Points) -> np.ndarray:
    """Which points are among the others."""
    there = {row.tobytes() for row in _rows(others)}
    return np.array([row.tobytes() in there for row in _rows(points)])


def _rows(points: Points) -> np.ndarray:
    return points.reshape(len(points), -1).numpy() + 0  # so that -0.0 and 0.0 are the same
