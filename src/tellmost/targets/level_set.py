"""Targets: where f may lie on either side of a level."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tellmost.shapes import Bool
from tellmost.targets.known import Known, check_beta


@dataclass(frozen=True)
class LevelSet:
    r"""Points that may be safe and cannot be told yet to lie above or below ``tau``.

    .. math:: A_n = \{x \in \hat S_n : l_n(x) \le \tau \le u_n(x)\}, \qquad
        l_n, u_n = \mu_n \mp \beta \sigma_n

    Gotovos et al. 2013; Bogunovic et al. 2016; with constraints Hübotter et al. 2024, App. on
    convergence to the reachable safe set. Empty once every point is classified.
    """

    tau: float
    beta: float | None = None  # None: as the learner says

    is_fixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_beta(self.beta, "LevelSet")
        tau: Any = self.tau
        is_number = isinstance(tau, int | float | np.number) and not isinstance(tau, bool)
        if not is_number or not np.isfinite(tau):
            raise ValueError(f"LevelSet(tau) must be a finite number; got {tau!r}.")

    def choose(self, known: Known) -> Bool[np.ndarray, " n"]:
        lower, upper = known.bounds(self.beta)
        return known.may_be_safe & (lower <= self.tau) & (self.tau <= upper)
