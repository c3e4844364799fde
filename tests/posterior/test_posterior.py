"""Both forms of the posterior against dense conditioning."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import tellmost as tm
from problems import seeds, tensor
from tellmost.kernels import Gaussian, Laplace, Linear, Matern, Precomputed
from tellmost.posterior import function_space
from tellmost.posterior.function_space import FunctionPosterior, GrowingMatrix
from tellmost.posterior.weight_space import WeightPosterior, symmetric_root

CPU = torch.device("cpu")
N, M, D = 9, 3, 5
KERNELS = {
    "linear": (Linear(), oracle.linear),
    "gaussian": (Gaussian(1.5), lambda x, z: oracle.gaussian(x, z, 1.5)),
    "laplace": (Laplace(3.0), lambda x, z: oracle.laplace(x, z, 3.0)),
    "matern": (Matern(2.5, 2.0), lambda x, z: oracle.matern(x, z, 2.5, 2.0)),
}
OBSERVED = [4, 0, 7, 4]  # a repeated measurement among them
NOISE = np.array([0.3, 0.1, 1.0, 0.3])
NO_DIGITS_LOST = {"rtol": 1e-9, "atol": 1e-11}


def points(seed: int) -> tuple[np.ndarray, np.random.Generator]:
    """N points and M targets, in this order."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((N + M, D)), rng


def random_covariance(rng: np.random.Generator, rank: int = D) -> np.ndarray:
    root = rng.standard_normal((D, rank))
    return root @ root.T


def covariance_of(posterior: WeightPosterior, Z: np.ndarray) -> np.ndarray:
    return Z @ posterior.covariance.numpy() @ Z.T


def observe_all(posterior: FunctionPosterior, Z: np.ndarray) -> None:
    for i, noise in zip(OBSERVED, NOISE, strict=True):
        posterior.observe(tensor(Z[i : i + 1]), float(noise))


def condition_all(posterior: WeightPosterior, Z: np.ndarray) -> None:
    for i, noise in zip(OBSERVED, NOISE, strict=True):
        posterior.condition(tensor(Z[i]), float(noise))


def first_variance(
    posterior: WeightPosterior, Z: torch.Tensor, prior: torch.Tensor
) -> torch.Tensor:
    """As the rows get it before the loop."""
    start = posterior.start()
    return posterior.variance(Z) if start is None else start.of(Z, prior)


# ---- weight space


@given(seed=seeds, prior=st.sampled_from(["identity", "full", "singular"]))
@settings(max_examples=20, deadline=None)
def test_observed_weights_are_conditioned_on(seed, prior):
    Z, rng = points(seed)
    C = {"identity": None, "full": random_covariance(rng), "singular": random_covariance(rng, 2)}
    posterior = WeightPosterior.of(None if C[prior] is None else tensor(C[prior]), D, CPU)
    condition_all(posterior, Z)
    expected = oracle.condition(
        oracle.matrix(lambda x, z: oracle.linear(x, z, C[prior]), Z, Z), OBSERVED, NOISE
    )
    close = {"rtol": 1e-9, "atol": 1e-11 * np.abs(expected).max()}
    np.testing.assert_allclose(covariance_of(posterior, Z), expected, **close)
    np.testing.assert_allclose(posterior.variance(tensor(Z)), np.diag(expected), **close)
    prior = tensor(np.diag(oracle.matrix(lambda x, z: oracle.linear(x, z, C[prior]), Z, Z)).copy())
    np.testing.assert_allclose(
        first_variance(posterior, tensor(Z), prior), np.diag(expected), **close
    )


@given(seed=seeds)
@settings(max_examples=10, deadline=None)
def test_a_step_changes_nothing_until_it_is_observed(seed):
    Z, _ = points(seed)
    posterior = WeightPosterior.of(None, D, CPU)
    phi = tensor(Z[0])
    step = posterior.step(phi, 0.5)
    np.testing.assert_array_equal(posterior.covariance, np.eye(D))
    np.testing.assert_allclose(step.u, phi)
    assert step.s == pytest.approx(float(phi @ phi) + 0.5)
    posterior.observe(step)
    expected = oracle.condition(Z @ Z.T, [0], np.array([0.5]))
    np.testing.assert_allclose(covariance_of(posterior, Z), expected, **NO_DIGITS_LOST)


