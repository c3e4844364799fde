"""Gradients of every kernel with respect to the points, against finite differences."""

import pytest
import torch
from torch.autograd import gradcheck

from tellmost.kernels import (
    Constant,
    FeatureMap,
    Gaussian,
    Laplace,
    Linear,
    Matern,
    Product,
    Scaled,
    Sum,
)

ROOT = torch.tensor([[1.0, 0.2], [-0.4, 0.7]], dtype=torch.float64)
KERNELS = {
    "gaussian": Gaussian(0.6),
    "gaussian-per-dimension": Gaussian([0.5, 1.5]),
    "laplace": Laplace(0.6),
    **{f"matern-{nu}": Matern(nu, 0.6) for nu in (0.5, 1.5, 2.5, 3.5)},
    "matern-per-dimension": Matern(2.5, [0.5, 1.5]),
    "linear": Linear(),
    "linear-with-a-covariance": Linear(ROOT @ ROOT.T),
    "feature-map": FeatureMap(lambda x: torch.stack([x.sin()[:, 0], x[:, 0] * x[:, 1]], dim=1)),
    "scaled": Scaled(Matern(1.5, 0.6), 3.0),
    "sum": Sum(Gaussian(0.6), Scaled(Linear(), 0.5)),
    "sum-with-a-constant": Sum(Matern(2.5, 0.6), Constant()),
    "product": Product(Linear(), Laplace(0.6)),
}
DISTANCES = {
    name: KERNELS[name]
    for name in KERNELS
    if name.split("-")[0] in ("gaussian", "laplace", "matern")
}


def points(n: int, seed: int) -> torch.Tensor:
    made = torch.rand(n, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return made.requires_grad_()


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_gradients_of_a_kernel_are_those_of_its_values(kernel):
    x, z = points(4, 0), points(3, 1)
    assert gradcheck(kernel.block, (x, z))
    assert gradcheck(kernel.column, (x, points(1, 2)))
    assert gradcheck(kernel.diagonal, (x,))


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_a_gradient_changes_no_value(kernel):
    x, z = points(40, 0), points(30, 1)
    assert torch.equal(kernel.block(x, z), kernel.block(x.detach(), z.detach()))
    assert torch.equal(kernel.column(x, z[:1]), kernel.column(x.detach(), z[:1].detach()))
    assert torch.equal(kernel.diagonal(x), kernel.diagonal(x.detach()))


@pytest.mark.parametrize("kernel", DISTANCES.values(), ids=DISTANCES)
def test_a_point_has_no_gradient_where_it_coincides(kernel):
    """The kernel is largest there; where it has a kink, 0 lies between its two slopes."""
    x = points(5, 0)
    kernel.block(x, x.detach()).diagonal().sum().backward()
    assert torch.equal(x.grad, torch.zeros_like(x))


@pytest.mark.parametrize("kernel", DISTANCES.values(), ids=DISTANCES)
def test_gradients_among_coinciding_points_are_those_of_the_others(kernel):
    x, z = points(5, 0), points(5, 1).detach()
    kernel.block(x, torch.cat([z, x.detach()[:1]]))[0].sum().backward()
    beside = x.detach().clone().requires_grad_()
    kernel.block(beside, z)[0].sum().backward()
    torch.testing.assert_close(x.grad, beside.grad, rtol=1e-12, atol=0.0)


def test_the_network_behind_a_feature_map_gets_no_gradient():
    network = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    network.double()
    kernel, x, z = FeatureMap(network), points(4, 0), points(3, 1)
    assert gradcheck(kernel.block, (x, z))
    kernel.block(x, z).sum().backward()
    assert x.grad is not None and bool((x.grad != 0).any())
    assert all(parameter.grad is None for parameter in network.parameters())
    assert not kernel.block(x.detach(), z.detach()).requires_grad


def test_a_float32_network_passes_its_gradient_on_in_float64():
    network = torch.nn.Linear(2, 3)
    x = points(4, 0)
    FeatureMap(lambda x: network(x.float())).diagonal(x).sum().backward()
    W, b = (parameter.detach().double() for parameter in network.parameters())
    expected = 2 * (x.detach() @ W.T + b) @ W
    assert x.grad.dtype == torch.float64
    torch.testing.assert_close(x.grad, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.detach().sin(),
        torch.no_grad()(torch.sin),
        lambda x: torch.nn.Linear(2, 2).double()(x.detach()),
    ],
    ids=["detached", "no-grad", "network-of-detached-points"],
)
def test_a_feature_map_that_cuts_the_gradient_says_so(fn):
    x = points(4, 0)
    K = FeatureMap(fn).block(x, x.detach())
    with pytest.raises(ValueError, match="fn must be differentiable where a gain is refined"):
        K.sum().backward()
