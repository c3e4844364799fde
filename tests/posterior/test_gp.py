"""Priors written down: their values, how they are printed, what they refuse."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import tellmost as tm
from problems import tensor
from tellmost.kernels import Gaussian, Laplace, Linear, Matern, Product, Scaled, Sum
from tellmost.posterior.function_space import pivoted_cholesky
from tellmost.posterior.gp import as_gp, root_of_covariance

ANNOTATIONS_FIRST = pytest.mark.skipif(
    "config.getoption('--shapes', False)",
    reason="with shapes checked, annotations refuse bad input before the library does",
)

POINTS = tensor(np.random.default_rng(0).uniform(-1, 1, (6, 2)))


def slope(x):
    return 2.0 + 0.5 * x[:, 0]


# ---- values


def test_a_constant_mean_is_the_same_at_every_point():
    values = tm.GP(Gaussian(), mean=1.5).mean_of(POINTS)
    assert values.dtype == torch.float64 and values.tolist() == [1.5] * 6


@pytest.mark.parametrize(
    "mean",
    [slope, lambda x: slope(x).numpy(), lambda x: slope(x).tolist(), lambda x: slope(x).float()],
    ids=["tensor", "numpy", "list", "float32"],
)
def test_a_mean_may_be_a_function_whatever_it_returns(mean):
    values = tm.GP(Gaussian(), mean=mean).mean_of(POINTS)
    assert values.dtype == torch.float64
    np.testing.assert_allclose(values, slope(POINTS), rtol=1e-6)


def test_a_learner_predicts_the_prior_before_it_is_told_anything():
    gp = tm.GP(Scaled(Gaussian(0.5), 4.0), mean=slope, noise_std=0.3)
    mean, std = tm.ActiveLearner(gp, pool=POINTS, targets=POINTS[:2]).predict()
    np.testing.assert_allclose(mean, slope(POINTS))
    np.testing.assert_allclose(std, np.full(6, 2.0))


def test_a_prior_is_a_value_that_can_be_changed_in_a_copy():
    gp = tm.GP(Gaussian(), noise_std=0.3)
    quieter = replace(gp, noise_std=0.1)
    assert (gp.noise_std, quieter.noise_std) == (0.3, 0.1)
    assert quieter.kernel is gp.kernel
    with pytest.raises(AttributeError):
        gp.noise_std = 0.2


@ANNOTATIONS_FIRST
def test_numbers_of_numpy_and_torch_become_numbers():
    gp = tm.GP(Gaussian(), mean=np.float32(0.5), noise_std=torch.tensor(0.25))
    assert type(gp.mean) is float and type(gp.noise_std) is float
    assert (gp.mean, gp.noise_std) == (0.5, 0.25)


def test_a_prior_given_as_such_stays_as_it_is():
    gp = tm.GP(Gaussian())
    assert as_gp(gp) is gp


# ---- words

PRINTED = {
    "GP: Gaussian with lengthscale 1; mean 0; noise standard deviation 0.1": tm.GP(Gaussian()),
    "GP: Matern-5/2 with lengthscales 0.3, 2 times 1.5; mean 20; noise standard deviation 0.333": (
        tm.GP(Scaled(Matern(2.5, [0.3, 2.0]), 1.5), mean=20, noise_std=0.333)
    ),
    "GP: linear + Laplace with lengthscale 10; mean slope(x); noise standard deviation 0.1": (
        tm.GP(Sum(Linear(), Laplace(10.0)), mean=slope)
    ),
    "GP: (linear + Gaussian with lengthscale 2) x linear; mean 0; noise standard deviation 0.1": (
        tm.GP(Product(Sum(Linear(), Gaussian(2.0)), Linear()))
    ),
    "GP: (linear + linear) times 2; mean 0; noise standard deviation 0.1": (
        tm.GP(Scaled(Sum(Linear(), Linear()), 2.0))
    ),
}


@pytest.mark.parametrize("text", PRINTED)
def test_a_prior_is_printed_in_words(text):
    assert str(PRINTED[text]) == text


def test_all_digits_are_in_the_representation():
    gp = tm.GP(Gaussian(1 / 3), mean=2 / 3, noise_std=1 / 7)
    for value in (1 / 3, 2 / 3, 1 / 7):
        assert repr(value) in repr(gp)


def test_a_gpytorch_kernel_is_printed_with_its_hyper_parameters():
    kernels = pytest.importorskip("gpytorch.kernels")
    kernel = kernels.PeriodicKernel().double()
    kernel.lengthscale, kernel.period_length = torch.tensor([0.5, 1 / 3], dtype=torch.float64)
    gp = tm.GP(kernel)
    assert "GPyTorchKernel(PeriodicKernel) with lengthscale 0.5; period_length 0.3333" in str(gp)
    assert "period_length 0.33333333333333" in repr(gp)


# ---- errors


@ANNOTATIONS_FIRST
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"kernel": None}, TypeError, "must be a kernel, such as"),
        ({"kernel": Gaussian}, TypeError, "an instance, such as Gaussian"),
        ({"kernel": "rbf"}, TypeError, "must come from tm.kernels.*got 'rbf'"),
        ({"mean": "zero"}, TypeError, "mean, where it is no function.*got 'zero'"),
        ({"mean": True}, TypeError, "mean, .* must be a number.*got True"),
        ({"mean": np.zeros(3)}, TypeError, "mean, .* must be a number.*got ndarray"),
        ({"mean": torch.zeros(3)}, TypeError, r"got float32 of shape \(3,\)"),
        ({"mean": float("nan")}, ValueError, "mean, .* must be a finite number; got nan"),
        ({"mean": Gaussian}, TypeError, "got the class Gaussian"),
        ({"noise_std": 0.0}, ValueError, "noise_std must be a positive finite number; got 0"),
        ({"noise_std": -1}, ValueError, "got -1"),
        ({"noise_std": None}, TypeError, "noise_std must be a number; got NoneType"),
        ({"noise_std": [0.1, 0.2]}, TypeError, r"one number; got shape \(2,\)"),
        ({"noise_std": 1e-200}, ValueError, "that float64 can hold; got 1e-200"),
        ({"noise_std": 1e200}, ValueError, "Measure y in another unit"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_prior_that_cannot_be_says_why(arguments, error, message):
    kernel = arguments.get("kernel", Gaussian())
    rest = {name: value for name, value in arguments.items() if name != "kernel"}
    with pytest.raises(error, match=message):
        tm.GP(kernel, **rest)


@pytest.mark.parametrize(
    ("mean", "message"),
    [
        (lambda x: x, r"a value per point, \(6,\) for \(6, 2\) points; got \(6, 2\)"),
        (lambda x: x[:, :1], "Drop or sum the last dimension"),
        (lambda x: x[:, 0] / 0, "mean\\(X\\) must be finite; entry 0"),
    ],
    ids=["matrix", "column", "infinite"],
)
def test_a_mean_of_the_wrong_kind_is_named_where_it_is_asked(mean, message):
    with pytest.raises(ValueError, match=message):
        tm.GP(Gaussian(), mean=mean).mean_of(POINTS)


@pytest.mark.parametrize(
    ("prior", "arguments", "message"),
    [
        (Gaussian(), {}, "noise_std must be given with a kernel"),
        (tm.GP(Gaussian()), {"noise_std": 0.2}, "belong to the GP that was given"),
        (tm.GP(Gaussian()), {"mean": 1.0}, "belong to the GP that was given"),
        (torch.nn.Linear(2, 1), {"mean": 1.0}, "mean belongs to the model"),
    ],
)
def test_noise_and_mean_are_said_once(prior, arguments, message):
    with pytest.raises(ValueError, match=message):
        as_gp(prior, **arguments)


@pytest.mark.parametrize(("name", "missing"), [("fit", "gpytorch"), ("of", "botorch")])
def test_without_the_extra_the_error_names_it(name, missing, monkeypatch):
    for module in list(sys.modules):
        if module.split(".")[0] == missing or module.startswith("tellmost.integrations."):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, missing, None)
    call = {"fit": lambda: tm.GP.fit(POINTS, POINTS[:, 0]), "of": lambda: tm.GP.of(None)}[name]
    with pytest.raises(ImportError, match=rf"GP.{name} needs .*pip install 'tellmost\[bo\]'"):
        call()


# ---- roots of covariances


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_smooth_functions_are_drawn_with_their_covariance_in_any_unit(unit):
    line = torch.linspace(0, 4, 60, dtype=torch.float64)[:, None]
    covariance = unit * Gaussian(1.0).block(line, line)
    root = root_of_covariance(covariance, covariance.diagonal())
    assert root.shape[1] < 40  # the factor with pivots
    torch.testing.assert_close(root @ root.T, covariance, rtol=0, atol=1e-10 * unit)


def test_where_nothing_is_uncertain_a_factor_has_no_rows():
    nothing = torch.zeros(3, dtype=torch.float64)
    factor, is_complete = pivoted_cholesky(nothing, lambda pivot: nothing, nothing, 3)
    assert factor.shape == (0, 3) and is_complete
