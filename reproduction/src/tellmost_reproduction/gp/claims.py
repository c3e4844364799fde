"""The paper's claims about a setting, each judged by the curves of a run."""

from collections.abc import Callable

from tellmost_reproduction.gp.curves import Curves
from tellmost_reproduction.gp.likenesses import all_alike, equal_local, perform_alike
from tellmost_reproduction.gp.orders import divide_the_work, grow, lead, outperform
from tellmost_reproduction.gp.places import avoid_noise, leak, local_misses, stay_inside
from tellmost_reproduction.verdicts import Verdict

Judge = Callable[[Curves, Curves], Verdict]
"""From the curves of a setting, and those of figure 3 beside them."""

ORDER: tuple[Judge, ...] = (outperform, divide_the_work, lead, perform_alike)
CLAIMS: dict[str, tuple[Judge, ...]] = {
    "gp-fig3": ORDER,
    "gp-laplace": (outperform, stay_inside, equal_local, all_alike, perform_alike),
    "gp-extrapolation": (*ORDER, leak, local_misses),
    "gp-extrapolation-laplace": (*ORDER, leak, local_misses),
    "gp-heteroscedastic": (*ORDER, avoid_noise),
    "gp-sparse": (*ORDER, grow),
}
"""What is claimed about each setting."""

UNCLAIMED = {
    "gp-laplace": (
        "That ITL and VTL beat local UnSa, and that VTL is best in variance and ITL in entropy. "
        "The paper does not claim it here: it says that all but UnSa and Random perform equally "
        "well under this kernel, and that ITL and local UnSa coincide. The numbers are below."
    )
}
"""What is claimed elsewhere and not here, and why."""


def judge(curves: Curves, figure3: Curves) -> list[Verdict]:
    return [claim(curves, figure3) for claim in CLAIMS[curves.setting.name]]
