r"""What is known about the weights of a network's final layer: a normal distribution.

.. math:: p(W \mid D) \approx N\bigl(W^*, (H + \tau I)^{-1}\bigr)

(the last-layer Laplace approximation; Daxberger et al. 2021), with W* the weights that the network
has. For a linear model with Gaussian noise and W* its best weights this is exact.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch import Tensor, nn

from tellmost.finetune.activations import LastLayer
from tellmost.finetune.curvatures import TALLIES, Curvature, Factored
from tellmost.finetune.embedding import Embedded, Embedding, evaluating
from tellmost.finetune.evidence import best_precision, log_evidence
from tellmost.finetune.heads import Head, at_the_head
from tellmost.finetune.inputs import Inputs, device_of
from tellmost.finetune.likelihoods import Likelihood, likelihood_of
from tellmost.finetune.loss_gradients import LossGradients
from tellmost.finetune.output_gradients import OutputGradients
from tellmost.finetune.rows import WHY_NOT_FINITE, place_of
from tellmost.kernels import Kernel, Kronecker, Linear
from tellmost.shapes import Float


@dataclass(frozen=True, eq=False)
class LaplacePosterior:
    """The final layer's weights given the data; made by ``fit_laplace``."""

    curvature: Curvature
    weights: Float[Tensor, "c d"]  # W*, with the bias as the last column
    has_bias: bool
    layer: str | None
    prior_precision: float
    log_likelihood: float

    @property
    def log_marginal_likelihood(self) -> float:
        length = float(self.weights.square().sum())
        values, tau = self.curvature.values, self.prior_precision
        return log_evidence(values, self.log_likelihood, length, tau)

    def covariance(self) -> Float[Tensor, "cd cd"]:
        """Of all weights, output by output; for small layers."""
        return self.curvature.covariance(self.prior_precision)

    def kernel(self, embedding: Embedding) -> Kernel:
        """Compares the points of ``LossGradients``, ``LastLayer`` or ``OutputGradients()``.

        That of ``LastLayer`` is the covariance of an output, on average over outputs; that of
        ``OutputGradients()``, whose points are longer by sqrt(c), is the sum over outputs.
        """
        curvature, tau = self.curvature, self.prior_precision
        check_weighable(embedding, is_factored=isinstance(curvature, Factored))
        if isinstance(embedding, LossGradients) and isinstance(curvature, Factored):
            return Linear(self.covariance()) if embedding.materialize else curvature.kernel(tau)
        if isinstance(embedding, LossGradients):
            return Linear(self.covariance())
        block = curvature.mean_block(tau)
        without_bias = isinstance(embedding, LastLayer) and self.has_bias
        return Linear(block[:-1, :-1] if without_bias else block)

    def weigh(self, embedded: Embedded, embedding: Embedding) -> Embedded:
        """Points with this kernel in the place of theirs; turned, where that saves work."""
        points, curvature = embedded.points, self.curvature
        is_product = isinstance(embedding, LossGradients) and not embedding.materialize
        if is_product and isinstance(curvature, Factored) and isinstance(points, Tensor):
            along = Kronecker(curvature.variances(self.prior_precision))
            return Embedded(curvature.turned(points), along)
        return Embedded(points, self.kernel(embedding))

    def predictive_variance(
        self, model: nn.Module, data: Any, *, batch_size: int = 256
    ) -> Float[Tensor, "n c"]:
        """Variance of every output for every input, without the noise of observations."""
        found: list[Tensor] = []

        def keep(head: Head, start: int) -> None:
            h = head.features.double()
            found.append(self.curvature.output_variance(h, self.prior_precision))

        walk(model, Inputs.of(data, "data"), self.layer, batch_size, keep)
        return torch.cat(found)


