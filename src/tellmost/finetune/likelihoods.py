"""How likely labels are given a network's outputs, and the curvature of that in the outputs."""

from dataclasses import dataclass
from math import log, pi
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from tellmost.finetune.inputs import Inputs
from tellmost.finetune.rows import rows_in_words
from tellmost.shapes import Float, Int


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
