r"""Latent covariances: what is believed about the weights before anything is chosen.

.. math:: k(x, z) = \phi(x)^\top \Sigma\, \phi(z)

Hübotter et al. 2024, Sec. 4. The identity needs nothing; a matrix of the caller's goes into
``Weighted``; ``Laplace`` is fitted to what was observed, anew in every round.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from tellmost.finetune.curvatures import check_size
from tellmost.finetune.embedding import Embedded, Embedding, evaluating
from tellmost.finetune.heads import at_the_head
from tellmost.finetune.inputs import Inputs, device_of
from tellmost.finetune.laplace import check_structure, check_weighable, fit_laplace
from tellmost.kernels import Kernel, Linear, Scaled
from tellmost.shapes import Float

Weigh = Callable[[Embedded], Embedded]


@runtime_checkable
class LatentCovariance(Protocol):
    """A covariance of the weights that is made from what was observed."""

    def fit(
        self, model: nn.Module, data: Inputs, labels: Any, embedding: Embedding, *, batch_size: int
    ) -> Weigh:
        """What gives points of this embedding their kernel; ``data`` may be empty.

        ``batch_size``: inputs in one call of the model.
        """


@dataclass(frozen=True)
class Laplace:
    """The covariance of the final layer's weights given what the network was trained on.

    Args:
        structure: of the curvature: "kronecker", "diagonal" or "full".
        prior_precision: None: that of largest marginal likelihood.

    Before anything was observed it is the prior's: the identity over the precision, of 1 if none
    is given. It weighs the points of ``LossGradients`` (those with ``materialize=True`` if it is
    full), ``LastLayer`` and ``OutputGradients("last")``, of the network's final layer.
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
        if len(data) == 0:
            return lambda embedded: scaled(embedded, self.prior_precision)
        posterior = fit_laplace(
            model,
            data,
            labels,
            structure=self.structure,
            prior_precision=self.prior_precision,
            layer=layer_of(embedding),
            batch_size=batch_size,
        )
        return lambda embedded: posterior.weigh(embedded, embedding)

    def check_embedding(self, embedding: Embedding) -> None:
        """Its points are those that such a covariance weighs."""
        check_weighable(embedding, is_factored=self.structure != "full")

    def check_network(self, model: nn.Module, inputs: Inputs, embedding: Embedding) -> None:
        """It can be fitted to this network later on: one of the inputs shows its final layer."""
        first = inputs.batch(np.arange(1), device_of(model))
        with evaluating(model), torch.no_grad(), at_the_head(model, layer_of(embedding)) as run:
            weights = run(first).weights
        if self.structure == "full" or getattr(embedding, "materialize", False):
            check_size(weights.numel())


def layer_of(embedding: Embedding) -> str | None:
    """The name of the final layer, if the embedding says one."""
    return getattr(embedding, "layer", None)


def scaled(embedded: Embedded, precision: float | None) -> Embedded:
    """Points whose weights have independent priors."""
    if precision is None:
        return embedded
    kernel = Linear() if embedded.kernel is None else embedded.kernel
    return Embedded(embedded.points, Scaled(kernel, 1 / precision))


@dataclass(frozen=True)
class Weighted:
    """Points of another embedding, compared with a covariance of their weights.

    Args:
        embedding: one whose points are compared by inner products.
        covariance: (p, p), symmetric and positive semi-definite.
    """

    embedding: Embedding
    covariance: Float[Tensor, "p p"] = field(hash=False, compare=False)
    _linear: Linear = field(init=False, repr=False)  # compared and hashed by identity

    def __post_init__(self) -> None:
        object.__setattr__(self, "_linear", Linear(self.covariance))

    @property
    def name(self) -> str:
        return f"{self.embedding.name}, weighted"

    def on(self, model: nn.Module) -> AbstractContextManager[Callable[[Any], Tensor]]:
        return self.embedding.on(model)

    def kernel(self, model: nn.Module, batch: Any) -> Kernel:
        own = self.embedding.kernel(model, batch)
        if own is not None:
            raise ValueError(
                f"Weighted(embedding) needs points that are compared by inner products; those of "
                f"{self.embedding!r} are compared by {own!r}. LossGradients have them with "
                f"materialize=True."
            )
        with self.embedding.on(model) as points_of:
            self._linear.weight_covariance(points_of(batch).shape[1])
        return self._linear
