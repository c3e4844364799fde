"""What no selection can remove, and what the whole pool would leave, against the definitions."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import tellmost as tm
from problems import Case, make_case, seeds, tensor
from tellmost import numerics
from tellmost.kernels import (
    FeatureMap,
    Gaussian,
    Laplace,
    Linear,
    Matern,
    Precomputed,
    Scaled,
    Sum,
)

ROUGH = {
    "laplace": (Laplace(4.0), lambda x, z: oracle.laplace(x, z, 4.0)),
    "matern-0.5": (Matern(0.5, 3.0), lambda x, z: oracle.matern(x, z, 0.5, 3.0)),
    "matern-1.5": (Matern(1.5, 2.0), lambda x, z: oracle.matern(x, z, 1.5, 2.0)),
    "short-gaussian": (Gaussian(1.0), lambda x, z: oracle.gaussian(x, z, 1.0)),
}
"""Kernels whose matrices have no eigenvalue near the rank tolerance."""


def case_of(
    X: np.ndarray,
    A: np.ndarray,
    kernel,
    formula,
    *,
    std: float | np.ndarray = 0.4,
    observed: tuple[int, ...] = (),
    candidates: np.ndarray | None = None,
    outside: np.ndarray | None = None,
) -> Case:
    """A problem for select, and the oracle's view of it."""
    n, m = len(X), len(A)
    O = np.empty((0, X.shape[1])) if outside is None else outside  # noqa: E741
    Z = np.concatenate([X, A, O])
    stds = np.broadcast_to(np.asarray(std, dtype=np.float64), n).copy()
    problem = oracle.Problem(
        K=oracle.matrix(formula, Z, Z),
        n=n,
        m=m,
        noise=stds**2,
        outside_noise=float(stds[0] ** 2),
        observed=(*observed, *range(n + m, len(Z))),
        candidates=candidates,
    )
    arguments = {"kernel": kernel, "noise_std": std, "candidates": candidates}
    arguments["observed"] = np.array(observed, dtype=np.int64) if outside is None else outside
    return Case(X, A, arguments, problem, 0.4)


def check_floor(case: Case, k: int = 3) -> tm.Selection:
    """Both figures are the oracle's, and exact."""
    chosen = case.select(k, "vtl", floor=True)
    prior = np.diag(case.oracle.K)[case.oracle.A].max()
    np.testing.assert_allclose(chosen.floor, oracle.floor(case.oracle), atol=1e-8 * prior)
    np.testing.assert_allclose(
        chosen.whole_pool, oracle.whole_pool(case.oracle), rtol=1e-8, atol=1e-10 * prior
    )
    assert chosen.settings["floor_is_exact"] is True
    assert chosen.settings["floor"].startswith("exact")
    return chosen


def draw(seed: int, n: int, m: int, d: int, rank: int | None = None):
    """Pool and targets; of a pool of lower rank, the targets stick out."""
    rng = np.random.default_rng(seed)
    X, A = rng.standard_normal((n, d)), rng.standard_normal((m, d))
    if rank is not None:
        X = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d))
    return X, A, rng


# ---- inner products


