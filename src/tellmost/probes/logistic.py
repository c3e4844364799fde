r"""Multinomial logistic regression with an L2 penalty.

.. math:: \min_{W, b}\; C \sum_i -\log \mathrm{softmax}(W x_i + b)_{y_i} + \tfrac12 |W|_F^2

The intercept goes free. Of two classes only the difference of their scores is a parameter, so the
penalty is that of one vector: the objective of scikit-learn's ``LogisticRegression``.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from tellmost import numerics
from tellmost.shapes import Float, Int


@dataclass(frozen=True)
class Logistic:
    """A score for each class: that of the first of two is zero."""

    weights: Float[Tensor, "d c"]
    intercept: Float[Tensor, " c"]

    def scores(self, rows: Float[Tensor, "b d"]) -> Float[Tensor, "b c"]:
        return rows @ self.weights + self.intercept

    def probabilities(self, rows: Float[Tensor, "b d"]) -> Float[Tensor, "b c"]:
        return self.scores(rows).softmax(dim=1)

    def predict(self, rows: Float[Tensor, "b d"]) -> Int[Tensor, " b"]:
        """The number of the likeliest class; the first of equals."""
        return self.scores(rows).argmax(dim=1)


@torch.no_grad()
def fit_logistic(
    rows: Float[Tensor, "b d"], classes: Int[Tensor, " b"], count: int, *, C: float
) -> Logistic:
    """Learn from rows in float64 and the numbers of their classes, 0 to count - 1.

    A class that no row has gets a low score; with a single class there is nothing to learn.
    """
    seen, numbers = torch.unique(classes, return_inverse=True)
    found = _fit_seen(rows, numbers, len(seen), C)
    weights = rows.new_zeros(rows.shape[1], count)
    intercept = rows.new_full((count,), -torch.inf)
    weights[:, seen], intercept[seen] = found.weights, found.intercept
    return Logistic(weights, intercept)


def _fit_seen(rows: Tensor, classes: Tensor, count: int, C: float) -> Logistic:
    """For classes that all have rows; at most as many coordinates as rows."""
    if count == 1:
        return Logistic(rows.new_zeros(rows.shape[1], 1), rows.new_zeros(1))
    if rows.shape[1] <= len(rows):
        return _minimize(rows, classes, count, C)
    basis, R = torch.linalg.qr(rows.T)  # the weights are sums of rows
    found = _minimize(R.T.contiguous(), classes, count, C)
    return Logistic(basis @ found.weights, found.intercept)


def _minimize(rows: Tensor, classes: Tensor, count: int, C: float) -> Logistic:
    free = 1 if count == 2 else count
    wanted = torch.nn.functional.one_hot(classes, count).to(rows)
    theta = rows.new_zeros(rows.shape[1] + 1, free)  # the last row is the intercept
    optimizer = torch.optim.LBFGS(
        [theta],
        max_iter=numerics.PROBE_STEPS,
        max_eval=2 * numerics.PROBE_STEPS,
        history_size=20,
        tolerance_grad=numerics.PROBE_GRADIENT,
        tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )

    def loss() -> Tensor:
        value, theta.grad = _loss_and_gradient(theta, rows, wanted, C)
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return Logistic(*_both(theta, count))


def _both(theta: Tensor, count: int) -> tuple[Float[Tensor, "d c"], Float[Tensor, " c"]]:
    """Weights and intercepts of all classes."""
    if count == 2:
        theta = torch.nn.functional.pad(theta, (1, 0))
    return theta[:-1], theta[-1]


def _loss_and_gradient(
    theta: Tensor, rows: Tensor, wanted: Float[Tensor, "b c"], C: float
) -> tuple[Tensor, Tensor]:
    """The objective and its gradient, per row and unit of C, so that one tolerance fits all."""
    weights, intercept = _both(theta, wanted.shape[1])
    logs = (rows @ weights + intercept).log_softmax(dim=1)
    error = (logs.exp() - wanted)[:, -theta.shape[1] :] / len(rows)
    penalty = 1.0 / (C * len(rows))
    gradient = torch.cat([rows.T @ error, error.sum(dim=0, keepdim=True)])
    gradient[:-1] += penalty * theta[:-1]
    value = -(logs * wanted).sum() / len(rows) + penalty / 2 * theta[:-1].square().sum()
    return value, gradient
