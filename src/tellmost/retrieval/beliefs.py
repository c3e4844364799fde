r"""What is known about the candidates of many queries at once, each query by itself.

.. math::
    l_s = \frac{k_{s-1}(\cdot, x_s)}{\sqrt{k_{s-1}(x_s, x_s) + \rho^2}}, \qquad
    k_t(x, z) = k(x, z) - \sum_{s \le t} l_s(x)\, l_s(z)

So an observation costs a column of the prior, less what the earlier columns explain of it. With
the candidates X it is :math:`l = X g` for a direction g of features,
:math:`g = (x_s - \sum_r l_r(x_s)\, g_r) / \sqrt{\cdot}`. Where the columns of the prior are ready,
in the Gram matrix, the first formula gives l without a product with X.

Every product is one of numpy's per query, of a shape that the settings fix. So neither the other
queries of a batch nor their number changes a bit of the result.
"""

from collections.abc import Set

import numpy as np
import torch

from tellmost.numerics import RANK_TOLERANCE, SAME_POINT, ZERO_VARIANCE
from tellmost.posterior.problem import State, TargetState
from tellmost.shapes import Float, Int

PER_TARGET = frozenset({"covariance", "correlation"})  # fields with an entry per target


class Posterior:
    """f at W candidates of each of B queries, given what was observed."""

    def __init__(
        self,
        X: Float[np.ndarray, "b w d"],
        gram: Float[np.ndarray, "b w w"] | None,
        noise_variance: float,
        steps: int,
        *,
        seen: Float[np.ndarray, "b r d"] | None = None,
        grows: bool = False,
    ) -> None:
        """Directions are ``seen`` before so many steps. With ``grows`` candidates may be added."""
        self._X, self._gram, self._noise = X, gram, noise_variance
        self._count = 0 if seen is None else seen.shape[1]
        lengths = squared_lengths(X) if gram is None else np.einsum("bww->bw", gram).copy()
        self.prior_variance = lengths
        self.variance = self.prior_variance.copy()
        self.columns = np.empty((len(X), self._count + steps, X.shape[1]))
        self._directions = None
        if gram is None or grows:
            self._directions = np.empty((len(X), self._count + steps, X.shape[2]))
        if seen is not None:
            self.columns[:, : self._count] = seen @ X.transpose(0, 2, 1)
            if self._directions is not None:
                self._directions[:, : self._count] = seen
            self._explain(slice(None))

    @property
    def directions(self) -> Float[np.ndarray, "b t d"]:
        """The directions of features that were observed."""
        assert self._directions is not None
        return self._directions[:, : self._count]

    def observe(self, places: Int[np.ndarray, " b"]) -> Float[np.ndarray, " b"]:
        """Observe one candidate of each query. Its standard deviation, with noise, is returned."""
        some, t = np.arange(len(places)), self._count
        deviation = np.sqrt(self.variance[some, places] + self._noise)
        known = self.columns[some, :t, places][:, None]
        if self._directions is not None:
            features = self._X[some, places] - (known @ self.directions)[:, 0]
            self._directions[:, t] = features / deviation[:, None]
        if self._gram is None:
            assert self._directions is not None
            column = (self._X @ self._directions[:, t, :, None])[:, :, 0]
        else:
            column = self._gram[some, places] - (known @ self.columns[:, :t])[:, 0]
            column /= deviation[:, None]
        self.columns[:, t] = column
        self.variance -= np.square(column)
        np.maximum(self.variance, 0.0, out=self.variance)
        self._count += 1
        return deviation

    def extend(self, new: slice) -> None:
        """Take in candidates that were written into X and the Gram matrix, which were 0 there."""
        X = self._X[:, new]
        self.prior_variance[:, new] = squared_lengths(X)
        self.variance[:, new] = self.prior_variance[:, new]
        self.columns[:, : self._count, new] = self.directions @ X.transpose(0, 2, 1)
        self._explain(new)

    def _explain(self, some: slice) -> None:
        self.variance[:, some] -= np.square(self.columns[:, : self._count, some]).sum(axis=1)
        np.maximum(self.variance, 0.0, out=self.variance)

    def prior_column(self, places: Int[np.ndarray, " b"]) -> Float[np.ndarray, "b w"]:
        """k(x, x_j) for one candidate x_j of each query."""
        some = np.arange(len(places))
        if self._gram is not None:
            return self._gram[some, places]
        return (self._X @ self._X[some, places][:, :, None])[:, :, 0]


