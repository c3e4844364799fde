r"""The curvature of the loss in the final layer's weights, and the covariance that it leaves.

For outputs :math:`f = W h` the generalised Gauss-Newton matrix (for these losses it is the Fisher
information) is, with :math:`\Lambda_n` the curvature of the loss of input n in its outputs,

.. math:: H = \sum_n \Lambda_n \otimes h_n h_n^\top \approx G \otimes A, \quad
    G = \frac{1}{N} \sum_n \Lambda_n, \quad A = \sum_n h_n h_n^\top

(Martens and Grosse 2015). The product is exact if all :math:`\Lambda_n` are the same. A prior of
precision :math:`\tau` adds to the eigenvalues, without damping:
:math:`\Sigma = (H + \tau I)^{-1}`.
"""

from dataclasses import dataclass
from math import log, pi
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.finetune.embedding import rows_in_words
from tellmost.finetune.inputs import Inputs, class_numbers
from tellmost.posterior.problem import nonnegative
from tellmost.rows.checks import check_positive
from tellmost.shapes import Float, Int

FULL_LAPLACE = 5_000  # up to so many weights have a full covariance: 0.2 GB, half a minute


@dataclass(frozen=True, eq=False)
class Factored:
    """H with eigenvectors u v' of G and A, or without them: then H is diagonal."""

    values: Float[Tensor, "c d"]
    first: Float[Tensor, "c c"] | None
    second: Float[Tensor, "d d"] | None

    def variances(self, tau: float) -> Float[Tensor, "c d"]:
        return 1 / (self.values + tau)

    def turned(self, points: Float[Tensor, "n p"]) -> Float[Tensor, "n p"]:
        """The components of [residual, feature] points along the eigenvectors."""
        if self.first is None or self.second is None:
            return points
        x = points.to(self.values.dtype)
        r, h = x[:, : len(self.first)], x[:, len(self.first) :]
        return torch.cat([r @ self.first, h @ self.second], dim=1).to(points)

    def covariance(self, tau: float) -> Float[Tensor, "cd cd"]:
        """The covariance of all weights, output by output."""
        check_size(self.values.numel())
        w = self.variances(tau).flatten()
        if self.first is None or self.second is None:
            return torch.diag(w)
        directions = torch.kron(self.first.contiguous(), self.second.contiguous())
        return (directions * w) @ directions.T

    def mean_block(self, tau: float) -> Float[Tensor, "d d"]:
        """The covariance of an output's weights, on average over the outputs."""
        w = self.variances(tau).mean(dim=0)
        return torch.diag(w) if self.second is None else (self.second * w) @ self.second.T

    def output_variance(self, h: Float[Tensor, "n d"], tau: float) -> Float[Tensor, "n c"]:
        """The variance of each output for features h."""
        along = h if self.second is None else h @ self.second
        variance = along.square() @ self.variances(tau).T
        return variance if self.first is None else variance @ self.first.square().T


@dataclass(frozen=True, eq=False)
class Full:
    """H with any eigenvectors, in columns, for the weights output by output."""

    values: Float[Tensor, "c d"]
    vectors: Float[Tensor, "cd cd"]

    def covariance(self, tau: float) -> Float[Tensor, "cd cd"]:
        return (self.vectors / (self.values.flatten() + tau)) @ self.vectors.T

    def mean_block(self, tau: float) -> Float[Tensor, "d d"]:
        return torch.einsum("cdce->de", self._blocks(tau)) / len(self.values)

    def output_variance(self, h: Float[Tensor, "n d"], tau: float) -> Float[Tensor, "n c"]:
        blocks = self._blocks(tau)
        own = torch.stack([blocks[i, :, i, :] for i in range(len(blocks))])
        return torch.einsum("nd,cde,ne->nc", h, own, h)

    def _blocks(self, tau: float) -> Float[Tensor, "c d c d"]:
        return self.covariance(tau).reshape(*self.values.shape, *self.values.shape)


Curvature = Factored | Full

STRUCTURES = ("kronecker", "diagonal", "full")


def terms_of(
    structure: str, curvature: Float[Tensor, "b c c"], h: Float[Tensor, "b d"]
) -> tuple[Tensor, ...]:
    """The terms that a batch adds to the curvature. Those of all batches are summed."""
    if structure == "kronecker":
        return h.T @ h, curvature.sum(dim=0)
    if structure == "diagonal":
        return (curvature.diagonal(dim1=1, dim2=2).T @ h.square(),)
    c, d = curvature.shape[1], h.shape[1]
    check_size(c * d)
    pairs = curvature.flatten(1).T @ (h[:, :, None] * h[:, None, :]).flatten(1)
    return (pairs.reshape(c, c, d, d).permute(0, 2, 1, 3),)


