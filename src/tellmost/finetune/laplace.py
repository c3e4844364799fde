r"""The belief about the weights of a network's final layer is a normal distribution.

.. math:: k(x, z) = \phi(x)^\top \Sigma\, \phi(z), \qquad
    p(W \mid D) \approx N\bigl(W^*, (H + \tau I)^{-1}\bigr)

Hübotter et al. 2024, Sec. 4: a latent covariance :math:`\Sigma` of the weights makes the kernel of
the points. ``Weighted`` takes a matrix of the caller's. ``LaplaceCovariance`` is fitted anew in
every round to what was observed, by the Laplace approximation of the last layer (Daxberger et al.
2021), where W* are the weights that the network has. For a linear model with Gaussian noise whose
W* are its best weights this is exact.

The prior precision :math:`\tau` is the one that makes the training data most likely. At weights
W* and a curvature with eigenvalues :math:`\lambda_i` the log marginal likelihood is

.. math:: \log p(D) \approx \log p(D \mid W^*) - \frac{\tau}{2} \|W^*\|^2
    + \frac12 \sum_i \log \frac{\tau}{\lambda_i + \tau}

and it is largest where :math:`\tau \|W^*\|^2 = \sum_i \lambda_i / (\lambda_i + \tau)` (MacKay
1992). The left side grows with tau and the right side falls, so there is one such place.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import exp, log
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from tellmost.finetune.curvatures import (
    STRUCTURES,
    Curvature,
    Factored,
    check_size,
    likelihood_of,
    terms_of,
    total_of,
)
from tellmost.finetune.embedding import (
    WHY_NOT_FINITE,
    Embedded,
    Embedding,
    check_inner_products,
    evaluating,
    kernel_of,
    place_of,
)
from tellmost.finetune.gradients import LossGradients, OutputGradients
from tellmost.finetune.inputs import Inputs, check_model, device_of
from tellmost.finetune.layers import Head, LastLayer, at_the_head
from tellmost.kernels import Kernel, Kronecker, Linear, Scaled
from tellmost.rows.checks import check_positive, check_word
from tellmost.shapes import Float

LEAST_PRECISION = 1e-12
"""Least prior precision that is looked for, as a share of the largest that can be best, the number
of weights over their squared length: below it the prior is flat beside any data."""

PRECISION_STEPS = 60  # halvings of the range of prior precisions, of 28 powers of e: to rounding


@dataclass(frozen=True, eq=False)
class LaplacePosterior:
    """The final layer's weights given the data, as ``fit_laplace`` finds them."""

    curvature: Curvature
    weights: Float[Tensor, "c d"]  # W*, with the bias as the last column
    has_bias: bool
    layer: str | None
    prior_precision: float
    log_likelihood: float

    @property
    def log_marginal_likelihood(self) -> float:
        values, tau = self.curvature.values, self.prior_precision
        determinant = float((1 + values / tau).log().sum())
        squared_length = float(self.weights.square().sum())
        return self.log_likelihood - tau * squared_length / 2 - determinant / 2

    def covariance(self) -> Float[Tensor, "cd cd"]:
        """The covariance of all weights, output by output; for small layers."""
        return self.curvature.covariance(self.prior_precision)

    def weigh(self, embedded: Embedded, embedding: Embedding) -> Embedded:
        """The points of this embedding, compared by the covariance of the weights.

        For ``LastLayer`` it is the covariance of an output, on average over outputs. For
        ``OutputGradients()``, whose points are longer by sqrt(c), it is the sum over outputs.
        Those of ``LossGradients()`` are turned along the eigenvectors, once and in memory.
        """
        points, curvature, tau = embedded.points, self.curvature, self.prior_precision
        check_weighable(embedding, is_factored=isinstance(curvature, Factored))
        if isinstance(embedding, LossGradients):
            if isinstance(curvature, Factored) and not embedding.materialize:
                along = Kronecker(curvature.variances(tau))
                return Embedded(curvature.turned(torch.as_tensor(points)), along)
            return Embedded(points, Linear(self.covariance()))
        block = curvature.mean_block(tau)
        without_bias = isinstance(embedding, LastLayer) and self.has_bias
        return Embedded(points, Linear(block[:-1, :-1] if without_bias else block))

    def predictive_variance(
        self, model: nn.Module, data: Any, *, batch_size: int = 256
    ) -> Float[Tensor, "n c"]:
        """The variance of every output for every input, without the noise of observations."""
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
        model: a network that is trained on the data; its mode stays as it is.
        data: inputs, or a dataset that yields labels as well.
        labels: class numbers (n,), or values (n, c) if ``noise_std`` is given; None: the data's
            own.
        structure: that of the curvature: "kronecker", "diagonal", or "full" for small layers.
        prior_precision: 1 / variance of a weight before the data; None: the one of largest
            marginal likelihood at the network's weights.
        noise_std: that of values around the outputs, for regression; None: classes, by softmax.
        layer: the final layer's name; None: the ``nn.Linear`` that makes the outputs.
        batch_size: how many inputs go into one call of the model.
    """
    check_model(model)
    inputs = Inputs.of(data, "data")
    check_structure(structure, prior_precision)
    if len(inputs) == 0:
        raise ValueError("data must have at least one input; got none.")
    loss = likelihood_of(inputs.labels() if labels is None else labels, inputs, noise_std)
    sums: tuple[Tensor, ...] = ()
    heads: list[Head] = []
    log_likelihood = 0.0

    def add(head: Head, start: int) -> None:
        nonlocal sums, log_likelihood
        outputs = head.outputs.double()
        terms = terms_of(structure, loss.curvature(outputs), head.features.double())
        sums = tuple(map(torch.add, sums, terms)) if sums else terms
        log_likelihood += loss.log_likelihood(outputs, start)
        heads[:] = [head]  # all heads have the same weights

    walk(model, inputs, layer, batch_size, add)
    curvature, weights = total_of(structure, sums, len(inputs)), heads[0].weights.double()
    tau = prior_precision
    if tau is None:
        tau = best_precision(curvature.values, float(weights.square().sum()))
    has_bias = heads[0].layer.bias is not None
    return LaplacePosterior(curvature, weights, has_bias, layer, tau, log_likelihood)


def walk(
    model: nn.Module,
    inputs: Inputs,
    layer: str | None,
    batch_size: int,
    visit: Callable[[Head, int], None],
) -> None:
    """Call ``visit`` with every batch at the final layer, and the position of its first input."""
    start = 0
    with evaluating(model), torch.no_grad(), at_the_head(model, layer) as run:
        for number, batch in enumerate(inputs.batches(batch_size, device_of(model))):
            head = run(batch)
            is_wrong = ~torch.isfinite(torch.cat([head.features, head.outputs], dim=1)).all(dim=1)
            if bool(is_wrong.any()):
                raise ValueError(
                    f"the final layer's features and outputs must be finite; they are not in "
                    f"{place_of(is_wrong, inputs, number, start)}. {WHY_NOT_FINITE}"
                )
            visit(head, start)
            start += len(head.features)


def check_weighable(embedding: Embedding, *, is_factored: bool) -> None:
    """The points are those that a covariance of the final layer's weights can weigh."""
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
    check_word(structure, "structure", STRUCTURES)
    if prior_precision is not None:
        check_positive(prior_precision, "prior_precision")


