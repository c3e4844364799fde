"""Hyper-parameters by marginal likelihood, against botorch's and against every small change."""

import warnings
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch

import oracle
import tellmost as tm
from problems import tensor
from tellmost.kernels import Gaussian, Laplace, Linear, Matern, Precomputed, Product, Scaled, Sum

pytest.importorskip("botorch")

from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from gpytorch.constraints import Interval
from gpytorch.kernels import MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.mlls import ExactMarginalLogLikelihood

from tellmost.integrations.fitting import FITTED_VARIANCES

ANNOTATIONS_FIRST = pytest.mark.skipif(
    "config.getoption('--shapes', False)",
    reason="with shapes checked, annotations refuse bad input before the library does",
)


def data(seed: int = 0, n: int = 30):
    """A wave along the first input, a slope along the second, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (n, 2))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.standard_normal(n)


X, Y = data()


def log_likelihood(gp: tm.GP, X=X, y=Y) -> float:
    points = tensor(X)
    deviations = y - gp.mean_of(points).numpy()
    K = gp.kernel.block(points, points).numpy()
    return oracle.log_evidence(K, deviations[:, None], 1.0, gp.noise_std**2)


def changed(kernel, factor: float):
    """The kernel with each of its hyper-parameters, in turn, times a factor."""
    if isinstance(kernel, Scaled):
        yield Scaled(kernel.kernel, kernel.factor * factor)
        yield from (Scaled(inner, kernel.factor) for inner in changed(kernel.kernel, factor))
    elif isinstance(kernel, Sum | Product):
        for part in ("first", "second"):
            for inner in changed(getattr(kernel, part), factor):
                yield replace(kernel, **{part: inner})
    elif not isinstance(kernel, Linear):
        scales = np.atleast_1d(kernel.lengthscale)
        for i in range(len(scales)):
            other = scales * np.where(np.arange(len(scales)) == i, factor, 1.0)
            yield replace(kernel, lengthscale=tuple(other) if len(scales) > 1 else other[0])


# ---- it is the best


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("family", ["matern", "rbf"])
def test_the_likelihood_is_at_least_that_of_botorchs_fit(seed, family):
    X, y = data(seed)
    theirs, ours = {
        "matern": (MaternKernel(2.5, ard_num_dims=2), None),
        "rbf": (RBFKernel(ard_num_dims=2), Scaled(Gaussian([1.0, 1.0]), 1.0)),
    }[family]
    model = SingleTaskGP(
        tensor(X),
        tensor(y)[:, None],
        covar_module=ScaleKernel(theirs),
        likelihood=GaussianLikelihood(),
        outcome_transform=None,
    )
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    expected = log_likelihood(tm.GP.of(model), X, y)
    assert log_likelihood(tm.GP.fit(X, y, ours), X, y) >= expected - 1e-6


KERNELS = {
    "default": None,
    "gaussian": Gaussian(1.0),
    "laplace": Scaled(Laplace(1.0), 1.0),
    "sum": Sum(Scaled(Linear(), 1.0), Scaled(Gaussian(1.0), 1.0)),
    "product": Scaled(Product(Gaussian([1.0, 9.0]), Matern(1.5, 20.0)), 1.0),
}


@pytest.mark.parametrize("name", KERNELS)
def test_no_small_change_of_any_hyper_parameter_is_better(name):
    gp = tm.GP.fit(X, Y, KERNELS[name])
    best = log_likelihood(gp)
    assert best == pytest.approx(log_likelihood(gp), abs=1e-9)
    least_noise = np.sqrt(FITTED_VARIANCES[0]) * Y.std() * 1.02
    for factor in (0.98, 1.02):
        for kernel in changed(gp.kernel, factor):
            assert log_likelihood(replace(gp, kernel=kernel)) < best + 1e-4
        if gp.noise_std * factor > least_noise:
            assert log_likelihood(replace(gp, noise_std=gp.noise_std * factor)) < best + 1e-4
        shift = (factor - 1) * Y.std()
        assert log_likelihood(replace(gp, mean=gp.mean + shift)) < best + 1e-4


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_keeps_its_family(name):
    given = KERNELS[name] or Scaled(Matern(2.5, [1.0, 1.0]), 1.0)
    assert shape(tm.GP.fit(X, Y, KERNELS[name]).kernel) == shape(given)


def shape(kernel):
    parts = [getattr(kernel, part, None) for part in ("kernel", "first", "second")]
    return type(kernel), [shape(part) for part in parts if part is not None]


def test_what_generated_the_data_is_found():
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 10, (150, 1))
    prior = tm.GP(Scaled(Gaussian(1.5), 4.0), mean=20.0, noise_std=0.3)
    K = prior.kernel.block(tensor(X), tensor(X)).numpy() + 0.09 * np.eye(150)
    y = 20.0 + np.linalg.cholesky(K) @ rng.standard_normal(150)
    gp = tm.GP.fit(X, y, Scaled(Gaussian(1.0), 1.0))
    assert gp.noise_std == pytest.approx(0.3, rel=0.2)
    assert gp.kernel.kernel.lengthscale == pytest.approx(1.5, rel=0.3)
    assert gp.mean == pytest.approx(20.0, abs=3.0)
    assert log_likelihood(gp, X, y) >= log_likelihood(prior, X, y)


def test_an_input_that_does_not_matter_gets_a_long_lengthscale():
    gp = tm.GP.fit(X, np.sin(X[:, 0]))
    wave, other = gp.kernel.kernel.lengthscale
    assert wave < 20 and other > 100


# ---- units, and the same again


@pytest.mark.parametrize("factor", [1e-7, 1e6])
def test_units_do_not_matter(factor):
    scales = np.array([factor, 1.0 / factor])
    first = tm.GP.fit(X, Y)
    other = tm.GP.fit(X * scales, factor * Y - 3 * factor)
    assert other.noise_std == pytest.approx(factor * first.noise_std, rel=1e-3)
    assert other.mean == pytest.approx(factor * (first.mean - 3), rel=1e-2)
    lengthscales = np.array(first.kernel.kernel.lengthscale) * scales
    np.testing.assert_allclose(other.kernel.kernel.lengthscale, lengthscales, rtol=1e-2)
    same = log_likelihood(other, X * scales, factor * Y - 3 * factor) + len(Y) * np.log(factor)
    assert same == pytest.approx(log_likelihood(first), abs=1e-6)


def test_the_same_data_give_the_same_prior():
    assert repr(tm.GP.fit(X, Y)) == repr(tm.GP.fit(tensor(X), Y.tolist()))


@pytest.mark.parametrize("dtype", [np.float32, int])
def test_data_of_other_types_are_fitted_in_float64(dtype):
    whole = np.round(X * 10).astype(dtype), np.round(Y * 10).astype(dtype)
    expected = tm.GP.fit(whole[0].astype(float), whole[1].astype(float))
    assert repr(tm.GP.fit(*whole)) == repr(expected)


def test_gradients_of_data_are_left_alone():
    x, y = tensor(X).requires_grad_(), tensor(Y).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "GP.fit: the data say little")
        gp = tm.GP.fit(x, y)
    assert repr(gp) == repr(tm.GP.fit(X, Y)) and x.grad is None


# ---- what is given stays


def test_noise_and_mean_stay_as_they_are_given():
    def mean(x):
        return 0.3 * x[:, 1]

    gp = tm.GP.fit(X, Y, noise_std=0.25, mean=mean)
    assert gp.noise_std == 0.25 and gp.mean is mean
    assert tm.GP.fit(X, Y, mean=1.5).mean == 1.5
    assert log_likelihood(gp) <= log_likelihood(tm.GP.fit(X, Y, mean=mean)) + 1e-6


def test_with_nothing_to_fit_the_prior_is_the_one_given():
    gp = tm.GP.fit(X, Y, Linear(), noise_std=0.5, mean=1.0)
    assert repr(gp) == repr(tm.GP(Linear(), noise_std=0.5, mean=1.0))


def test_a_gpytorch_kernel_keeps_its_constraints_and_is_not_changed():
    kernel = ScaleKernel(RBFKernel(lengthscale_constraint=Interval(0.1, 0.5)))
    before = deepcopy(kernel.state_dict())
    gp = tm.GP.fit(X, Y, kernel)
    assert gp.kernel.kernel.lengthscale == pytest.approx(0.5, rel=1e-2)
    assert all(torch.equal(values, before[name]) for name, values in kernel.state_dict().items())


@pytest.mark.filterwarnings("ignore:GP.fit ended")  # the likelihood of a period has many optima
def test_a_gpytorch_kernel_that_is_none_of_ours_is_fitted_as_it_is():
    periodic = ScaleKernel(PeriodicKernel()).double()
    gp = tm.GP.fit(X, Y, periodic)
    start = tm.GP(periodic, mean=gp.mean, noise_std=gp.noise_std)
    assert repr(gp.kernel) == "GPyTorchKernel(ScaleKernel)"
    assert log_likelihood(gp) > log_likelihood(start)


# ---- errors and warnings


@ANNOTATIONS_FIRST
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": X[:3], "y": Y[:3]}, "at least 4 observations; got 3"),
        ({"y": np.ones(30)}, "y is 1 everywhere"),
        ({"y": Y[:, None]}, r"one entry per row of X, \(30,\); got \(30, 1\)"),
        ({"y": np.where(Y > 2, np.nan, Y)}, "y must be finite"),
        ({"X": X[:, 0]}, "X must have two dimensions"),
        ({"X": np.full((30, 2), np.inf)}, "X must be finite"),
        ({"y": Y * 1e160}, "y must have a variance that float64 can hold"),
        ({"y": Y * 1e-160}, "Measure y in another unit"),
        ({"mean": lambda x: tensor(Y)}, "drop a mean that equals y"),
        ({"kernel": Gaussian}, "an instance, such as Gaussian"),
        ({"kernel": Gaussian([1.0, 2.0, 3.0])}, "got 3 for 2 dimensions"),
        ({"kernel": Matern(3.5)}, "nu 0.5, 1.5 or 2.5 to be fitted"),
        ({"kernel": Precomputed(np.eye(30))}, "no hyper-parameters to fit"),
        ({"kernel": RBFKernel(batch_shape=torch.Size([2]))}, "a batch of gpytorch kernels"),
        ({"noise_std": 0.0}, "noise_std must be a positive"),
        ({"noise_std": [0.1] * 30}, "one number"),
    ],
)
def test_what_cannot_be_fitted_says_why(arguments, message):
    given = {"X": X, "y": Y, **arguments}
    with pytest.raises((ValueError, TypeError), match=message):
        tm.GP.fit(given.pop("X"), given.pop("y"), given.pop("kernel", None), **given)


def test_noise_below_the_rounding_of_repeated_points_is_named():
    repeated = np.repeat(X[:10], 3, axis=0)
    with pytest.raises(ValueError, match="no prior under which the likelihood of y is a number"):
        tm.GP.fit(repeated, Y, Scaled(Gaussian(5.0), 1e4), noise_std=1e-9)


def test_a_search_that_was_cut_short_is_told(monkeypatch):
    monkeypatch.setattr("tellmost.integrations.fitting.FIT_STEPS", 1)
    with pytest.warns(UserWarning, match="ended before it found an optimum"):
        tm.GP.fit(X, Y)
