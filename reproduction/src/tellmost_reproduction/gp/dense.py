r"""The same picks the long way: the joint posterior of S and A, dense and anew in every round.

.. math:: K_t = K - K_{\cdot Z} (K_{ZZ} + P)^{-1} K_{Z \cdot}

over all points of S and A, as in the authors' published code: O(t (n + m)^2) a round. The prior
covariance and, for ITL, the one given f_A do not change, and are made once. The rules are those of
the library, so that only what they read is made in another way.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tellmost.posterior.nearness import squared_distance
from tellmost.posterior.problem import State, TargetState, covariance_fields, nonnegative
from tellmost.rules import Rule
from tellmost.selecting.choosers import best_of
from tellmost.shapes import Float, Int
from tellmost_reproduction.gp.measures import whitening
from tellmost_reproduction.gp.settings import Setting


@dataclass(frozen=True)
class DensePrior:
    """Covariances of all points of S, then all of A: before anything, and given f_A or y_A."""

    setting: Setting
    covariance: Float[Tensor, "p p"]
    given_targets: Float[Tensor, "p p"] | None  # None: the rule does not ask

    @classmethod
    def of(cls, setting: Setting, rule: Rule) -> "DensePrior":
        points = torch.from_numpy(np.concatenate([setting.pool, setting.target_points]))
        K = setting.kernel.block(points, points)
        if "variance_given_targets" not in rule.needs:
            return cls(setting, K, None)
        seen_with = rule.target_noise_variance(None)  # type: ignore[attr-defined]
        head = whitening(setting, points[len(setting.pool) :], seen_with) @ K[len(setting.pool) :]
        return cls(setting, K, K - head.T @ head)

    def state(self, rule: Rule, picks: list[int]) -> State:
        """What the rule reads of the posterior after these picks."""
        n = len(self.setting.pool)
        noise = torch.from_numpy(self.setting.noise_std).square()
        K = condition(self.covariance, picks, noise)
        variance, prior = (nonnegative(M.diagonal().clone()) for M in (K, self.covariance))
        targets = TargetState(
            variance[n:], prior[n:], torch.full_like(prior[n:], 1 / len(prior[n:]))
        )
        fields = {"variance": variance[:n], "prior_variance": prior[:n]}
        fields |= covariance_fields(K[:n, n:], targets, rule.needs)
        if self.given_targets is not None:
            given = condition(self.given_targets, picks, noise).diagonal()[:n]
            fields["variance_given_targets"] = nonnegative(given.clone())
        if "squared_distance_to_targets" in rule.needs:
            distance = squared_distance(self.covariance[:n, n:], prior[:n], prior[n:])
            fields["squared_distance_to_targets"] = distance.amin(dim=1)
        return State(torch.arange(n), len(picks), noise, fields, targets)


def condition(
    K: Float[Tensor, "p p"], picks: list[int], noise: Float[Tensor, " n"]
) -> Float[Tensor, "p p"]:
    """The covariance given noisy observations of some points, a point as often as it is named."""
    if not picks:
        return K
    K_ZZ = K[picks][:, picks] + noise[picks].diag()
    cross = K[picks]
    return K - cross.T @ torch.cholesky_solve(cross, torch.linalg.cholesky(K_ZZ))


def pick_from(
    prior: DensePrior, rule: Rule, picks: list[int], first: float | None
) -> tuple[int, float]:
    """The next pick and its gain; ties, also by the first gain of all, go to the lowest row."""
    gains = rule.gain(prior.state(rule, picks)).tolist()
    return best_of(list(range(len(gains))), gains, gains, first)


def pick_densely(setting: Setting, rule: Rule, rounds: int) -> Int[np.ndarray, " t"]:
    """Rows of S in the order of their observation."""
    prior, picks, first = DensePrior.of(setting, rule), list[int](), None
    for _ in range(rounds):
        row, gain = pick_from(prior, rule, picks, first)
        first = gain if first is None else first
        picks.append(row)
    return np.array(picks, dtype=np.int64)
