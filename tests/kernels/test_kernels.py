"""Every kernel against its formula, written out pair by pair."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from problems import seeds, tensor
from tellmost.kernels import (
    Constant,
    FeatureMap,
    Gaussian,
    Laplace,
    Linear,
    Matern,
    Precomputed,
    Product,
    Scaled,
    Sum,
)
from tellmost.kernels.linear import feature_form, matrix_size

STATIONARY = {
    "gaussian": (Gaussian, oracle.gaussian),
    "laplace": (Laplace, oracle.laplace),
    **{
        f"matern-{nu}": (
            lambda lengthscale, nu=nu: Matern(nu, lengthscale),
            lambda x, z, lengthscale, nu=nu: oracle.matern(x, z, nu, lengthscale),
        )
        for nu in (0.5, 1.5, 2.5)
    },
}


def draw(seed: int, d: int = 3) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((6, d)), rng.standard_normal((4, d)), rng


def check_against_formula(kernel, formula, X: np.ndarray, Z: np.ndarray) -> None:
    """All three methods, on different and on equal points."""
    x, z = tensor(X), tensor(Z)
    both = np.concatenate([X, Z])
    K = oracle.matrix(formula, both, both)
    n, scale = len(X), 1e-14 * np.abs(K).max()
    close = {"rtol": 1e-12, "atol": scale}
    np.testing.assert_allclose(kernel.block(x, z), K[:n, n:], **close)
    np.testing.assert_allclose(kernel.block(tensor(both), tensor(both)), K, **close)
    np.testing.assert_allclose(kernel.diagonal(tensor(both)), np.diag(K), **close)
    for j in range(len(Z)):
        np.testing.assert_allclose(kernel.column(x, z[j : j + 1]), K[:n, n + j], **close)


@pytest.mark.parametrize("name", STATIONARY)
@given(seed=seeds, d=st.sampled_from([1, 3, 8]), per_dimension=st.booleans())
@settings(max_examples=15, deadline=None)
def test_kernels_of_a_distance_are_their_formulas(name, seed, d, per_dimension):
    X, Z, rng = draw(seed, d)
    lengthscale = rng.uniform(0.3, 3.0, size=d) if per_dimension else float(rng.uniform(0.3, 3.0))
    ours, formula = STATIONARY[name]
    check_against_formula(ours(lengthscale), lambda x, z: formula(x, z, lengthscale), X, Z)


@pytest.mark.parametrize("lengthscale", [[0.5, 2.0, 1.0], (0.5, 2.0, 1.0), "tensor", "float32"])
def test_a_lengthscale_per_dimension_may_be_a_sequence_or_a_tensor(lengthscale):
    X, Z, _ = draw(0)
    kinds = {
        "tensor": torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64),
        "float32": torch.tensor([0.5, 2.0, 1.0]),
    }
    given_scale = kinds[lengthscale] if isinstance(lengthscale, str) else lengthscale
    known = np.array([0.5, 2.0, 1.0])
    check_against_formula(Gaussian(given_scale), lambda x, z: oracle.gaussian(x, z, known), X, Z)


@given(seed=seeds)
@settings(max_examples=15, deadline=None)
def test_linear_kernels_are_inner_products(seed):
    X, Z, rng = draw(seed)
    root = rng.standard_normal((3, 3))
    C = root @ root.T
    check_against_formula(Linear(), oracle.linear, X, Z)
    check_against_formula(Linear(tensor(C)), lambda x, z: oracle.linear(x, z, C), X, Z)


@given(seed=seeds)
@settings(max_examples=15, deadline=None)
def test_a_feature_map_is_the_inner_product_of_its_features(seed):
    X, Z, _ = draw(seed)
    kernel = FeatureMap(lambda x: torch.stack([x[:, 0], x[:, 1] * x[:, 2], x[:, 0].exp()], dim=1))

    def formula(x, z):
        return x[0] * z[0] + x[1] * x[2] * z[1] * z[2] + np.exp(x[0]) * np.exp(z[0])

    check_against_formula(kernel, formula, X, Z)


def test_features_of_a_float32_network_without_gradients_come_as_float64():
    network = torch.nn.Linear(3, 5)
    phi = FeatureMap(lambda x: network(x.float())).features(tensor(draw(0)[0]))
    assert phi.dtype == torch.float64
    assert not phi.requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_precomputed_kernel_reads_its_matrix_as_float64(dtype):
    X, _, _ = draw(1)
    K = tensor(X @ X.T).to(dtype)
    kernel = Precomputed(K)
    x, z = torch.tensor([5, 0, 0, 3]), torch.tensor([2, 0])
    expected = np.array([[float(K[i, j]) for j in z] for i in x])
    np.testing.assert_array_equal(kernel.block(x, z), expected)
    np.testing.assert_array_equal(kernel.column(x, z[:1]), expected[:, 0])
    np.testing.assert_array_equal(kernel.diagonal(x), [float(K[i, i]) for i in x])
    assert kernel.block(x, z).dtype == kernel.column(x, z[:1]).dtype == torch.float64


@pytest.mark.parametrize("kind", [Sum, Product])
def test_parts_that_take_other_points_are_refused_when_they_are_put_together(kind):
    three, four = (Precomputed(torch.eye(n, dtype=torch.float64)) for n in (3, 4))
    assert matrix_size(kind(three, Scaled(three, 2.0))) == 3
    for other in (four, Gaussian()):
        with pytest.raises(ValueError, match=f"{kind.__name__} of .* row numbers of matrices"):
            kind(three, other)


@given(seed=seeds)
@settings(max_examples=15, deadline=None)
def test_scaling_sums_and_products_are_those_of_the_formulas(seed):
    X, Z, rng = draw(seed)
    factor = float(rng.uniform(0.1, 10.0))
    check_against_formula(
        Scaled(Gaussian(0.8), factor), lambda x, z: factor * oracle.gaussian(x, z, 0.8), X, Z
    )
    check_against_formula(
        Sum(Linear(), Laplace(2.0)),
        lambda x, z: oracle.linear(x, z) + oracle.laplace(x, z, 2.0),
        X,
        Z,
    )
    check_against_formula(
        Sum(Laplace(2.0), Constant()), lambda x, z: oracle.laplace(x, z, 2.0) + 1, X, Z
    )
    check_against_formula(
        Product(Linear(), Matern(2.5, 1.5)),
        lambda x, z: oracle.linear(x, z) * oracle.matern(x, z, 2.5, 1.5),
        X,
        Z,
    )
    check_against_formula(
        Sum(Scaled(Product(Linear(), Gaussian()), factor), Sum(Laplace(), Scaled(Linear(), 0.5))),
        lambda x, z: (
            factor * oracle.linear(x, z) * oracle.gaussian(x, z)
            + oracle.laplace(x, z)
            + 0.5 * oracle.linear(x, z)
        ),
        X,
        Z,
    )


@given(seed=seeds, d=st.sampled_from([1, 2, 5]))
@settings(max_examples=15, deadline=None)
def test_laplace_is_matern_one_half_in_one_dimension_only(seed, d):
    X, Z, _ = draw(seed, d)
    laplace = Laplace(1.3).block(tensor(X), tensor(Z))
    matern = Matern(0.5, 1.3).block(tensor(X), tensor(Z))
    if d == 1:
        np.testing.assert_allclose(laplace, matern, rtol=1e-12)
    else:  # |x|_1 > |x|_2 off the axes
        assert bool((laplace < matern).all())


@given(seed=seeds, per_dimension=st.booleans())
@settings(max_examples=15, deadline=None)
def test_matern_seven_halves_has_its_closed_form(seed, per_dimension):
    X, Z, rng = draw(seed)
    lengthscale = rng.uniform(0.3, 3.0, size=3) if per_dimension else 0.9

    def formula(x, z):
        s = np.sqrt(7) * np.sqrt(np.sum(((x - z) / lengthscale) ** 2))
        return (1 + s + 2 * s**2 / 5 + s**3 / 15) * np.exp(-s)

    check_against_formula(Matern(3.5, lengthscale), formula, X, Z)


def test_matern_kernels_approach_the_gaussian_one_as_they_get_smoother():
    X, Z, _ = draw(2)
    gaussian = Gaussian(1.5).block(tensor(X), tensor(Z))
    gaps = [
        float((Matern(nu, 1.5).block(tensor(X), tensor(Z)) - gaussian).abs().max())
        for nu in (0.5, 1.5, 4.5, 20.5)
    ]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 0.02


@pytest.mark.parametrize("make", [Laplace, lambda lengthscale: Matern(0.5, lengthscale)])
def test_points_at_distance_1e_8_keep_their_distance(make):
    """By inner products |x|^2 + |z|^2 - 2xz it would be lost: 1e-16 beside 1."""
    x = tensor(np.random.default_rng(0).uniform(0.5, 2.0, size=(40, 5)))
    z = x.clone()
    z[:, 2] += 1e-8
    away = 1.0 - make(1.0).block(x, z).diagonal()
    np.testing.assert_allclose(away, 1e-8, rtol=1e-6)


@pytest.mark.parametrize("name", STATIONARY)
def test_a_lengthscale_of_1e_8_tells_such_points_apart(name):
    ours, formula = STATIONARY[name]
    X = np.array([[1.0, -0.5], [0.25, 2.0]])
    Z = X + np.array([1e-8, 0.0])
    block = ours(1e-8).block(tensor(X), tensor(Z))
    expected = oracle.matrix(lambda x, z: formula(x, z, 1e-8), X, Z)
    np.testing.assert_allclose(block, expected, rtol=1e-6)
    assert 0.3 < float(block[0, 0]) < 0.7


def test_equal_points_have_exactly_the_prior_variance():
    x = tensor(1e3 * draw(3)[0])
    for ours, _ in STATIONARY.values():
        np.testing.assert_array_equal(ours(0.7).block(x, x).diagonal(), 1.0)


def test_only_inner_products_and_their_multiples_have_features():
    linear, features = Linear(torch.eye(3)), FeatureMap(torch.sin)
    assert feature_form(linear) == (linear, 1.0)
    assert feature_form(Scaled(Scaled(features, 3.0), 0.5)) == (features, 1.5)
    for kernel in (
        Gaussian(),
        Scaled(Gaussian(), 2.0),
        Sum(linear, linear),
        Precomputed(torch.eye(2)),
    ):
        assert feature_form(kernel) is None
