"""What is known about the targets themselves: small, and current after every observation."""

from collections.abc import Set

import torch
from torch import Tensor

from tellmost.numerics import ZERO_VARIANCE, nonnegative
from tellmost.posterior.problem import Problem, TargetState
from tellmost.shapes import Float

FROM_COVARIANCE = frozenset({"covariance", "squared_covariance", "standardized_covariance"})
"""Fields of a state that are made of the rows' covariances with the targets."""


class TargetSummary:
    """Posterior variance of each target, and its weighted mean: the uncertainty we report."""

    def __init__(self, problem: Problem, variance: Float[Tensor, " m"] | None) -> None:
        self.state: TargetState | None = None
        if variance is not None and problem.target_weights is not None:
            prior = problem.kernel.diagonal(problem.known_targets)
            self.state = TargetState(variance, prior, problem.target_weights)

    def observe(self, covariance: Float[Tensor, " m"], s: float) -> None:
        """Condition on an observation of variance s with this covariance with the targets."""
        if self.state is not None:
            nonnegative(self.state.variance.addcmul_(covariance, covariance, value=-1.0 / s))

    @property
    def known(self) -> TargetState:
        """The state, where a rule that reads targets has made sure that there are some."""
        assert self.state is not None
        return self.state

    def copy_of_variance(self) -> Float[Tensor, " m"]:
        """As it is now; empty where there are no targets."""
        return (
            torch.empty(0, dtype=torch.float64)
            if self.state is None
            else self.state.variance.clone()
        )

    def uncertainty(self) -> float | None:
        """Weighted mean variance; None where there are no targets."""
        return None if self.state is None else float(self.state.weights @ self.state.variance)


def standardizing_weights(targets: TargetState) -> Float[Tensor, " m"]:
    """w_a / sd_a, and 0 for a target of no variance: its correlations are 0 by convention."""
    known = targets.variance <= ZERO_VARIANCE * targets.prior_variance
    return torch.where(known, 0.0, targets.weights / targets.variance.sqrt())


def covariance_fields(
    covariance: Float[Tensor, "b m"], targets: TargetState, needs: Set[str]
) -> dict[str, Tensor]:
    """The fields of a state that are made of the rows' covariances with the targets."""
    fields = {}
    if "covariance" in needs:
        fields["covariance"] = covariance
    if "squared_covariance" in needs:
        fields["squared_covariance"] = covariance.square() @ targets.weights
    if "standardized_covariance" in needs:
        fields["standardized_covariance"] = covariance @ standardizing_weights(targets)
    return fields
