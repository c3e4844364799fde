"""Kernels are the same only where every part of them is."""

import numpy as np
import pytest
import torch

from tellmost.kernels import (
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
from tellmost.kernels.kernel import are_same


def double(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


SAME = {
    "gaussian": lambda: Gaussian(0.5),
    "lengthscales": lambda: Gaussian([1.0, 2.0]),
    "array": lambda: Matern(2.5, np.array([1.0, 2.0])),
    "linear": lambda: Linear(torch.eye(2, dtype=torch.float64)),
    "map": lambda: FeatureMap(double),
    "matrix": lambda: Precomputed(np.eye(3)),
    "made of others": lambda: Scaled(Sum(Gaussian(1.0), Product(Laplace(), Linear())), 2.0),
}
DIFFERENT = [
    (Gaussian(0.5), Gaussian(0.6)),
    (Gaussian([1.0, 2.0]), Gaussian([1.0, 2.5])),
    (Gaussian(1.0), Laplace(1.0)),
    (Matern(1.5), Matern(2.5)),
    (Linear(), Linear(torch.eye(2, dtype=torch.float64))),
    (
        Linear(torch.eye(2, dtype=torch.float64)),
        Linear(torch.diag(torch.tensor([1.0, 2.0], dtype=torch.float64))),
    ),
    (Precomputed(np.eye(3)), Precomputed(2 * np.eye(3))),
    (FeatureMap(double), FeatureMap(lambda x: 3 * x)),
    (Scaled(Gaussian(), 2.0), Scaled(Gaussian(), 3.0)),
    (Sum(Gaussian(), Laplace()), Sum(Laplace(), Gaussian())),
]


@pytest.mark.parametrize("name", SAME)
def test_kernels_made_alike_are_the_same(name):
    assert are_same(SAME[name](), SAME[name]())


@pytest.mark.parametrize("pair", DIFFERENT)
def test_kernels_that_differ_in_any_part_are_not(pair):
    assert not are_same(*pair)


def test_a_kernel_of_unknown_parts_is_the_same_as_itself_alone():
    class Own:
        def block(self, x, z):
            return x @ z.T

        def column(self, x, z):
            return x @ z.reshape(-1)

        def diagonal(self, x):
            return x.square().sum(dim=1)

    one = Own()
    assert are_same(one, one)
    assert not are_same(one, Own())
