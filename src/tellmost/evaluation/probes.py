r"""Two probes: logistic regression for classes, and Bayesian regression for numbers.

Both are linear in features: those of the rows, or those of a kernel at the rows that teach, which
makes them kernel logistic regression and kernel ridge regression.

Multinomial logistic regression with an L2 penalty solves

.. math:: \min_{W, b}\; C \sum_i -\log \mathrm{softmax}(W x_i + b)_{y_i} + \tfrac12 |W|_F^2

The intercept has no penalty. With two classes only the difference of their scores is a parameter,
so the penalty is that of one vector, as in scikit-learn's ``LogisticRegression``.

Bayesian linear regression finds its noise by marginal likelihood. It models
outputs :math:`y = \Phi w + \varepsilon` with :math:`w \sim N(0, s^2 I)` and :math:`\varepsilon
\sim N(0, s^2\lambda I)`; several outputs (a column for each class) share s and :math:`\lambda`.
For N rows and c outputs the evidence is, with :math:`K = \Phi\Phi^\top` and the best scale
:math:`s^2 = \frac{1}{Nc} \sum_o y_o^\top (K + \lambda I)^{-1} y_o`,

.. math:: \log p = -\frac{Nc}{2} \bigl(\log(2\pi s^2) + 1\bigr)
    - \frac{c}{2} \log\det(K + \lambda I).

One eigendecomposition of K, or of :math:`\Phi^\top\Phi`, gives it for every :math:`\lambda`. The
noise ratio is :math:`\lambda` over the mean of :math:`k(x, x)`, as in ``select``.
"""

from dataclasses import dataclass
from math import inf, log, log10, pi

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.kernels import Kernel
from tellmost.kernels.kernel import Points
from tellmost.posterior.problem import nonnegative
from tellmost.shapes import Float, Int

PROBE_C = 100.0  # inverse penalty, on features of mean squared length 1, of the noise benchmark
PROBE_STEPS = 1_000  # of L-BFGS at most; probes on embeddings need 20 to 200

PROBE_GRADIENT = 3e-7
"""A probe is done when no entry of its gradient, per training row, is larger. Its probabilities
are then within 1e-4 of the best, and accuracies on Banking77 within a thousandth."""

LEAST_NOISE_RATIO, LARGEST_NOISE_RATIO = 1e-6, 1e6
"""The noise is looked for between these. Below and above nothing changes any more, in float64 and
for any number of rows that a dense fit can take."""

NOISE_GRID = 4  # points per decade at which the marginal likelihood is first computed
NOISE_PRECISION = 1e-4  # relative; the data fix the ratio to a few percent at best


LONGEST_NAME = 50  # letters of a kernel in a sentence; one with many lengthscales has more


@dataclass(frozen=True)
class Logistic:
    """A score for each class. With two classes the score of the first is zero."""

    weights: Float[Tensor, "d c"]
    intercept: Float[Tensor, " c"]

    def scores(self, rows: Float[Tensor, "b d"]) -> Float[Tensor, "b c"]:
        return rows @ self.weights + self.intercept

    def predict(self, rows: Float[Tensor, "b d"]) -> Int[Tensor, " b"]:
        """The number of the likeliest class, or of the first of equals."""
        return self.scores(rows).argmax(dim=1)


@torch.no_grad()
def fit_logistic(
    rows: Float[Tensor, "b d"], classes: Int[Tensor, " b"], count: int, *, C: float
) -> Logistic:
    """Learn from rows in float64. A class that no row has gets a score of minus infinity."""
    seen, numbers = torch.unique(classes, return_inverse=True)
    found = Logistic(rows.new_zeros(rows.shape[1], 1), rows.new_zeros(1))
    if len(seen) > 1 and rows.shape[1] <= len(rows):
        found = _minimize(rows, numbers, len(seen), C)
    elif len(seen) > 1:  # in as many coordinates as there are rows: the weights are sums of rows
        basis, R = torch.linalg.qr(rows.T)
        found = _minimize(R.T.contiguous(), numbers, len(seen), C)
        found = Logistic(basis @ found.weights, found.intercept)
    weights = rows.new_zeros(rows.shape[1], count)
    intercept = rows.new_full((count,), -torch.inf)
    weights[:, seen], intercept[seen] = found.weights, found.intercept
    return Logistic(weights, intercept)


