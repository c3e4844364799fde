"""Kernels of outer products against the products themselves, one pair after the other."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from problems import seeds, tensor
from tellmost.kernels import Kronecker, Outer
from tellmost.kernels.kernel import are_same


def outer_of(x: np.ndarray, c: int) -> np.ndarray:
    return np.outer(x[:c], x[c:]).ravel()


def check(kernel, X: np.ndarray, Z: np.ndarray, c: int, covariance: np.ndarray) -> None:
    """All three methods against phi(x)' C phi(z) with phi the outer product."""
    K = np.array([[outer_of(x, c) @ covariance @ outer_of(z, c) for z in Z] for x in X])
    own = np.array([outer_of(x, c) @ covariance @ outer_of(x, c) for x in X])
    close = {"rtol": 1e-10, "atol": 1e-13 * np.abs(K).max()}
    np.testing.assert_allclose(kernel.block(tensor(X), tensor(Z)), K, **close)
    np.testing.assert_allclose(kernel.column(tensor(X), tensor(Z[:1])), K[:, 0], **close)
    np.testing.assert_allclose(kernel.diagonal(tensor(X)), own, **close)


@settings(max_examples=15, deadline=None)
@given(seed=seeds, c=st.integers(1, 4), d=st.integers(1, 4))
def test_an_outer_kernel_is_the_inner_product_of_outer_products(seed, c, d):
    rng = np.random.default_rng(seed)
    X, Z = rng.standard_normal((6, c + d)), rng.standard_normal((3, c + d))
    check(Outer(c), X, Z, c, np.eye(c * d))


@settings(max_examples=15, deadline=None)
@given(seed=seeds, c=st.integers(1, 4), d=st.integers(1, 4))
def test_a_kronecker_kernel_has_its_variances_for_pairs_of_entries(seed, c, d):
    rng = np.random.default_rng(seed)
    X, Z = rng.standard_normal((6, c + d)), rng.standard_normal((3, c + d))
    w = rng.exponential(size=(c, d)) ** 4
    check(Kronecker(tensor(w)), X, Z, c, np.diag(w.ravel()))


def test_variances_that_are_constant_take_one_product():
    w = torch.full((4, 6), 0.3, dtype=torch.float64)
    assert [term.shape[1] for term in Kronecker(w)._terms] == [1, 1]


@pytest.mark.parametrize(("tau", "is_short"), [(1.0, True), (1e-8, False)])
def test_every_variance_is_kept_to_ten_digits(tau, is_short):
    """1 / (a b + t): a few products, or as they are where they go from 1e-4 to 1e8."""
    values = torch.logspace(2, -8, 40)[:, None].double() * torch.logspace(2, -8, 60).double()
    w = 1 / (values + tau)
    first, second = Kronecker(w)._terms
    assert float(((first @ second.T) / w - 1).abs().max()) < 1e-10
    assert (first.shape[1] < 40) == is_short
    assert torch.equal(Kronecker(w.T)._terms[0], second) or is_short


def test_kernels_of_the_same_parts_are_the_same():
    w = torch.rand(2, 3, dtype=torch.float64)
    assert are_same(Kronecker(w), Kronecker(w.clone())) and are_same(Outer(2), Outer(2))
    assert not are_same(Kronecker(w), Kronecker(2 * w)) and not are_same(Outer(2), Outer(3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Outer(0), "split"),
        (lambda: Outer(2).diagonal(torch.ones(4, 2).double()), "more than 2 columns.*got 2"),
        (lambda: Kronecker(-torch.ones(2, 3)), "none below 0"),
    ],
    ids=["no first factor", "no second factor", "negative"],
)
def test_what_is_no_kernel_of_outer_products_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