@given(seed=seeds, noise=st.sampled_from([0.0, 0.2]), weighted=st.booleans())
@settings(max_examples=20, deadline=None)
def test_weights_that_saw_the_targets_first_are_conditioned_on_them(seed, noise, weighted):
    Z, rng = points(seed)
    C = random_covariance(rng) if weighted else None
    posterior = WeightPosterior.of(None if C is None else tensor(C), D, CPU)
    seen = posterior.given_targets(tensor(Z[N:]), noise)
    K = oracle.matrix(lambda x, z: oracle.linear(x, z, C), Z, Z)
    close = {"rtol": 1e-8, "atol": 1e-10 * np.abs(K).max()}
    given_targets = oracle.condition_exactly(K, np.arange(N, N + M), noise)
    np.testing.assert_allclose(covariance_of(seen, Z), given_targets, **close)
    np.testing.assert_allclose(covariance_of(posterior, Z), K, **close)  # the first is unchanged
    condition_all(seen, Z)
    expected = oracle.condition(given_targets, OBSERVED, NOISE)
    np.testing.assert_allclose(covariance_of(seen, Z), expected, **close)
    prior = tensor(np.diag(K).copy())
    np.testing.assert_allclose(first_variance(seen, tensor(Z), prior), np.diag(expected), **close)


@given(seed=seeds, noise=st.sampled_from([0.0, 0.2]))
@settings(max_examples=20, deadline=None)
def test_targets_may_be_seen_after_observations_as_well(seed, noise):
    Z, _ = points(seed)
    posterior = WeightPosterior.of(None, D, CPU)
    condition_all(posterior, Z)
    seen = posterior.given_targets(tensor(Z[N:]), noise)
    expected = oracle.condition_exactly(
        oracle.condition(Z @ Z.T, OBSERVED, NOISE), np.arange(N, N + M), noise
    )
    np.testing.assert_allclose(covariance_of(seen, Z), expected, rtol=1e-8, atol=1e-10)


SINGULAR = {
    "repeated": lambda A: np.concatenate([A, A]),
    "with a zero": lambda A: np.concatenate([A, 0 * A[:1]]),
    "dependent": lambda A: np.concatenate([A, A[:1] - 2 * A[1:2]]),
    "more than dimensions": lambda A: np.concatenate([A, A[::-1] ** 2, A**3 - A]),
}


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize("make", SINGULAR.values(), ids=SINGULAR)
@given(seed=seeds)
@settings(max_examples=8, deadline=None)
def test_singular_targets_are_seen_by_the_pseudo_inverse_in_both_forms(make, noise, seed):
    Z, _ = points(seed)
    A = make(Z[N:])
    Z = np.concatenate([Z[:N], A])
    rows = np.arange(N, len(Z))
    given_targets = oracle.condition_exactly(Z @ Z.T, rows, noise)
    expected = oracle.condition(given_targets, OBSERVED, NOISE)
    weights = WeightPosterior.of(None, D, CPU).given_targets(tensor(A), noise)
    condition_all(weights, Z)
    functions = FunctionPosterior(Linear(), CPU)
    functions.see_targets(tensor(A), noise)
    observe_all(functions, Z)
    close = {"rtol": 1e-7, "atol": 1e-9 * np.abs(Z @ Z.T).max()}
    np.testing.assert_allclose(covariance_of(weights, Z), expected, **close)
    np.testing.assert_allclose(functions.covariance(tensor(Z), tensor(Z)), expected, **close)


def test_targets_that_span_the_features_leave_no_variance_at_all():
    Z, rng = points(0)
    seen = WeightPosterior.of(None, D, CPU).given_targets(tensor(rng.standard_normal((8, D))), 0.0)
    np.testing.assert_array_equal(seen.covariance, 0.0)
    np.testing.assert_array_equal(first_variance(seen, tensor(Z), tensor(np.ones(N + M))), 0.0)


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-4, 1e-7])
@pytest.mark.parametrize("count", [2, 7, 12, 15])
def test_well_and_badly_conditioned_targets_are_seen_alike(count, spread, noise):
    """Cholesky factors where they are accurate, singular values elsewhere: no jump between."""
    rng = np.random.default_rng(3)
    A = rng.standard_normal((count, 12)) @ np.diag(np.geomspace(1.0, spread, 12))
    seen = WeightPosterior.of(None, 12, CPU).given_targets(tensor(A), noise)
    _, values, V = np.linalg.svd(A, full_matrices=False)
    V = V[values**2 > 1e-10 * values[0] ** 2]
    share = values[: len(V)] ** 2 / (values[: len(V)] ** 2 + noise)
    expected = np.eye(12) - (V.T * share) @ V
    np.testing.assert_allclose(seen.covariance, expected, atol=1e-10)