def fit_laplace(
    model: nn.Module,
    data: Any,
    labels: Any = None,
    *,
    structure: str = "kronecker",
    prior_precision: float | None = None,
    noise_std: float | None = None,
    layer: str | None = None,
    batch_size: int = 256,
) -> LaplacePosterior:
    """The weights of the final layer given what the network was trained on.

    Args:
        model: trained on the data; it is left in the mode that it was found in.
        data: inputs, or a dataset that yields labels as well.
        labels: class numbers (n,), or values (n, c) where ``noise_std`` is given; None: the
            data's own.
        structure: of the curvature: "kronecker", "diagonal", or "full" for small layers.
        prior_precision: 1 / variance of a weight before the data; None: that of largest
            marginal likelihood at the network's weights.
        noise_std: of values around the outputs, for regression; None: classes, by softmax.
        layer: the final layer's name; None: the ``nn.Linear`` that makes the outputs.
        batch_size: inputs in one call of the model.
    """
    inputs = Inputs.of(data, "data")
    check_structure(structure, prior_precision)
    if len(inputs) == 0:
        raise ValueError("data must have at least one input; got none.")
    loss = likelihood_of(inputs.labels() if labels is None else labels, inputs, noise_std)
    tally, seen = TALLIES[structure](), Seen(loss)

    def add(head: Head, start: int) -> None:
        tally.add(loss.curvature(head.outputs.double()), head.features.double())
        seen.add(head, start)

    walk(model, inputs, layer, batch_size, add)
    curvature = tally.total()
    length = float(seen.weights.square().sum())
    tau = best_precision(curvature.values, length) if prior_precision is None else prior_precision
    return LaplacePosterior(
        curvature, seen.weights, seen.has_bias, layer, tau, seen.log_likelihood
    )


class Seen:
    """The final layer's weights, and how likely the labels are under them."""

    def __init__(self, loss: Likelihood) -> None:
        self._loss = loss
        self.log_likelihood = 0.0
        self.has_bias = False
        self.weights: Tensor

    def add(self, head: Head, start: int) -> None:
        self.weights, self.has_bias = head.weights.double(), head.layer.bias is not None
        self.log_likelihood += self._loss.log_likelihood(head.outputs.double(), start)


def walk(
    model: nn.Module,
    inputs: Inputs,
    layer: str | None,
    batch_size: int,
    visit: Callable[[Head, int], None],
) -> None:
    """Calls ``visit`` with every batch at the final layer, and the position of its first input."""
    start = 0
    with evaluating(model), torch.no_grad(), at_the_head(model, layer) as run:
        for number, batch in enumerate(inputs.batches(batch_size, device_of(model))):
            head = run(batch)
            check_finite(head, inputs, number, start)
            visit(head, start)
            start += len(head.features)


def check_finite(head: Head, inputs: Inputs, number: int, start: int) -> None:
    """Features and outputs of a batch, or an error that names its rows."""
    is_finite = [torch.isfinite(values).all(dim=1) for values in (head.features, head.outputs)]
    is_wrong = ~(is_finite[0] & is_finite[1])
    if bool(is_wrong.any()):
        where = place_of(is_wrong, inputs, number, start)
        raise ValueError(
            f"the final layer's features and outputs must be finite; they are not in {where}. "
            f"{WHY_NOT_FINITE}"
        )


def check_weighable(embedding: Embedding, *, is_factored: bool) -> None:
    """A covariance of the final layer's weights, factored or full, weighs these points."""
    if isinstance(embedding, LossGradients):
        if is_factored or embedding.materialize:
            return
        raise ValueError(
            "a full covariance needs LossGradients(materialize=True); or use "
            "structure='kronecker'."
        )
    if not isinstance(embedding, LastLayer) and embedding != OutputGradients("last"):
        raise TypeError(
            f"a Laplace approximation of the final layer weighs LossGradients, LastLayer or "
            f"OutputGradients('last'); got {embedding!r}."
        )


def check_structure(structure: str, prior_precision: float | None) -> None:
    if structure not in TALLIES:
        raise ValueError(
            f"structure must be 'kronecker', 'diagonal' or 'full'; got {structure!r}."
        )
    if prior_precision is not None and not 0 < prior_precision < inf:
        raise ValueError(f"prior_precision must be a positive number; got {prior_precision}.")
