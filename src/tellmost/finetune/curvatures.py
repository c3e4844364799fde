r"""The curvature of the loss in the final layer's weights, and the covariance that it leaves.

For outputs :math:`f = W h` the generalised Gauss-Newton matrix (for these losses the Fisher
information) is, with :math:`\Lambda_n` the curvature of the loss of input n in its outputs,

.. math:: H = \sum_n \Lambda_n \otimes h_n h_n^\top \approx G \otimes A, \quad
    G = \frac{1}{N} \sum_n \Lambda_n, \quad A = \sum_n h_n h_n^\top

(Martens and Grosse 2015), exact if all :math:`\Lambda_n` are the same. A prior of precision
:math:`\tau` adds to its eigenvalues: :math:`\Sigma = (H + \tau I)^{-1}`, with no damping.

How likely labels are given a network's outputs, and the curvature of that in the outputs.
"""

from dataclasses import dataclass
from math import log, pi
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.finetune.embedding import rows_in_words
from tellmost.finetune.inputs import Inputs
from tellmost.kernels import Kronecker
from tellmost.shapes import Float, Int

FULL_LAPLACE = 5_000
"""Weights of a last layer up to which their full covariance is made: 0.2 GB, half a minute."""


@runtime_checkable
class Curvature(Protocol):
    """H by its eigenvalues, and what becomes of it under a prior of precision tau."""

    @property
    def values(self) -> Float[Tensor, "c d"]: ...

    def covariance(self, tau: float) -> Float[Tensor, "cd cd"]:
        """Of all weights, output by output."""

    def mean_block(self, tau: float) -> Float[Tensor, "d d"]:
        """Covariance of the weights of an output, on average over outputs."""

    def output_variance(self, h: Float[Tensor, "n d"], tau: float) -> Float[Tensor, "n c"]:
        """Variance of each output."""


@dataclass(frozen=True, eq=False)
class Factored:
    """Eigenvectors are products u v' of those of two factors; None, None: single weights."""

    values: Float[Tensor, "c d"]
    first: Float[Tensor, "c c"] | None
    second: Float[Tensor, "d d"] | None

    def variances(self, tau: float) -> Float[Tensor, "c d"]:
        return 1 / (self.values + tau)

    def kernel(self, tau: float) -> Kronecker:
        """Compares [residual, feature] points."""
        return Kronecker(self.variances(tau), self.first, self.second)

    def turned(self, points: Float[Tensor, "n p"]) -> Float[Tensor, "n p"]:
        """[residual, feature] points by their components along the eigenvectors."""
        if self.first is None or self.second is None:
            return points
        x = points.to(self.values.dtype)
        r, h = x[:, : len(self.first)], x[:, len(self.first) :]
        return torch.cat([r @ self.first, h @ self.second], dim=1).to(points)

    def covariance(self, tau: float) -> Float[Tensor, "cd cd"]:
        check_size(self.values.numel())
        w = self.variances(tau).flatten()
        if self.first is None or self.second is None:
            return torch.diag(w)
        directions = torch.kron(self.first.contiguous(), self.second.contiguous())
        return (directions * w) @ directions.T

    def mean_block(self, tau: float) -> Float[Tensor, "d d"]:
        w = self.variances(tau).mean(dim=0)
        return torch.diag(w) if self.second is None else (self.second * w) @ self.second.T

    def output_variance(self, h: Float[Tensor, "n d"], tau: float) -> Float[Tensor, "n c"]:
        along = h if self.second is None else h @ self.second
        variance = along.square() @ self.variances(tau).T
        return variance if self.first is None else variance @ self.first.square().T


@dataclass(frozen=True, eq=False)
class Full:
    """Any eigenvectors, in columns, for the weights output by output."""

    values: Float[Tensor, "c d"]
    vectors: Float[Tensor, "cd cd"]

    def covariance(self, tau: float) -> Float[Tensor, "cd cd"]:
        return (self.vectors / (self.values.flatten() + tau)) @ self.vectors.T

    def mean_block(self, tau: float) -> Float[Tensor, "d d"]:
        c, d = self.values.shape
        blocks = self.covariance(tau).reshape(c, d, c, d)
        return torch.einsum("cdce->de", blocks) / c

    def output_variance(self, h: Float[Tensor, "n d"], tau: float) -> Float[Tensor, "n c"]:
        c, d = self.values.shape
        blocks = self.covariance(tau).reshape(c, d, c, d)
        own = torch.stack([blocks[i, :, i, :] for i in range(c)])
        return torch.einsum("nd,cde,ne->nc", h, own, h)


@runtime_checkable
class Tally(Protocol):
    """Adds up the curvature, batch by batch."""

    def add(self, curvature: Float[Tensor, "b c c"], h: Float[Tensor, "b d"]) -> None:
        """What the inputs of a batch add, with the curvature of their loss in their outputs."""

    def total(self) -> Curvature:
        """The eigenvalues and eigenvectors of the sum."""