@given(seed=seeds, rank=st.integers(1, D))
@settings(max_examples=10, deadline=None)
def test_the_root_of_a_covariance_squares_to_it(seed, rank):
    C = random_covariance(points(seed)[1], rank)
    root = symmetric_root(tensor(C))
    np.testing.assert_allclose(root @ root.T, C, atol=1e-12 * np.abs(C).max())


# ---- function space


@pytest.mark.parametrize("name", KERNELS)
@given(seed=seeds)
@settings(max_examples=15, deadline=None)
def test_observed_functions_are_conditioned_on(name, seed):
    Z, _ = points(seed)
    kernel, formula = KERNELS[name]
    posterior = FunctionPosterior(kernel, CPU)
    observe_all(posterior, Z)
    expected = oracle.condition(oracle.matrix(formula, Z, Z), OBSERVED, NOISE)
    x, z = tensor(Z[:N]), tensor(Z[N:])
    np.testing.assert_allclose(posterior.variance(x), np.diag(expected)[:N], **NO_DIGITS_LOST)
    np.testing.assert_allclose(posterior.covariance(x, z), expected[:N, N:], **NO_DIGITS_LOST)


@pytest.mark.parametrize("name", KERNELS)
def test_observations_taken_together_are_those_taken_one_by_one(name):
    """After the targets and other observations, and before further ones."""
    Z, _ = points(5)
    one_by_one, together = (FunctionPosterior(KERNELS[name][0], CPU) for _ in range(2))
    for posterior in (one_by_one, together):
        posterior.see_targets(tensor(Z[N:]), 0.2)
        posterior.observe(tensor(Z[2:3]), 0.3)
    observe_all(one_by_one, Z)
    together.observe_all(tensor(Z[OBSERVED]), tensor(NOISE))
    for posterior in (one_by_one, together):
        posterior.observe(tensor(Z[5:6]), 0.3)
    x, z = tensor(Z[:N]), tensor(Z[N:])
    np.testing.assert_allclose(
        together.covariance(x, z), one_by_one.covariance(x, z), **NO_DIGITS_LOST
    )
    np.testing.assert_allclose(together.whiten(x), one_by_one.whiten(x), **NO_DIGITS_LOST)


@pytest.mark.parametrize("block", [1, 3, 100])
@pytest.mark.parametrize("name", KERNELS)
def test_blocks_of_observations_are_those_taken_one_by_one(name, block, monkeypatch):
    monkeypatch.setattr(function_space, "OBSERVED_TOGETHER", block)
    kernel, _ = KERNELS[name]
    Z, _ = points(2)
    one_by_one, in_turn = (FunctionPosterior(kernel, CPU) for _ in range(2))
    observe_all(one_by_one, Z)
    in_turn.observe_in_turn(tensor(Z[OBSERVED]), tensor(NOISE))
    covariances = [one.covariance(tensor(Z), tensor(Z)) for one in (one_by_one, in_turn)]
    torch.testing.assert_close(*covariances, **NO_DIGITS_LOST)


def test_a_block_whose_noise_is_lost_in_rounding_is_observed_point_by_point():
    Z, noise = torch.ones(6, 2, dtype=torch.float64), 1e-24
    one_by_one, in_turn = (FunctionPosterior(Gaussian(1.0), CPU) for _ in range(2))
    for _ in range(6):
        one_by_one.observe(Z[:1], noise)
    in_turn.observe_in_turn(Z, torch.full((6,), noise, dtype=torch.float64))
    assert torch.equal(in_turn.variance(Z), one_by_one.variance(Z))
    assert torch.equal(in_turn.log_scales, one_by_one.log_scales)


def test_what_was_observed_before_a_selection_is_conditioned_on_in_blocks(monkeypatch):
    """Rows one by one would copy the factor for each of them."""
    rng = np.random.default_rng(0)
    pool, targets, observed = (rng.standard_normal((n, D)) for n in (30, 4, 40))
    sizes: list[int] = []
    grow = FunctionPosterior._grow

    def counted(self, F, corner):
        sizes.append(len(corner))
        grow(self, F, corner)

    monkeypatch.setattr(FunctionPosterior, "_grow", counted)
    tm.select(pool, targets, 3, kernel=Gaussian(1.5), noise_std=0.3, observed=observed)
    assert sizes[0] == 40 and set(sizes[1:]) <= {1}


def test_noise_that_float64_cannot_resolve_is_named():
    Z = tensor(points(0)[0])[[0, 0, 0]]
    with pytest.raises(ValueError, match="1e-12 is lost in the rounding of float64 at these 3"):
        FunctionPosterior(Gaussian(1.0), CPU).observe_all(Z, torch.full((3,), 1e-24).double())


