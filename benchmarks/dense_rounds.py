r"""What would the Gaussian-process experiments cost with a dense posterior in every round?

A dense round makes the joint posterior of S and A anew, as the authors' published code does,

.. math:: K_t = K - K_{\cdot Z} (K_{ZZ} + P)^{-1} K_{Z \cdot},

in O(t (n + m)^2). The prior covariance and, for ITL, the one given f_A do not change and are made
once. The rules are those of the library; only what they read is made in another way.

One run makes all picks by ``select`` and times single dense rounds after several numbers of
observations. What lies between these is interpolated, so the time of a dense run is an estimate.
In each dense round the pick is compared with the one that ``select`` made there.
"""

import argparse
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from setting import save
from tellmost.posterior.nearness import squared_distance
from tellmost.posterior.problem import State, TargetState, covariance_fields, nonnegative
from tellmost.rules import Rule
from tellmost.selecting.loop import best_of
from tellmost.shapes import Float, Int
from tellmost_reproduction.gp.curves import pick
from tellmost_reproduction.gp.measures import whitening
from tellmost_reproduction.gp.methods import methods_for
from tellmost_reproduction.gp.settings import FULL, SMOKE, Setting, Size, settings

TIMED = (0.0, 0.02, 0.1, 0.25, 0.5, 0.75, 1.0)  # of all rounds: when a dense one is timed


@dataclass(frozen=True)
class DensePrior:
    """Covariances of all points of S and then all of A: before anything, and given f_A or y_A."""

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
        """Make what the rule reads of the posterior after these picks."""
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
    """The covariance given noisy observations of some points. A point may be named again."""
    if not picks:
        return K
    K_ZZ = K[picks][:, picks] + noise[picks].diag()
    cross = K[picks]
    return K - cross.T @ torch.cholesky_solve(cross, torch.linalg.cholesky(K_ZZ))


def pick_from(
    prior: DensePrior, rule: Rule, picks: list[int], first: float | None
) -> tuple[int, float]:
    """The next pick and its gain. Ties go to the lowest row."""
    gains = rule.gain(prior.state(rule, picks)).tolist()
    return best_of(list(range(len(gains))), gains, gains, first)


def pick_densely(setting: Setting, rule: Rule, rounds: int) -> Int[np.ndarray, " t"]:
    """Choose rows of S in the order of their observation."""
    prior, picks, first = DensePrior.of(setting, rule), list[int](), None
    for _ in range(rounds):
        row, gain = pick_from(prior, rule, picks, first)
        first = gain if first is None else first
        picks.append(row)
    return np.array(picks, dtype=np.int64)


def time_dense(setting: Setting, rule: object, picks: np.ndarray) -> dict:
    """Seconds of single rounds, of all by interpolation, and how many picks were the same."""
    last = len(picks) - 1
    counts = sorted({round(share * last) for share in TIMED})
    started = time.perf_counter()
    prior = DensePrior.of(setting, rule)
    setup = time.perf_counter() - started
    first, seconds, same = None, [], 0
    for count in counts:
        started = time.perf_counter()
        row, gain = pick_from(prior, rule, picks[:count].tolist(), first)
        seconds.append(time.perf_counter() - started)
        first = gain if first is None else first
        same += int(row == picks[count])
    every = np.interp(np.arange(len(picks)), counts, seconds)
    return {
        "observations": counts,
        "round_seconds": seconds,
        "estimated_seconds": setup + float(every.sum()),
        "same_picks": same,
    }


def time_methods(setting: Setting, size: Size) -> dict:
    rows = {}
    for method in methods_for(setting):
        if method.is_random:
            continue
        pick(setting, method.rule, 2)  # libraries are warm
        started = time.perf_counter()
        picks = pick(setting, method.rule, size.rounds)
        took = time.perf_counter() - started
        rows[method.key] = {"seconds": took, "dense": time_dense(setting, method.rule, picks)}
        report(setting.name, method.key, rows[method.key])
    return rows


def report(setting: str, method: str, row: dict) -> None:
    dense = row["dense"]
    same = dense["same_picks"] == len(dense["observations"])
    print(
        f"{setting:26}{method:20}{row['seconds']:8.2f} s, dense about "
        f"{dense['estimated_seconds']:8.1f} s, {'same picks' if same else 'OTHER PICKS'}"
    )


def main(size: Size) -> dict:
    return {
        "rounds": size.rounds,
        "settings": {name: time_methods(s, size) for name, s in settings(size.side).items()},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny, to see that it runs")
    options = parser.parse_args()
    if options.smoke:
        main(SMOKE)
    else:
        save("dense_rounds", main(FULL))
