"""Targets: what may be safe and is not known to be."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tellmost.shapes import Bool
from tellmost.targets.known import Known


@dataclass(frozen=True)
class PotentialExpanders:
    r"""Points that may be safe but are not known to be: pure expansion of the safe set.

    .. math:: E_n = \hat S_n \setminus S_n

    Hübotter et al. 2024, App. on convergence to the reachable safe set. Only the constraints are
    learned about. Empty once every point is known to be safe or unsafe, and without constraints.
    """

    is_fixed: ClassVar[bool] = False
    about_objective: ClassVar[bool] = False

    def choose(self, known: Known) -> Bool[np.ndarray, " n"]:
        return known.may_be_safe & ~known.is_safe