@pytest.mark.parametrize("name", KERNELS)
@given(seed=seeds, noise=st.sampled_from([0.0, 0.2]))
@settings(max_examples=15, deadline=None)
def test_functions_that_saw_the_targets_first_are_conditioned_on_them(name, seed, noise):
    Z, _ = points(seed)
    kernel, formula = KERNELS[name]
    posterior = FunctionPosterior(kernel, CPU)
    posterior.see_targets(tensor(Z[N:]), noise)
    K = oracle.matrix(formula, Z, Z)
    given_targets = oracle.condition_exactly(K, np.arange(N, N + M), noise)
    close = {"rtol": 1e-8, "atol": 1e-10 * np.abs(K).max()}
    both = tensor(Z)
    np.testing.assert_allclose(posterior.covariance(both, both), given_targets, **close)
    observe_all(posterior, Z)
    expected = oracle.condition(given_targets, OBSERVED, NOISE)
    np.testing.assert_allclose(posterior.covariance(both, both), expected, **close)
    np.testing.assert_allclose(posterior.variance(both), np.diag(expected), **close)


@given(seed=seeds)
@settings(max_examples=10, deadline=None)
def test_an_observation_returns_its_whitened_vector_and_its_variance(seed):
    Z, _ = points(seed)
    kernel, formula = KERNELS["matern"]
    posterior = FunctionPosterior(kernel, CPU)
    observe_all(posterior, Z)
    before = posterior.whiten(tensor(Z[1:2]))[:, 0]
    F, s = posterior.observe(tensor(Z[1:2]), 0.25)
    expected = oracle.condition(oracle.matrix(formula, Z, Z), OBSERVED, NOISE)[1, 1]
    np.testing.assert_array_equal(F, before)
    assert s == pytest.approx(expected + 0.25, rel=1e-10)
    assert float(F @ F) == pytest.approx(1.0 - expected, rel=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_the_order_of_observations_does_not_matter(name):
    Z, _ = points(2)
    kernel, _ = KERNELS[name]
    one, other = FunctionPosterior(kernel, CPU), FunctionPosterior(kernel, CPU)
    pairs = list(zip(OBSERVED, NOISE.tolist(), strict=True))
    for posterior, order in ((one, pairs), (other, pairs[::-1])):
        for i, noise in order:
            posterior.observe(tensor(Z[i : i + 1]), noise)
    both = tensor(Z)
    np.testing.assert_allclose(
        one.covariance(both, both), other.covariance(both, both), **NO_DIGITS_LOST
    )


def test_a_precomputed_kernel_is_conditioned_on_by_row_numbers():
    Z, _ = points(3)
    K = oracle.matrix(KERNELS["gaussian"][1], Z, Z)
    posterior = FunctionPosterior(Precomputed(tensor(K)), CPU)
    for i, noise in zip(OBSERVED, NOISE.tolist(), strict=True):
        posterior.observe(torch.tensor([i]), noise)
    numbers = torch.arange(N + M)
    expected = oracle.condition(K, OBSERVED, NOISE)
    np.testing.assert_allclose(posterior.covariance(numbers, numbers), expected, **NO_DIGITS_LOST)


def test_without_observations_the_posterior_is_the_prior():
    Z, _ = points(4)
    for kernel, formula in KERNELS.values():
        posterior = FunctionPosterior(kernel, CPU)
        K = oracle.matrix(formula, Z, Z)
        np.testing.assert_allclose(posterior.covariance(tensor(Z), tensor(Z)), K, rtol=1e-12)
        np.testing.assert_allclose(posterior.variance(tensor(Z)), np.diag(K), rtol=1e-12)


def test_a_variance_is_never_negative_however_often_a_point_is_observed():
    Z, _ = points(5)
    posterior = FunctionPosterior(Gaussian(1.5), CPU)
    for _ in range(40):
        posterior.observe(tensor(Z[:1]), 1e-14)
    assert float(posterior.variance(tensor(Z)).min()) >= 0.0
    assert float(posterior.variance(tensor(Z[:1]))) < 1e-12


def test_a_growing_matrix_keeps_its_rows_while_it_grows():
    rows = torch.arange(120.0, dtype=torch.float64).reshape(40, 3)
    matrix = GrowingMatrix(3, CPU)
    assert matrix.rows.shape == (0, 3)
    for start, stop in ((0, 1), (1, 1), (1, 20), (20, 21), (21, 40)):
        matrix.append(rows[start:stop])
        assert torch.equal(matrix.rows, rows[:stop])
