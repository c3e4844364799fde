"""Kernels of gpytorch, against ours with the same hyper-parameters."""

from copy import deepcopy

import numpy as np
import pytest
import torch

import tellmost as tm
from problems import make_case, tensor
from tellmost.kernels import Gaussian, Linear, Matern, Product, Scaled, Sum
from tellmost.testing import check_kernel

gpytorch = pytest.importorskip("gpytorch")

from gpytorch.kernels import (  # noqa: E402
    LinearKernel,
    MaternKernel,
    RBFKernel,
    ScaleKernel,
)

from tellmost.integrations.gpytorch import GPyTorchKernel  # noqa: E402

D = 4
SCALES = [0.5, 1.0, 2.0, 4.0]


def rbf(lengthscale):
    return with_lengthscale(RBFKernel(ard_num_dims=dimensions(lengthscale)), lengthscale)


def matern(nu, lengthscale):
    return with_lengthscale(MaternKernel(nu, ard_num_dims=dimensions(lengthscale)), lengthscale)


def dimensions(lengthscale):
    return None if np.ndim(lengthscale) == 0 else len(lengthscale)


def with_lengthscale(kernel, lengthscale):
    kernel = kernel.double()  # so that 1.7 is 1.7
    kernel.lengthscale = torch.tensor(lengthscale, dtype=torch.float64)
    return kernel


def scaled(kernel, factor):
    kernel = ScaleKernel(kernel).double()
    kernel.outputscale = torch.tensor(factor, dtype=torch.float64)
    return kernel


def linear(factor):
    kernel = LinearKernel().double()
    kernel.variance = torch.tensor(factor, dtype=torch.float64)
    return kernel


PAIRS = {
    "rbf": (rbf(1.7), Gaussian(1.7)),
    "rbf-per-dimension": (rbf(SCALES), Gaussian(SCALES)),
    "matern-1.5": (matern(1.5, 1.7), Matern(1.5, 1.7)),
    "matern-2.5": (matern(2.5, 1.7), Matern(2.5, 1.7)),
    "matern-per-dimension": (matern(2.5, SCALES), Matern(2.5, SCALES)),
    "scaled": (scaled(rbf(1.7), 3.0), Scaled(Gaussian(1.7), 3.0)),
    "linear": (linear(0.6), Scaled(Linear(), 0.6)),
    "sum": (rbf(1.7) + scaled(linear(1.0), 0.2), Sum(Gaussian(1.7), Scaled(Linear(), 0.2))),
    "product": (rbf(2.0) * matern(1.5, SCALES), Product(Gaussian(2.0), Matern(1.5, SCALES))),
}
POINTS = tensor(np.random.default_rng(0).standard_normal((15, D)))


