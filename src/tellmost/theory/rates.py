"""How fast information capacities grow, for kernels whose rate is known."""

from dataclasses import dataclass
from math import log
from typing import Any

from tellmost.kernels import FeatureKernel, Gaussian, Kernel, Laplace, Matern, Scaled
from tellmost.rows.opening import check_whole
from tellmost.selecting.arguments import check_kernel


@dataclass(frozen=True)
class CapacityRate:
    """scale * n^power * log(n)^log_power, up to a constant and to further logarithms."""

    scale: float
    power: float
    log_power: float

    def at(self, n: int) -> float:
        count = check_whole(n, "n")
        return self.scale * count**self.power * log(count) ** self.log_power

    @property
    def is_sublinear(self) -> bool:
        """What the convergence theorems ask for; targets within the samples are then learned."""
        return self.power < 1.0

    @property
    def is_below_root(self) -> bool:
        """Whether rate / sqrt(n) vanishes: then targets beyond the samples reach their floor."""
        return self.power < 0.5

    def __str__(self) -> str:
        parts = [f"{self.scale:g}"] if self.scale != 1 else []
        parts += [f"n^{self.power:.3g}"] if self.power else []
        parts += ["log(n)" if self.log_power == 1 else f"log(n)^{self.log_power:.3g}"]
        return " ".join(parts)


def capacity_rate(kernel: Any, dimension: int, *, size: int | None = None) -> CapacityRate:
    r"""The rate at which :math:`\gamma_n` grows with n on a compact domain.

    .. math::
        \text{Linear } O(d \log n), \quad \text{Gaussian } \tilde O(\log^{d+1} n), \quad
        \text{Matérn } \tilde O\big(n^{\frac{d}{2\nu+d}} \log^{\frac{2\nu}{2\nu+d}} n\big)

    Hübotter et al. 2024, table of rates, after Srinivas et al. 2009 (Thm. 5) and Vakili et al.
    2021 (Remark 2). Laplace has the rate of Matérn with nu = 1/2, which it is in one dimension.
    Magnitudes, with no constant: for a number that bounds take
    ``information_capacity(...).upper`` or ``capacity_bound``. ``dimension`` is that of the points,
    for inner products the number of features. For a kernel that is not in the table give the
    ``size`` of a finite domain: :math:`O(|X| \log n)` holds for any.
    """
    known = _in_table(check_kernel(kernel), check_whole(dimension, "dimension"))
    if known is not None:
        return known
    if size is None:
        raise ValueError(
            f"no rate is known for {kernel!r}: the table has Linear and other inner products, "
            f"Gaussian, Laplace, Matern, and these scaled. Give size, the number of points of a "
            f"finite domain."
        )
    return CapacityRate(check_whole(size, "size"), 0.0, 1.0)


def _in_table(kernel: Kernel, d: int) -> CapacityRate | None:
    if isinstance(kernel, Scaled):
        return _in_table(kernel.kernel, d)
    if isinstance(kernel, FeatureKernel):
        return CapacityRate(d, 0.0, 1.0)
    if isinstance(kernel, Gaussian):
        return CapacityRate(1.0, 0.0, d + 1.0)
    if isinstance(kernel, Laplace | Matern):
        smoothness = 2 * kernel.nu if isinstance(kernel, Matern) else 1.0
        return CapacityRate(1.0, d / (smoothness + d), smoothness / (smoothness + d))
    return None
