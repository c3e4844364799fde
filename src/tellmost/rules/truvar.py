"""Truncated variance reduction."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from tellmost.posterior.problem import State
from tellmost.rows.checks import check_number
from tellmost.rules.rule import Rule
from tellmost.shapes import Float

THRESHOLD_REACHED = 1e-6
"""A standard deviation within this share of a threshold has reached it: TruVar's gains are what
lies above, and so close to it that is rounding, as for rows of length one and a threshold of 1."""


@dataclass(frozen=True)
class TruVar(Rule):
    r"""Truncated variance reduction: lower the targets' variances, but none below a threshold.

    .. math::
        \sum_a w_a \big( \max\{\beta^2 \mathrm{Var}[f_a \mid D], \eta_i^2\}
        - \max\{\beta^2 \mathrm{Var}[f_a \mid D, y_x], \eta_i^2\} \big),
        \qquad \eta_i = \eta\, r^i

    Bogunovic et al. 2016; Hübotter et al. 2024, App. "Additional GP Experiments": ``beta`` 1,
    ``eta`` 1, r = ``shrink`` 0.1, and delta = ``slack`` 0. Epoch i lasts until
    :math:`\beta\, \mathrm{sd}_a \le (1 + \delta)\, \eta_i` for every target, and variances only
    fall, so i is the first epoch that is not over: a function of the variances alone. The
    threshold has a unit: beta times the standard deviation of f. Defined only where every target
    is a candidate, as it comes from optimisation and level sets. Reads rows x targets values.
    """

    beta: float = 1.0
    eta: float = 1.0
    shrink: float = 0.1
    slack: float = 0.0

    def __post_init__(self) -> None:
        check_number(self.beta, "TruVar(beta)", above=0)
        check_number(self.eta, "TruVar(eta)", above=0)
        check_number(self.shrink, "TruVar(shrink)", above=0, below=1)
        check_number(self.slack, "TruVar(slack)", least=0)

    name: ClassVar[str] = "truvar"
    unit: ClassVar[str] = "beta^2 x mean target variance above the threshold"
    needs: ClassVar[frozenset[str]] = frozenset({"variance", "covariance"})
    weighs_targets: ClassVar[bool] = True
    targets_in_pool: ClassVar[str] = "all"

    def gain(self, state: State) -> Float[Tensor, " n"]:
        scaled = self.beta**2 * state.target_variance
        excess = (scaled - self.threshold(state.target_variance) ** 2).clamp(min=0.0)
        fall = state.covariance.square() * self.beta**2
        fall /= (state.variance + state.noise_variance)[:, None]
        return fall.minimum(excess) @ state.target_weights  # a difference of maxima, uncancelled

    def threshold(self, target_variance: Float[Tensor, " m"]) -> float:
        """eta_i of the epoch that these variances are in; 0 where nothing is left to learn."""
        worst = self.beta * float(target_variance.max()) ** 0.5
        if worst == 0.0:
            return 0.0
        threshold = self.eta
        while worst <= (1.0 + self.slack) * threshold * (1.0 + THRESHOLD_REACHED):
            threshold *= self.shrink
        return threshold