@given(
    seed=seeds,
    d=st.sampled_from([3, 22, 40]),  # fewer than rows, more, and more than rows and targets
    per_point_noise=st.booleans(),
    observed=st.sampled_from([0, 3]),
    some_candidates=st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_linear_floors_are_the_oracles(**options):
    check_floor(make_case(kernel="linear", n=20, **options))


@given(seed=seeds, outside=st.integers(1, 4), d=st.sampled_from([3, 22]))
@settings(max_examples=10, deadline=None)
def test_points_observed_outside_the_pool_lower_the_floor(seed, outside, d):
    case = make_case(seed, n=8, outside=outside, d=d)
    chosen = check_floor(case)
    without = tm.select(
        case.pool,
        case.targets,
        1,
        noise_std=case.arguments["noise_std"],
        kernel="linear",
        floor=True,
    )
    assert (chosen.floor <= without.floor + 1e-9).all()
    if d > 8:
        assert chosen.floor.sum() < without.floor.sum()


@given(seed=seeds, rank=st.integers(1, 4), observed=st.sampled_from([(), (2, 5)]))
@settings(max_examples=20, deadline=None)
def test_a_pool_of_low_rank_leaves_a_floor_above_zero(seed, rank, observed):
    X, A, _ = draw(seed, 20, 4, 6, rank)
    chosen = check_floor(case_of(X, A, Linear(), oracle.linear, observed=observed))
    row_space = np.linalg.svd(X)[2][:rank]
    outside = A - A @ row_space.T @ row_space
    np.testing.assert_allclose(chosen.floor, (outside**2).sum(axis=1), rtol=1e-8)
    assert (chosen.floor > 0).all()
    assert "uninformative" not in repr(chosen)


@pytest.mark.parametrize("rank", [2, 6])
@given(seed=seeds)
@settings(max_examples=10, deadline=None)
def test_a_latent_covariance_enters_the_floor(rank, seed):
    X, A, rng = draw(seed, 12, 4, 6, rank=4)
    root = rng.standard_normal((6, rank))
    C = root @ root.T
    check_floor(case_of(X, A, Linear(tensor(C)), lambda x, z: oracle.linear(x, z, C)))
    check_floor(
        case_of(X, A, Scaled(Linear(tensor(C)), 3.0), lambda x, z: 3.0 * oracle.linear(x, z, C))
    )


@given(seed=seeds, d=st.sampled_from([2, 7]), observed=st.sampled_from([(), (1, 4)]))
@settings(max_examples=10, deadline=None)
def test_a_feature_map_has_the_floor_of_its_features(seed, d, observed):
    """Fewer features than rows, and more."""
    X, A, _ = draw(seed, 8, 3, d)

    def phi(x):
        return np.concatenate([x, x**2])

    kernel = FeatureMap(lambda x: torch.cat([x, x.square()], dim=1))
    check_floor(case_of(X, A, kernel, lambda x, z: phi(x) @ phi(z), observed=observed))


def test_candidates_alone_make_the_floor():
    """The rest of the pool would span the space."""
    X, A, _ = draw(0, 30, 4, 6)
    case = case_of(X, A, Linear(), oracle.linear, candidates=np.array([3, 8, 20]))
    chosen = check_floor(case, k=2)
    assert (chosen.floor > 0.1).all()


# ---- other kernels


@pytest.mark.parametrize("name", ROUGH)
@given(
    seed=seeds,
    observed=st.sampled_from([(), (0, 7, 3)]),
    per_point_noise=st.booleans(),
    some=st.booleans(),
)
@settings(max_examples=10, deadline=None)
def test_floors_of_other_kernels_are_the_oracles(name, seed, observed, per_point_noise, some):
    X, A, rng = draw(seed, 18, 4, 3)
    std = rng.uniform(0.2, 0.8, size=18) if per_point_noise else 0.4
    candidates = np.sort(rng.choice(18, size=10, replace=False)) if some else None
    case = case_of(X, A, *ROUGH[name], std=std, observed=observed, candidates=candidates)
    chosen = check_floor(case)
    assert (chosen.floor > 0).all()


@pytest.mark.parametrize("name", ROUGH)
def test_floors_with_points_observed_outside_the_pool_are_the_oracles(name):
    X, A, rng = draw(1, 18, 4, 3)
    check_floor(case_of(X, A, *ROUGH[name], outside=rng.standard_normal((3, 3))))


def test_the_floor_of_a_precomputed_kernel_is_that_of_its_matrix():
    X, A, _ = draw(2, 18, 4, 3)
    case = case_of(X, A, *ROUGH["laplace"], observed=(5,))
    chosen = check_floor(case)
    by_matrix = tm.select(
        np.arange(18),
        np.arange(18, 22),
        3,
        kernel=Precomputed(tensor(case.oracle.K)),
        noise_std=0.4,
        observed=[5],
        floor=True,
    )
    np.testing.assert_allclose(by_matrix.floor, chosen.floor, rtol=1e-9)
    np.testing.assert_allclose(by_matrix.whole_pool, chosen.whole_pool, rtol=1e-9)


def test_targets_inside_the_pool_have_no_floor():
    X, _, _ = draw(3, 18, 4, 3)
    chosen = tm.select(X, X[:4], 3, kernel=Laplace(4.0), noise_std=0.4, floor=True)
    np.testing.assert_allclose(chosen.floor, 0.0, atol=1e-12)
    assert (chosen.whole_pool > 1e-3).all()


# ---- pools beyond the stated size


@pytest.fixture
def small_limits(monkeypatch):
    monkeypatch.setattr(numerics, "FLOOR_EXACT_ROWS", 10)
    monkeypatch.setattr("tellmost.posterior.floor.FLOOR_RANK", 12)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("name", ROUGH)
@pytest.mark.parametrize("k", [2, 15])
@given(seed=seeds, observed=st.sampled_from([(), (0, 7, 3)]), some=st.booleans())
@settings(max_examples=5, deadline=None)
def test_beyond_the_stated_size_the_floor_is_a_flagged_upper_bound(name, k, seed, observed, some):
    """Fewer picks than the subset has rows, and more."""
    X, A, rng = draw(seed, 40, 4, 3)
    candidates = np.sort(rng.choice(40, size=30, replace=False)) if some else None
    case = case_of(X, A, *ROUGH[name], observed=observed, candidates=candidates)
    chosen = case.select(k, "vtl", floor=True)
    slack = 1e-9
    assert chosen.settings["floor_is_exact"] is False
    assert (chosen.floor >= oracle.floor(case.oracle) - slack).all()
    assert (chosen.whole_pool >= oracle.whole_pool(case.oracle) - slack).all()
    assert (chosen.floor <= chosen.whole_pool + slack).all()
    assert (chosen.whole_pool <= chosen.target_variance[1] + slack).all()
    size = max(12, k)
    rows = 40 if candidates is None else 30
    assert f"upper bounds from {size} of {rows} candidates" in chosen.settings["floor"]
    assert "floor at most" in repr(chosen)


@pytest.mark.usefixtures("small_limits")
@given(seed=seeds)
@settings(max_examples=5, deadline=None)
def test_the_bound_holds_where_equal_rows_are_picked(seed):
    """A second look at an equal row tells no more about f, but it averages the noise."""
    X, A, _ = draw(seed, 6, 3, 3)
    X = np.repeat(X, 4, axis=0)
    case = case_of(X, A, *ROUGH["laplace"], std=2.0)
    chosen = case.select(20, "vtl", floor=True)
    assert (chosen.floor >= oracle.floor(case.oracle) - 1e-9).all()
    assert (chosen.whole_pool >= oracle.whole_pool(case.oracle) - 1e-9).all()
    assert (chosen.whole_pool <= chosen.target_variance[1] + 1e-9).all()


def test_a_subset_that_says_everything_gives_the_exact_floor(monkeypatch):
    monkeypatch.setattr(numerics, "FLOOR_EXACT_ROWS", 10)
    X, A, _ = draw(4, 15, 4, 3)
    X = np.concatenate([X, X])  # f at one half is f at the other
    case = case_of(X, A, *ROUGH["laplace"])
    chosen = case.select(3, "vtl", floor=True)
    np.testing.assert_allclose(chosen.floor, oracle.floor(case.oracle), rtol=1e-8)
    assert (chosen.whole_pool >= oracle.whole_pool(case.oracle) - 1e-9).all()
    assert "floor exact up to rank tolerance" in chosen.settings["floor"]
    assert "from 15 of 30 candidates" in chosen.settings["floor"]


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("d", [3, 60])
def test_inner_products_have_an_exact_floor_at_every_size(d):
    X, A, _ = draw(5, 40, 4, d)
    check_floor(case_of(X, A, Linear(), oracle.linear))


@pytest.mark.usefixtures("small_limits")
def test_a_large_pool_that_says_nothing_has_the_floor_of_the_prior():
    """Equal rows, once centred, under a kernel that is not treated as an inner product."""
    _, A, _ = draw(6, 20, 3, 2)
    pool, kernel = np.ones((20, 2)), Sum(Linear(), Linear())
    chosen = tm.select(
        pool, 1 + A, 2, kernel=kernel, normalize="center", noise_std=0.5, floor=True
    )
    np.testing.assert_allclose(chosen.floor, 2 * (A**2).sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(chosen.whole_pool, chosen.floor, rtol=1e-12)


# ---- what holds everywhere


@pytest.mark.parametrize("rule", ["vtl", "itl", "random"])
@given(
    seed=seeds,
    kernel=st.sampled_from(["linear", *ROUGH]),
    d=st.sampled_from([2, 5, 30]),
    k=st.sampled_from([1, 8, 16]),
    observed=st.sampled_from([(), (0, 3)]),
)
@settings(max_examples=20, deadline=None)
def test_floor_whole_pool_after_and_before_stand_in_this_order(rule, seed, kernel, d, k, observed):
    X, A, _ = draw(seed, 18, 4, d)
    ours, formula = ROUGH.get(kernel, (Linear(), oracle.linear))
    case = case_of(X, A, ours, formula, observed=observed)
    chosen = case.select(k, rule, floor=True)
    before, after = chosen.target_variance
    slack = 1e-9 * before.max()
    assert (chosen.floor >= 0).all()
    assert (chosen.floor <= chosen.whole_pool + slack).all()
    assert (chosen.whole_pool <= after + slack).all()
    assert (after <= before + slack).all()


@given(seed=seeds, kernel=st.sampled_from(["linear", *ROUGH]))
@settings(max_examples=15, deadline=None)
def test_picking_every_row_leaves_what_the_whole_pool_leaves(seed, kernel):
    X, A, _ = draw(seed, 12, 4, 3)
    ours, formula = ROUGH.get(kernel, (Linear(), oracle.linear))
    chosen = case_of(X, A, ours, formula).select(12, "vtl", floor=True)
    np.testing.assert_allclose(chosen.whole_pool, chosen.target_variance[1], rtol=1e-8, atol=1e-12)


@given(seed=seeds, kernel=st.sampled_from(["linear", *ROUGH]))
@settings(max_examples=10, deadline=None)
def test_less_noise_brings_the_whole_pool_down_to_the_floor(seed, kernel):
    X, A, _ = draw(seed, 12, 4, 30)
    ours, formula = ROUGH.get(kernel, (Linear(), oracle.linear))
    case = case_of(X, A, ours, formula)
    levels = [case.select(1, "vtl", floor=True, noise_std=std) for std in (1.0, 0.1, 1e-5)]
    assert (levels[1].whole_pool <= levels[0].whole_pool + 1e-12).all()
    np.testing.assert_allclose(levels[2].whole_pool, levels[2].floor, rtol=1e-6)
    np.testing.assert_allclose(levels[0].floor, levels[2].floor, rtol=1e-8)


def test_there_is_no_floor_unless_it_is_asked_for():
    chosen = make_case(0).select(3, "vtl")
    assert chosen.floor is None and chosen.whole_pool is None
    assert chosen.settings["floor"] is None and chosen.settings["floor_is_exact"] is None
    assert "floor" not in repr(chosen)


def test_a_pool_that_spans_the_space_is_said_to_make_the_floor_uninformative(capsys):
    X, A, _ = draw(7, 20, 4, 6)
    print(tm.select(X, A, 3, noise_std=0.4, floor=True, kernel="linear"))
    assert "uninformative" in capsys.readouterr().out


def test_a_floor_above_zero_is_printed_as_its_mean():
    X, A, _ = draw(8, 20, 4, 6, rank=2)
    chosen = tm.select(X, A, 3, noise_std=0.4, floor=True, kernel="linear")
    assert f"floor {chosen.floor.mean():.4g}" in repr(chosen)
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    weighted = tm.select(
        X, A, 3, noise_std=0.4, floor=True, target_weights=weights, kernel="linear"
    )
    assert f"floor {weights @ chosen.floor / 10:.4g}" in repr(weighted)