def total_of(structure: str, terms: tuple[Tensor, ...], count: int) -> Curvature:
    """The curvature from the terms of all inputs."""
    if structure == "kronecker":
        a, second = torch.linalg.eigh(terms[0])
        g, first = torch.linalg.eigh(terms[1] / count)
        return Factored(nonnegative(g)[:, None] * nonnegative(a), first, second)
    if structure == "diagonal":
        return Factored(terms[0], None, None)
    c, d = terms[0].shape[:2]
    values, vectors = torch.linalg.eigh(terms[0].reshape(c * d, c * d))
    return Full(nonnegative(values).reshape(c, d), vectors)


def check_size(weights: int) -> None:
    if weights > FULL_LAPLACE:
        raise ValueError(
            f"the full covariance of {weights:,} weights is too large; up to "
            f"{FULL_LAPLACE:,} are taken. Use structure='kronecker' with LossGradients "
            f"that are not materialized, or with LastLayer."
        )


@dataclass(frozen=True, eq=False)
class SoftmaxLikelihood:
    """Classes have the probabilities p = softmax(f); the curvature is diag(p) - p p'."""

    classes: Int[np.ndarray, " n"]

    def log_likelihood(self, outputs: Float[Tensor, "b c"], start: int) -> float:
        """The log likelihood of the labels of a batch that begins at position ``start``."""
        y = self.classes[start : start + len(outputs)]
        if y.min() < 0 or y.max() >= outputs.shape[1]:
            raise ValueError(
                f"labels must be class numbers from 0 to {outputs.shape[1] - 1}, as the model has "
                f"{outputs.shape[1]} outputs; got {y.min()} to {y.max()}."
            )
        rows = torch.from_numpy(y).to(outputs.device)[:, None]
        return float(outputs.log_softmax(dim=1).gather(1, rows).sum())

    def curvature(self, outputs: Float[Tensor, "b c"]) -> Float[Tensor, "b c c"]:
        """The second derivatives of the negative log likelihood in the outputs."""
        p = outputs.softmax(dim=1)
        return torch.diag_embed(p) - p[:, :, None] * p[:, None, :]


@dataclass(frozen=True, eq=False)
class GaussianLikelihood:
    """Values have independent normal noise around f; the curvature is I / variance."""

    values: Float[np.ndarray, "n c"]
    noise_std: float

    def log_likelihood(self, outputs: Float[Tensor, "b c"], start: int) -> float:
        y = torch.from_numpy(self.values[start : start + len(outputs)]).to(outputs)
        if y.shape != outputs.shape:
            raise ValueError(
                f"labels must be (n, {outputs.shape[1]}) values, one for each of the model's "
                f"outputs; got {self.values.shape}."
            )
        variance = self.noise_std**2
        squares = float((outputs - y).square().sum()) / variance
        return -(squares + y.numel() * log(2 * pi * variance)) / 2

    def curvature(self, outputs: Float[Tensor, "b c"]) -> Float[Tensor, "b c c"]:
        eye = torch.eye(outputs.shape[1], dtype=outputs.dtype, device=outputs.device)
        return (eye / self.noise_std**2).expand(len(outputs), -1, -1)


Likelihood = SoftmaxLikelihood | GaussianLikelihood


def likelihood_of(labels: Any, inputs: Inputs, noise_std: float | None) -> Likelihood:
    """The likelihood of labels: values if there is a noise, else classes."""
    if noise_std is None:
        name = "labels without noise_std, which is for values,"
        return SoftmaxLikelihood(class_numbers(labels, len(inputs), name))
    check_positive(noise_std, "noise_std")
    y = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if len(y) != len(inputs):
        raise ValueError(f"labels must be one per input; got {len(y)} for {len(inputs)} inputs.")
    values = y.astype(np.float64).reshape(len(y), -1)
    is_wrong = torch.from_numpy(~np.isfinite(values).all(axis=1))
    if bool(is_wrong.any()):
        raise ValueError(
            f"labels must be finite values; they are not for {rows_in_words(is_wrong, inputs, 0)}."
            f" Leave these inputs out."
        )
    return GaussianLikelihood(values, noise_std)