def _minimize(rows: Tensor, classes: Tensor, count: int, C: float) -> Logistic:
    free = 1 if count == 2 else count
    wanted = torch.nn.functional.one_hot(classes, count).to(rows)
    theta = rows.new_zeros(rows.shape[1] + 1, free)  # the last row is the intercept
    optimizer = torch.optim.LBFGS(
        [theta],
        max_iter=PROBE_STEPS,
        max_eval=2 * PROBE_STEPS,
        history_size=20,
        tolerance_grad=PROBE_GRADIENT,
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


@dataclass(frozen=True)
class Ridge:
    """The posterior of the weights."""

    weights: Float[Tensor, "d c"]
    directions: Float[Tensor, "d r"]  # that the rows span
    settled: Float[Tensor, " r"]  # share of the prior variance that is gone along each
    scale: float  # s^2; 0 where all outputs are zero
    noise_ratio: float
    log_evidence: float
    is_at_edge: bool  # whether the best noise ratio lies at an end of what was looked at

    def predict(self, rows: Float[Tensor, "b d"]) -> Float[Tensor, "b c"]:
        return rows @ self.weights

    def variance(self, rows: Float[Tensor, "b d"]) -> Float[Tensor, " b"]:
        """The variance of f at each row, without noise. It is the same for every output."""
        known = (rows @ self.directions).square() @ self.settled
        return nonnegative(rows.square().sum(dim=1) - known) * self.scale


@dataclass(frozen=True)
class _Spectrum:
    """The numbers on which the evidence depends."""

    count: int  # N
    outputs: int  # c
    values: Float[Tensor, " r"]  # eigenvalues of K that are not zero
    along: Float[Tensor, " r"]  # squared outputs along its eigenvectors, added up
    rest: float  # squared outputs outside
    mean_variance: float  # mean of k(x, x)

    def scale(self, ratio: float) -> float:
        lam = ratio * self.mean_variance
        squares = float((self.along / (self.values + lam)).sum()) + self.rest / lam
        return squares / (self.count * self.outputs)

    def log_evidence(self, ratio: float) -> float:
        scale, lam = self.scale(ratio), ratio * self.mean_variance
        if scale == 0:
            return inf
        logdet = float((self.values + lam).log().sum())
        logdet += (self.count - len(self.values)) * log(lam)
        return -self.outputs / 2 * (self.count * (log(2 * pi * scale) + 1) + logdet)


def fit_ridge(
    rows: Float[Tensor, "b d"], outputs: Float[Tensor, "b c"], *, noise_ratio: float | None = None
) -> Ridge:
    """Learn from rows in float64. With None the noise ratio of largest evidence is found.

    The prior mean is zero, so the caller subtracts any other mean from the outputs. If all outputs
    or all rows are zero, all ratios are equal. The largest is taken, and nothing is learned.
    """
    spectrum, directions, products = _decompose(rows, outputs)
    has_signal = spectrum.mean_variance > 0 and spectrum.scale(1.0) > 0
    ratio = noise_ratio
    if ratio is None:
        ratio = best_ratio(spectrum) if has_signal else LARGEST_NOISE_RATIO
    lam = ratio * spectrum.mean_variance
    ends = (LEAST_NOISE_RATIO, LARGEST_NOISE_RATIO)
    return Ridge(
        weights=directions @ (products / (spectrum.values + lam)[:, None]),
        directions=directions,
        settled=spectrum.values / (spectrum.values + lam),
        scale=spectrum.scale(ratio) if has_signal else 0.0,
        noise_ratio=ratio,
        log_evidence=spectrum.log_evidence(ratio) if has_signal else inf,
        is_at_edge=noise_ratio is None and ratio in ends,
    )


def predict_numbers(
    rows: Float[Tensor, "b d"], outputs: Float[Tensor, "b c"], asked: Float[Tensor, "a d"]
) -> Float[Tensor, "a c"]:
    """Learn outputs from rows, with a free intercept, and predict those of other rows."""
    mean, middle = outputs.mean(dim=0), rows.mean(dim=0)
    return fit_ridge(rows - middle, outputs - mean).predict(asked - middle) + mean


def center_and_scale(rows: Float[Tensor, "b d"]) -> tuple[Float[Tensor, " d"], float]:
    """The mean of the rows, and their root mean squared distance from it, or 1 if that is zero."""
    mean = rows.mean(dim=0)
    scale = float((rows - mean).square().sum(dim=1).mean().sqrt())
    return mean, scale if scale > 0 else 1.0


def _decompose(rows: Tensor, outputs: Tensor) -> tuple[_Spectrum, Tensor, Tensor]:
    """The spectrum, its directions among the features, and what the outputs are along them."""
    n, d = rows.shape
    if n > d:
        values, V = torch.linalg.eigh(rows.T @ rows)
    else:
        values, U = torch.linalg.eigh(rows @ rows.T)
    kept = values > numerics.RANK_TOLERANCE * values.max().clamp(min=0.0)
    values = values[kept]
    V = V[:, kept] if n > d else rows.T @ (U[:, kept] / values.sqrt())
    products = V.T @ (rows.T @ outputs)
    along = products.square().sum(dim=1) / values
    rest = float(outputs.square().sum() - along.sum()) if n > len(values) else 0.0
    mean = float(rows.square().sum()) / n
    spectrum = _Spectrum(n, outputs.shape[1], values, along, max(rest, 0.0), mean)
    return spectrum, V, products


def best_ratio(spectrum: _Spectrum) -> float:
    """The ratio of largest evidence: the best on a grid, refined by golden sections."""
    low, high = log10(LEAST_NOISE_RATIO), log10(LARGEST_NOISE_RATIO)
    grid = np.linspace(low, high, round((high - low) * NOISE_GRID) + 1).tolist()
    best = int(np.argmax([spectrum.log_evidence(10**x) for x in grid]))
    if best in (0, len(grid) - 1):
        return (LEAST_NOISE_RATIO, LARGEST_NOISE_RATIO)[best > 0]
    low, high = grid[best - 1], grid[best + 1]
    while high - low > NOISE_PRECISION:
        step = (5**0.5 - 1) / 2 * (high - low)
        if spectrum.log_evidence(10 ** (high - step)) < spectrum.log_evidence(10 ** (low + step)):
            low = high - step
        else:
            high = low + step
    return float(10 ** ((low + high) / 2))


def kernel_features(
    kernel: Kernel, rows: Points, asked: Points | None = None
) -> tuple[Float[Tensor, "b r"], Float[Tensor, "a r"]]:
    r"""Features of rows, and of others, under which a linear probe is one with this kernel.

    With :math:`K = U \Lambda U^\top` of the rows they are :math:`k(x, \cdot)\, U \Lambda^{-1/2}`
    over the root of the mean of :math:`k(x, x)`.
    """
    K = kernel.block(rows, rows)
    scale = float(K.diagonal().mean()) or 1.0
    values, U = torch.linalg.eigh(K / scale)
    kept = values > numerics.RANK_TOLERANCE * values.max().clamp(min=0.0)
    U = (U[:, kept] / values[kept].sqrt()).cpu()
    of_asked = K if asked is None else kernel.block(asked, rows)
    return (K / scale).cpu() @ U, (of_asked / scale).cpu() @ U


def name_probe(kernel: Kernel) -> str:
    """The probe with this kernel in words. Kernels that are long to print have their kind only."""
    name = repr(kernel)
    return f"a probe with {name if len(name) < LONGEST_NAME else type(kernel).__name__}"
