r"""Where a smaller selection would have done nearly as well.

With :math:`u_t` the mean uncertainty after t of k picks, the stop is the first s with

.. math:: \frac{u_s - u_k}{k - s} < \text{STOP\_SHARE} \cdot \frac{u_0 - u_s}{s},

so the picks after it gain, on average, less than that share of what the picks up to it did.
Averages on both sides: one poor pick in between stops nothing.
"""

from dataclasses import dataclass

import numpy as np

from sightline.numerics import STOP_SHARE
from sightline.shapes import Float


@dataclass(frozen=True)
class Stop:
    """A number of picks, and the mean gain per pick up to it and after it."""

    picks: int
    gain_so_far: float
    gain_after: float


def suggest_stop(uncertainty: Float[np.ndarray, " steps"]) -> Stop | None:
    """The first pick after which the others gain little; None if no earlier stop is suggested."""
    k = len(uncertainty) - 1
    s = np.arange(1, k)
    so_far = (uncertainty[0] - uncertainty[1:k]) / s
    after = (uncertainty[1:k] - uncertainty[-1]) / (k - s)
    is_enough = np.flatnonzero(after < STOP_SHARE * so_far)
    if len(is_enough) == 0:
        return None
    first = int(is_enough[0])
    return Stop(first + 1, float(so_far[first]), float(after[first]))


def explain_stop(stop: Stop | None, k: int) -> str:
    """The suggestion and its reason, in words."""
    share = f"{100 * STOP_SHARE:.0f}%"
    if stop is None:
        return (
            f"No earlier stop is suggested: up to the last of the {k:,} picks there is no point "
            f"after which the others gain less than {share} per pick of what those before gained."
        )
    return (
        f"You could stop at pick {stop.picks:,} of {k:,}: up to there a pick lowers the mean by "
        f"{stop.gain_so_far:.2g} on average, after it by {stop.gain_after:.2g}, less than "
        f"{share} of that."
    )
