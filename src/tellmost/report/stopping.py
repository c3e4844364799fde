r"""Where a smaller selection would have done nearly as well.

With :math:`u_t` the mean uncertainty after t of k picks, the stop is the first s with

.. math:: \frac{u_s - u_k}{k - s} < \text{STOP\_SHARE} \cdot \frac{u_0 - u_k}{k},

so the picks after it gain, on average, less than that share of the average pick. Averages on both
sides: one poor pick in between stops nothing. A first pick that gains much stops nothing either,
as it would if the others were compared with it alone.
"""

from dataclasses import dataclass

import numpy as np

from tellmost.numerics import STOP_SHARE
from tellmost.shapes import Float


@dataclass(frozen=True)
class Stop:
    """A number of picks, the mean gain of a pick after it and of all, and the share reached."""

    picks: int
    gain_after: float
    gain_of_all: float
    share_reached: float


def suggest_stop(uncertainty: Float[np.ndarray, " steps"]) -> Stop | None:
    """The first pick after which the others gain little; None if no earlier stop is suggested."""
    k = len(uncertainty) - 1
    fall = float(uncertainty[0] - uncertainty[-1])
    s = np.arange(1, k)
    after = (uncertainty[1:k] - uncertainty[-1]) / (k - s)
    is_enough = np.flatnonzero(after < STOP_SHARE * fall / max(k, 1))
    if len(is_enough) == 0:
        return None
    first = int(is_enough[0])
    reached = float(uncertainty[0] - uncertainty[first + 1]) / fall
    return Stop(first + 1, float(after[first]), fall / k, reached)


def explain_stop(stop: Stop | None, k: int) -> str:
    """The suggestion and its reason, in words."""
    share = f"{100 * STOP_SHARE:.0f}%"
    if stop is None:
        return (
            f"No earlier stop is suggested: there is no point after which the picks gain less "
            f"than {share} of the average of all {k:,}."
        )
    return (
        f"You could stop at pick {stop.picks:,} of {k:,}, with {100 * stop.share_reached:.1f}% of "
        f"the fall: the picks after it lower the mean by {stop.gain_after:.2g} each, less than "
        f"{share} of the {stop.gain_of_all:.2g} of the average pick."
    )