def best_precision(values: Float[Tensor, "c d"], squared_length: float) -> float:
    """The precision of largest evidence. The sign of the slope halves the range."""
    if squared_length == 0:
        raise ValueError(
            "the final layer's weights are all 0, for which no prior precision is best. Train "
            "the network first, or give prior_precision=."
        )
    high = log(values.numel() / squared_length)
    low = high + log(LEAST_PRECISION)
    for _ in range(PRECISION_STEPS):
        middle = (low + high) / 2
        tau = exp(middle)
        rises = float((values / (values + tau)).sum()) > tau * squared_length
        low, high = (middle, high) if rises else (low, middle)
    return exp((low + high) / 2)


Weigh = Callable[[Embedded], Embedded]


@runtime_checkable
class LatentCovariance(Protocol):
    """A covariance of the weights that is made from what was observed."""

    def fit(
        self, model: nn.Module, data: Inputs, labels: Any, embedding: Embedding, *, batch_size: int
    ) -> Weigh:
        """The function that gives points of this embedding their kernel; ``data`` may be empty."""


@dataclass(frozen=True)
class LaplaceCovariance:
    """The covariance of the final layer's weights given what the network was trained on.

    Args:
        structure: that of the curvature: "kronecker", "diagonal" or "full".
        prior_precision: None: the one of largest marginal likelihood.

    Before anything was observed it is the prior's: the identity over the precision, which is 1 if
    none is given. It weighs the points of ``LossGradients`` (with ``materialize=True`` if it is
    full), of ``LastLayer`` and of ``OutputGradients("last")``.
    """

    structure: str = "kronecker"
    prior_precision: float | None = None

    def __post_init__(self) -> None:
        check_structure(self.structure, self.prior_precision)

    def fit(
        self,
        model: nn.Module,
        data: Inputs,
        labels: Any,
        embedding: Embedding,
        *,
        batch_size: int = 256,
    ) -> Weigh:
        self.check_embedding(embedding)
        if len(data) == 0:  # as if the weights had independent priors of this precision
            precision = self.prior_precision
            if precision is None:
                return lambda embedded: embedded
            return lambda embedded: Embedded(
                embedded.points, Scaled(embedded.kernel or Linear(), 1 / precision)
            )
        posterior = fit_laplace(
            model,
            data,
            labels,
            structure=self.structure,
            prior_precision=self.prior_precision,
            layer=getattr(embedding, "layer", None),
            batch_size=batch_size,
        )
        return lambda embedded: posterior.weigh(embedded, embedding)

    def check_embedding(self, embedding: Embedding) -> None:
        """The points of the embedding can be weighed."""
        check_weighable(embedding, is_factored=self.structure != "full")

    def check_network(self, model: nn.Module, inputs: Inputs, embedding: Embedding) -> None:
        """It can be fitted to this network later on; one of the inputs shows the final layer."""
        first = inputs.batch(np.arange(1), device_of(model))
        layer = getattr(embedding, "layer", None)
        with evaluating(model), torch.no_grad(), at_the_head(model, layer) as run:
            weights = run(first).weights
        if self.structure == "full" or getattr(embedding, "materialize", False):
            check_size(weights.numel())


@dataclass(frozen=True)
class Weighted:
    """Points of another embedding, compared by a covariance of their weights.

    Args:
        embedding: one whose points are compared by inner products.
        covariance: (p, p), symmetric and positive semi-definite.
    """

    embedding: Embedding
    covariance: Float[Tensor, "p p"] = field(hash=False, compare=False)
    _linear: Linear = field(init=False, repr=False)  # compared and hashed by identity

    def __post_init__(self) -> None:
        object.__setattr__(self, "_linear", Linear(self.covariance))

    def on(self, model: nn.Module) -> AbstractContextManager[Callable[[Any], Tensor]]:
        return self.embedding.on(model)

    def kernel(self, model: nn.Module, batch: Any) -> Kernel:
        own = kernel_of(self.embedding, model, batch)
        check_inner_products("Weighted(embedding)", self.embedding, own)
        with self.embedding.on(model) as points_of:
            self._linear.weight_covariance(points_of(batch).shape[1])
        return self._linear