class BatchBeliefs:
    """What a rule reads: the posterior of the candidates, and how they move with the targets."""

    def __init__(
        self,
        X: Float[np.ndarray, "b w d"],
        targets: Float[np.ndarray, "b m d"],
        noise_variance: float,
        steps: int,
        *,
        needs: Set[str],
        gram: Float[np.ndarray, "b w w"] | None = None,
        noise_of_targets: float = 0.0,
        grows: bool = False,
    ) -> None:
        """``noise_of_targets`` is the noise with which a rule sees f at the targets."""
        self._X, self._targets, self._needs = X, targets, needs
        self.step = 0
        self.posterior = Posterior(X, gram, noise_variance, steps, grows=grows)
        self._given_targets = None
        if "variance_given_targets" in needs:
            seen = directions_of(targets, noise_of_targets)
            self._given_targets = Posterior(X, gram, noise_variance, steps, seen=seen, grows=grows)
        self._prior_target_variance = squared_lengths(targets)
        self.target_variance = self._prior_target_variance.copy()
        self.covariance = targets @ X.transpose(0, 2, 1)
        self._prior_covariance = self.covariance.copy()
        self._similarity_to_chosen = np.full(X.shape[:2], -np.inf)
        shape = len(X) * X.shape[1]
        self._noise = torch.tensor(noise_variance, dtype=torch.float64).expand(shape)
        self._rows = torch.arange(shape)

    def observe(self, places: Int[np.ndarray, " b"]) -> None:
        """Observe one candidate of each query."""
        some = np.arange(len(places))
        if "similarity_to_chosen" in self._needs:
            self._note_similarity(places)
        if self._given_targets is not None:
            self._given_targets.observe(places)
        deviation = self.posterior.observe(places)
        share = self.covariance[some, :, places] / deviation[:, None]
        self.target_variance -= np.square(share)
        np.maximum(self.target_variance, 0.0, out=self.target_variance)
        self.covariance -= share[:, :, None] * self.posterior.columns[:, self.step, None]
        self.step += 1

    def extend(self, new: slice) -> None:
        """Take in candidates that were written into X and the Gram matrix, which were 0 there."""
        self.posterior.extend(new)
        if self._given_targets is not None:
            self._given_targets.extend(new)
        X = self._X[:, new].transpose(0, 2, 1)
        self._prior_covariance[:, :, new] = self._targets @ X
        self.covariance[:, :, new] = self.residual() @ X

    def residual(self) -> Float[np.ndarray, "b m d"]:
        """Sigma_t a for every target a: the directions in which something is left to learn."""
        seen = self.posterior.directions
        return self._targets - (self._targets @ seen.transpose(0, 2, 1)) @ seen

    def uncertainty_share(self) -> Float[np.ndarray, " b"]:
        """The mean variance of the targets as a share of what it was; 0 where nothing was."""
        prior, left = self._prior_target_variance.mean(axis=1), self.target_variance.mean(axis=1)
        return np.divide(left, prior, where=prior > 0, out=np.zeros_like(prior))

    def states(self) -> list[State]:
        """The state of all queries in one; one for each where the rule reads every target."""
        fields = {name: self._field(name) for name in self._needs}
        if not self._needs & PER_TARGET:
            flat = {name: torch.from_numpy(field).reshape(-1) for name, field in fields.items()}
            return [State(self._rows, self.step, self._noise, flat)]
        width, m = self._X.shape[1], self._targets.shape[1]
        weights = torch.full((m,), 1.0 / m, dtype=torch.float64)
        return [
            State(
                self._rows[:width],
                self.step,
                self._noise[:width],
                {name: torch.from_numpy(field[b]) for name, field in fields.items()},
                TargetState(
                    torch.from_numpy(self.target_variance[b]),
                    torch.from_numpy(self._prior_target_variance[b]),
                    weights,
                ),
            )
            for b in range(len(self._X))
        ]

    def _field(self, name: str) -> np.ndarray:
        if name == "variance":
            return self.posterior.variance
        if name == "variance_given_targets":
            assert self._given_targets is not None
            return self._given_targets.variance
        if name == "prior_variance":
            return self.posterior.prior_variance
        if name == "squared_covariance":
            return np.square(self.covariance).mean(axis=1)
        if name == "standardized_covariance":
            known = self.target_variance <= ZERO_VARIANCE * self._prior_target_variance
            deviation = np.sqrt(np.where(known, np.inf, self.target_variance))  # not of rounding
            return (self.covariance * (1.0 / deviation)[:, :, None]).mean(axis=1)
        if name == "covariance":
            return self.covariance.transpose(0, 2, 1)
        if name == "similarity_to_chosen":
            return self._similarity_to_chosen
        correlation = correlation_of(  # before any observation
            self._prior_covariance.transpose(0, 2, 1),
            self.posterior.prior_variance[:, :, None],
            self._prior_target_variance[:, None],
        )
        return correlation if name == "correlation" else correlation.max(axis=2)

    def _note_similarity(self, places: Int[np.ndarray, " b"]) -> None:
        """Keep how near each candidate is to the nearest that was chosen."""
        prior, some = self.posterior.prior_variance, np.arange(len(places))
        column = self.posterior.prior_column(places)
        similarity = correlation_of(column, prior, prior[some, places][:, None])
        similarity[similarity >= 1.0 - SAME_POINT] = 1.0
        np.maximum(self._similarity_to_chosen, similarity, out=self._similarity_to_chosen)


def squared_lengths(rows: Float[np.ndarray, "b w d"]) -> Float[np.ndarray, "b w"]:
    return np.einsum("bwd,bwd->bw", rows, rows)


def correlation_of(
    covariance: np.ndarray, variance: np.ndarray, of_others: np.ndarray
) -> np.ndarray:
    """k(x, a) / (sd(x) sd(a)), and 0 where either has no variance."""
    scale = np.sqrt(variance) * np.sqrt(of_others)
    return np.divide(covariance, scale, where=scale > 0, out=np.zeros(covariance.shape))


def directions_of(
    targets: Float[np.ndarray, "b m d"], noise_variance: float
) -> Float[np.ndarray, "b m d"]:
    """Directions whose observation is that of the targets, f_A or with noise y_A.

    A covariance that is singular is inverted up to the rank tolerance, as everywhere.
    """
    values, vectors = np.linalg.eigh(targets @ targets.transpose(0, 2, 1))
    is_kept = values > RANK_TOLERANCE * values[:, -1:]
    scale = np.sqrt(np.where(is_kept, values + noise_variance, np.inf))
    return (vectors / scale[:, None]).transpose(0, 2, 1) @ targets