@pytest.mark.parametrize(("theirs", "ours"), PAIRS.values(), ids=PAIRS)
def test_an_adapted_kernel_is_ours_with_the_same_hyper_parameters(theirs, ours):
    adapted, x, z = GPyTorchKernel(theirs), POINTS[:9], POINTS[6:]
    close = {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(adapted.block(x, z), ours.block(x, z), **close)
    np.testing.assert_allclose(adapted.block(x, x), ours.block(x, x), **close)
    np.testing.assert_allclose(adapted.column(x, z[:1]), ours.column(x, z[:1]), **close)
    np.testing.assert_allclose(adapted.diagonal(x), ours.diagonal(x), **close)


@pytest.mark.parametrize(("theirs", "ours"), PAIRS.values(), ids=PAIRS)
def test_an_adapted_kernel_keeps_the_contract(theirs, ours):
    assert check_kernel(GPyTorchKernel(theirs), POINTS) is None


def test_matern_one_half_is_ours_to_seven_digits():
    """gpytorch takes distances from inner products, so equal points are 1e-8 apart for it."""
    adapted, ours = GPyTorchKernel(matern(0.5, 1.7)), Matern(0.5, 1.7)
    np.testing.assert_allclose(
        adapted.block(POINTS, POINTS), ours.block(POINTS, POINTS), atol=2e-7
    )
    for z in POINTS.split(1):
        np.testing.assert_allclose(adapted.column(POINTS, z), ours.column(POINTS, z), atol=2e-7)


@pytest.mark.parametrize("rule", ["vtl", "itl", "uncertainty"])
@pytest.mark.parametrize("name", [*PAIRS, "matern-0.5"])
def test_a_gpytorch_kernel_given_to_select_picks_as_ours_does(name, rule):
    theirs, ours = {**PAIRS, "matern-0.5": (matern(0.5, 1.7), Matern(0.5, 1.7))}[name]
    case = make_case(11, n=30, d=D)
    arguments = {"rule": rule, "noise_std": 0.4, "observed": [3]}
    chosen = tm.select(case.pool, case.targets, 8, kernel=theirs, **arguments)
    expected = tm.select(case.pool, case.targets, 8, kernel=ours, **arguments)
    precision = 1e-5 if name == "matern-0.5" else 1e-8
    np.testing.assert_array_equal(chosen.indices, expected.indices)
    np.testing.assert_allclose(chosen.gains, expected.gains, rtol=precision)
    np.testing.assert_allclose(chosen.uncertainty, expected.uncertainty, rtol=precision)


def test_the_settings_name_the_gpytorch_kernel():
    case = make_case(0, d=D)
    chosen = tm.select(case.pool, case.targets, 2, kernel=ScaleKernel(RBFKernel()), noise_std=0.3)
    assert chosen.settings["kernel"] == "GPyTorchKernel(ScaleKernel)"
    assert chosen.settings["form"] == "function space"


def test_a_float32_kernel_stays_as_it_was():
    kernel = ScaleKernel(RBFKernel(ard_num_dims=D))
    kernel.base_kernel.lengthscale = torch.tensor(SCALES)
    before = deepcopy(kernel.state_dict())
    case = make_case(1, d=D)
    chosen = tm.select(case.pool, case.targets, 5, kernel=kernel, noise_std=0.3)
    assert kernel.training and len(chosen) == 5
    for name, values in kernel.state_dict().items():
        assert values.dtype == torch.float32
        assert torch.equal(values, before[name])
    assert all(parameter.grad is None for parameter in kernel.parameters())
    assert all(parameter.requires_grad for parameter in kernel.parameters())


def test_a_float32_kernel_is_evaluated_in_float64():
    kernel = RBFKernel()
    wide = deepcopy(kernel).double()
    adapted = GPyTorchKernel(kernel)
    expected = Gaussian(float(wide.lengthscale.detach())).block(POINTS, POINTS)
    assert adapted.block(POINTS, POINTS).dtype == adapted.diagonal(POINTS).dtype == torch.float64
    np.testing.assert_allclose(adapted.block(POINTS, POINTS), expected, rtol=1e-9)


def test_later_changes_of_the_kernel_do_not_reach_the_adapter():
    kernel = rbf(1.0)
    adapted = GPyTorchKernel(kernel)
    before = adapted.block(POINTS, POINTS)
    kernel.lengthscale = torch.tensor(5.0, dtype=torch.float64)
    assert torch.equal(adapted.block(POINTS, POINTS), before)


@pytest.mark.parametrize(
    "kernel",
    [
        RBFKernel(batch_shape=torch.Size([2])),
        ScaleKernel(RBFKernel(), batch_shape=torch.Size([3])),
    ],
)
def test_a_batch_of_kernels_is_refused(kernel):
    case = make_case(0, d=D)
    with pytest.raises(ValueError, match="a batch of gpytorch kernels is not one kernel"):
        GPyTorchKernel(kernel)
    with pytest.raises(ValueError, match=r"got batch_shape \([23],\)"):
        tm.select(case.pool, case.targets, 2, kernel=kernel)


def test_a_class_of_gpytorch_instead_of_a_kernel_is_refused():
    case = make_case(0, d=D)
    with pytest.raises(TypeError, match=r"must be an instance, such as RBFKernel\(...\)"):
        tm.select(case.pool, case.targets, 2, kernel=RBFKernel)


@pytest.mark.parametrize(("theirs", "ours"), PAIRS.values(), ids=PAIRS)
def test_gradients_reach_the_points_and_no_hyper_parameter(theirs, ours):
    adapted, z = GPyTorchKernel(theirs), POINTS[6:]
    slopes = []
    for kernel in (adapted, ours):
        x = POINTS[:5].clone().requires_grad_()
        (kernel.block(x, z).square().sum() + kernel.diagonal(x).sum()).backward()
        slopes.append(x.grad)
    np.testing.assert_allclose(*slopes, rtol=1e-8, atol=1e-12)
    assert not adapted.block(POINTS, z).requires_grad
    assert all(parameter.grad is None for parameter in theirs.parameters())