class KroneckerTally:
    """Adds up A and G."""

    def __init__(self) -> None:
        self._A: Tensor | float = 0.0
        self._G: Tensor | float = 0.0
        self._count = 0

    def add(self, curvature: Float[Tensor, "b c c"], h: Float[Tensor, "b d"]) -> None:
        self._A = self._A + h.T @ h
        self._G = self._G + curvature.sum(dim=0)
        self._count += len(h)

    def total(self) -> Factored:
        a, second = torch.linalg.eigh(torch.as_tensor(self._A))
        g, first = torch.linalg.eigh(torch.as_tensor(self._G) / self._count)
        values = numerics.nonnegative(g)[:, None] * numerics.nonnegative(a)
        return Factored(values, first, second)


class DiagonalTally:
    """Adds up the diagonal of H."""

    def __init__(self) -> None:
        self._diagonal: Tensor | float = 0.0

    def add(self, curvature: Float[Tensor, "b c c"], h: Float[Tensor, "b d"]) -> None:
        self._diagonal = self._diagonal + curvature.diagonal(dim1=1, dim2=2).T @ h.square()

    def total(self) -> Factored:
        return Factored(torch.as_tensor(self._diagonal), None, None)


class FullTally:
    """Adds up H."""

    def __init__(self) -> None:
        self._H: Tensor | float = 0.0
        self._shape = (0, 0)

    def add(self, curvature: Float[Tensor, "b c c"], h: Float[Tensor, "b d"]) -> None:
        c, d = self._shape = curvature.shape[1], h.shape[1]
        check_size(c * d)
        pairs = curvature.flatten(1).T @ (h[:, :, None] * h[:, None, :]).flatten(1)
        self._H = self._H + pairs.reshape(c, c, d, d).permute(0, 2, 1, 3).reshape(c * d, c * d)

    def total(self) -> Full:
        values, vectors = torch.linalg.eigh(torch.as_tensor(self._H))
        return Full(numerics.nonnegative(values).reshape(self._shape), vectors)


def check_size(weights: int) -> None:
    if weights > FULL_LAPLACE:
        raise ValueError(
            f"the full covariance of {weights:,} weights is too large; up to "
            f"{FULL_LAPLACE:,} are taken. Use structure='kronecker' with LossGradients "
            f"that are not materialized, or with LastLayer."
        )


TALLIES: dict[str, type[Tally]] = {
    "kronecker": KroneckerTally,
    "diagonal": DiagonalTally,
    "full": FullTally,
}


@runtime_checkable
class Likelihood(Protocol):
    """Of the labels of all inputs, asked batch by batch."""

    def log_likelihood(self, outputs: Float[Tensor, "b c"], start: int) -> float:
        """Of the labels from ``start`` on, added up."""

    def curvature(self, outputs: Float[Tensor, "b c"]) -> Float[Tensor, "b c c"]:
        """Second derivatives of the negative log likelihood in the outputs."""


@dataclass(frozen=True, eq=False)
class Softmax:
    """Classes with probabilities softmax(f); the curvature is diag(p) - p p'."""

    classes: Int[np.ndarray, " n"]

    def log_likelihood(self, outputs: Float[Tensor, "b c"], start: int) -> float:
        y = self.classes[start : start + len(outputs)]
        if y.min() < 0 or y.max() >= outputs.shape[1]:
            raise ValueError(
                f"labels must be class numbers from 0 to {outputs.shape[1] - 1}, as the model has "
                f"{outputs.shape[1]} outputs; got {y.min()} to {y.max()}."
            )
        rows = torch.from_numpy(y).to(outputs.device)[:, None]
        return float(outputs.log_softmax(dim=1).gather(1, rows).sum())

    def curvature(self, outputs: Float[Tensor, "b c"]) -> Float[Tensor, "b c c"]:
        p = outputs.softmax(dim=1)
        return torch.diag_embed(p) - p[:, :, None] * p[:, None, :]


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Values with independent normal noise around f; the curvature is I / variance."""

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


def likelihood_of(labels: Any, inputs: Inputs, noise_std: float | None) -> Likelihood:
    """Classes, or values where there is a noise; one label for each input."""
    y = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if len(y) != len(inputs):
        raise ValueError(f"labels must be one per input; got {len(y)} for {len(inputs)} inputs.")
    if noise_std is None:
        if y.ndim != 1 or y.dtype.kind not in "iu":
            raise ValueError(
                f"labels must be (n,) class numbers, integers; got {y.dtype} of shape {y.shape}. "
                f"For values give noise_std=."
            )
        return Softmax(y.astype(np.int64))
    if not 0 < noise_std < np.inf:
        raise ValueError(f"noise_std must be a positive number; got {noise_std}.")
    values = y.astype(np.float64).reshape(len(y), -1)
    is_wrong = torch.from_numpy(~np.isfinite(values).all(axis=1))
    if bool(is_wrong.any()):
        raise ValueError(
            f"labels must be finite values; they are not for {rows_in_words(is_wrong, inputs, 0)}."
            f" Leave these inputs out."
        )
    return Gaussian(values, noise_std)
