"""Gradients, curvatures and posteriors of small networks, one number after the other."""

import numpy as np
import torch
from torch import Tensor, nn


def backward_loop(model: nn.Module, inputs: Tensor, names: list[str]) -> Tensor:
    """(n, c P): the derivatives of every output by plain backward passes."""
    model.eval()
    rows = []
    for x in inputs:
        parts = []
        for c in range(model(x[None]).shape[1]):
            model.zero_grad()
            model(x[None])[0, c].backward()
            grads = dict(model.named_parameters())
            parts += [grads[name].grad.flatten().clone() for name in names]
        rows.append(torch.cat(parts))
    return torch.stack(rows)


def loss_gradients(model: nn.Module, layer: nn.Linear, inputs: Tensor) -> Tensor:
    """(n, c d): the derivatives of cross entropy with the expected label in [W, b]."""
    model.eval()
    rows = []
    for x in inputs:
        model.zero_grad()
        f = model(x[None])
        nn.functional.cross_entropy(f, f.argmax(dim=1)).backward()
        parts = [layer.weight.grad.clone()]
        if layer.bias is not None:
            parts.append(layer.bias.grad[:, None].clone())
        rows.append(torch.cat(parts, dim=1).flatten())
    return torch.stack(rows)


def curvature_of_softmax(outputs: Tensor) -> Tensor:
    """The Hessian of cross entropy in the outputs, by autograd, the same for every label."""
    y = torch.tensor([0])
    return torch.autograd.functional.hessian(
        lambda f: nn.functional.cross_entropy(f[None], y), outputs
    )


def gauss_newton(features: Tensor, curvatures: list[Tensor]) -> Tensor:
    """sum_n J_n' Lambda_n J_n with J_n = I (x) h_n, over weights output by output."""
    c, d = len(curvatures[0]), features.shape[1]
    H = torch.zeros(c * d, c * d, dtype=torch.float64)
    for h, curvature in zip(features, curvatures, strict=True):
        J = torch.kron(torch.eye(c, dtype=torch.float64), h[None])
        H += J.T @ curvature @ J
    return H


def log_evidence(H: Tensor, weights: Tensor, log_likelihood: float, tau: float) -> float:
    """By determinants."""
    theta = weights.flatten()
    prior = -tau / 2 * float(theta @ theta) + len(theta) / 2 * np.log(tau)
    posterior = torch.logdet(H + tau * torch.eye(len(H), dtype=torch.float64))
    return log_likelihood + prior - float(posterior) / 2


def gaussian_evidence(rows: Tensor, values: Tensor, noise_std: float, tau: float) -> float:
    """log N(y; 0, X X' / tau + noise^2 I), added up over outputs."""
    K = rows @ rows.T / tau + noise_std**2 * torch.eye(len(rows), dtype=torch.float64)
    normal = torch.distributions.MultivariateNormal(torch.zeros(len(rows), dtype=K.dtype), K)
    return float(normal.log_prob(values.T).sum())
