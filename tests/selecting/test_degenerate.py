"""Degenerate but legal input: every rule gives picks, no NaN, and nothing negative."""

import numpy as np
import pytest

import tellmost as tm
from problems import targets_for
from tellmost import rules

N, D = 8, 4
KERNELS = {"linear": tm.kernels.Linear(), "gaussian": tm.kernels.Gaussian(1.5)}

pytestmark = [
    # the library rightly warns of small noise and of targets that determine everything
    pytest.mark.filterwarnings("ignore:.*picks exceed the effective rank:UserWarning"),
    pytest.mark.filterwarnings("ignore:the targets determine f at every candidate:UserWarning"),
]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def equal_rows():
    return np.tile(normal(1, D), (N, 1)), normal(3, D, seed=1)


def equal_rows_and_targets():
    pool, _ = equal_rows()
    return pool, pool[:3]


def some_zero_rows():
    pool = normal(N, D)
    pool[[0, 3, 4]] = 0.0
    return pool, normal(3, D, seed=1)


def one_zero_target():
    targets = normal(3, D, seed=1)
    targets[1] = 0.0
    return normal(N, D), targets


def targets_from_the_pool():
    pool = normal(N, D)
    return pool, pool[[2, 5, 7]]


def targets_are_the_pool():
    return normal(N, D), normal(N, D)


def few_dimensions():  # n > d
    return normal(N, 2) @ normal(2, D, seed=2), normal(3, D, seed=1)


def few_dimensions_shared():
    basis = normal(2, D, seed=2)
    return normal(N, 2) @ basis, normal(3, 2, seed=1) @ basis


def many_features():  # d > n, of rank 3
    return normal(N, 3) @ normal(3, 40, seed=2), normal(3, 40, seed=1)


def orthogonal_targets():
    pool, targets = np.zeros((N, D)), np.zeros((2, D))
    pool[:, :2], targets[:, 2:] = normal(N, 2), normal(2, 2, seed=1)
    return pool, targets


def one_candidate():
    return normal(1, D), normal(3, D, seed=1)


def one_feature():
    return normal(N, 1), normal(3, 1, seed=1)


def one_target():
    return normal(N, D), normal(D, seed=1)


def duplicated_targets():
    return normal(N, D), np.repeat(normal(2, D, seed=1), 4, axis=0)


def nearly_equal_rows():
    return normal(1, D) + 1e-7 * normal(N, D, seed=3), normal(3, D, seed=1)


def scales_far_apart():
    return normal(N, D) * np.logspace(-6, 6, N)[:, None], normal(3, D, seed=1)


PROBLEMS = [
    equal_rows,
    equal_rows_and_targets,
    some_zero_rows,
    one_zero_target,
    targets_from_the_pool,
    targets_are_the_pool,
    few_dimensions,
    few_dimensions_shared,
    many_features,
    orthogonal_targets,
    one_candidate,
    one_feature,
    one_target,
    duplicated_targets,
    nearly_equal_rows,
    scales_far_apart,
]


def check(chosen, k, rule):
    """What holds for every selection, however degenerate."""
    assert len(chosen) == k
    assert len(set(chosen.indices.tolist())) == k
    assert chosen.gains.shape == (k,) and chosen.uncertainty.shape == (k + 1,)
    for values in (chosen.gains, chosen.uncertainty, chosen.target_variance):
        assert np.isfinite(values).all()
    assert (chosen.uncertainty >= 0).all() and (chosen.target_variance >= 0).all()
    if not rules.get(rule).is_signed:
        assert (chosen.gains >= 0).all()
    rise = np.diff(chosen.uncertainty)
    assert (rise <= 1e-12 * chosen.uncertainty[0]).all()
    if chosen.target_variance.size:
        before, after = chosen.target_variance
        assert (after <= before * (1 + 1e-12)).all()


@pytest.mark.parametrize(
    ("kernel", "dtype"), [("linear", np.float32), ("linear", np.float64), ("gaussian", np.float64)]
)
@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("rule", rules.names())
def test_degenerate_input_is_answered_with_every_row(rule, make, kernel, dtype):
    pool, targets = (array.astype(dtype) for array in make())
    targets = targets_for(rule, pool, targets)
    chosen = tm.select(pool, targets, k=len(pool), rule=rule, kernel=KERNELS[kernel])
    check(chosen, len(pool), rule)
    assert sorted(chosen.indices.tolist()) == list(range(len(pool)))


@pytest.mark.parametrize("noise_std", [1e-6, 1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("rule", rules.names())
def test_any_noise_is_answered(rule, kernel, noise_std):
    for make in (targets_from_the_pool, many_features):
        pool, targets = make()
        targets = targets_for(rule, pool, targets)
        chosen = tm.select(
            pool, targets, k=len(pool), rule=rule, kernel=kernel, noise_std=noise_std
        )
        check(chosen, len(pool), rule)


UNDIRECTED = [name for name in rules.names() if not rules.get(name).needs_targets]


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("rule", UNDIRECTED)
def test_degenerate_input_without_targets_is_answered(rule, make, kernel):
    pool, _ = make()
    for noise_std in (1e-6, 1e6):
        chosen = tm.select(pool, k=len(pool), rule=rule, kernel=kernel, noise_std=noise_std)
        check(chosen, len(pool), rule)
        assert chosen.target_variance.shape == (2, 0)


CHANGED_BY_NORMALISING = [
    equal_rows_and_targets,
    some_zero_rows,
    one_candidate,
    one_feature,
]


@pytest.mark.parametrize("normalize", ["unit", "center", "center+unit"])
@pytest.mark.parametrize("make", CHANGED_BY_NORMALISING, ids=lambda make: make.__name__)
@pytest.mark.parametrize("rule", rules.names())
def test_degenerate_input_is_answered_when_normalised(rule, make, normalize):
    pool, targets = make()
    targets = targets_for(rule, pool, targets)
    chosen = tm.select(pool, targets, k=len(pool), rule=rule, normalize=normalize)
    check(chosen, len(pool), rule)


CLEAR_RANK = [make for make in PROBLEMS if make not in (nearly_equal_rows, scales_far_apart)]
"""The others have eigenvalues around RANK_TOLERANCE, below which the floor takes them for zero."""


@pytest.mark.parametrize("noise_std", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("make", CLEAR_RANK, ids=lambda make: make.__name__)
def test_the_floor_of_degenerate_input_lies_below_what_the_pool_leaves(make, kernel, noise_std):
    pool, targets = make()
    chosen = tm.select(pool, targets, k=len(pool), kernel=kernel, noise_std=noise_std, floor=True)
    before, after = chosen.target_variance
    slack = 1e-8 * before.max()
    assert np.isfinite(chosen.floor).all() and np.isfinite(chosen.whole_pool).all()
    assert (chosen.floor >= 0).all() and (chosen.whole_pool >= 0).all()
    assert (chosen.floor <= chosen.whole_pool + slack).all()
    # every row is picked, so what is left is what the whole pool leaves
    np.testing.assert_allclose(after, chosen.whole_pool, rtol=1e-6, atol=slack)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("rule", rules.names())
def test_repeated_measurements_of_equal_rows_are_answered(rule, kernel):
    pool, targets = equal_rows()
    targets = targets_for(rule, pool, targets)
    if rule in ("cosine", "top-k"):
        with pytest.raises(ValueError, match="replace=True has no meaning"):
            tm.select(pool, targets, k=20, rule=rule, kernel=kernel, replace=True)
        return
    chosen = tm.select(pool, targets, k=20, rule=rule, kernel=kernel, replace=True)
    assert len(chosen) == 20
    assert np.isfinite(chosen.gains).all() and np.isfinite(chosen.uncertainty).all()
    assert (np.diff(chosen.uncertainty) <= 1e-12 * chosen.uncertainty[0]).all()


TIED = [name for name in rules.names() if not rules.is_random(rules.get(name))]


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("rule", TIED)
def test_equal_rows_are_picked_in_the_order_of_their_numbers(rule, kernel):
    pool, targets = equal_rows()
    chosen = tm.select(pool, targets_for(rule, pool, targets), k=N, rule=rule, kernel=kernel)
    assert chosen.indices.tolist() == list(range(N))


INFORMED = [name for name in TIED if name not in ("ctl", "k-center")]  # distance is no knowledge


@pytest.mark.parametrize("rule", INFORMED)
def test_a_row_of_zeros_teaches_nothing(rule):
    pool, targets = some_zero_rows()
    chosen = tm.select(pool, targets_for(rule, pool, targets), k=N, rule=rule, kernel="linear")
    of_zero_rows = chosen.gains[np.isin(chosen.indices, [0, 3, 4])]
    np.testing.assert_array_equal(of_zero_rows, 0.0)


@pytest.mark.parametrize("rule", ["vtl", "itl", "itl-y", "mm-itl", "cosine", "top-k"])
def test_rows_orthogonal_to_the_targets_teach_nothing(rule):
    chosen = tm.select(*orthogonal_targets(), k=N, rule=rule, kernel="linear")
    np.testing.assert_allclose(chosen.gains, 0.0, atol=1e-12)
    assert chosen.uncertainty[0] == chosen.uncertainty[-1]


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_duplicated_targets_change_no_pick_of_rules_that_average(kernel):
    pool, targets = duplicated_targets()
    for rule in ("vtl", "mm-itl", "ctl", "itl", "cosine", "top-k"):
        many = tm.select(pool, targets, k=6, rule=rule, kernel=kernel)
        few = tm.select(pool, targets[::4], k=6, rule=rule, kernel=kernel)
        np.testing.assert_array_equal(many.indices, few.indices)
        np.testing.assert_allclose(many.uncertainty, few.uncertainty, rtol=1e-10)


@pytest.mark.parametrize("rule", rules.names())
@pytest.mark.parametrize(
    ("of_pool", "of_targets", "said"),
    [
        (0.0, 1.0, "pool must not have a prior variance of 0 everywhere"),
        (1e-200, 1.0, "scale all features up"),
        (1.0, 0.0, "targets must not have a prior variance of 0 everywhere"),
        (1e-160, 1.0, "pool must have prior variances that float64 can square"),
        (1.0, 1e-160, "targets must have prior variances that float64 can square"),
    ],
)
def test_rows_of_no_variance_are_refused(rule, of_pool, of_targets, said):
    with pytest.raises(ValueError, match=said):
        tm.select(
            of_pool * normal(N, D),
            of_targets * normal(3, D, seed=1),
            k=3,
            rule=rule,
            kernel="linear",
        )


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("picks", [1, 3])
def test_almost_exact_observations_leave_no_negative_uncertainty(picks, kernel):
    """The rows are nearly equal, so after the first pick their variances are rounding."""
    for seed in range(20):
        pool = normal(1, D, seed=seed) + 1e-8 * normal(N, D, seed=100 + seed)
        chosen = tm.select(pool, None, picks, rule="uncertainty", kernel=kernel, noise_ratio=1e-18)
        assert 0.0 <= chosen.uncertainty.min() < 1e-12 * chosen.uncertainty[0]


@pytest.mark.parametrize("rule", ["vtl", "itl", "ctl", "mm-itl", "uncertainty", "undirected-vtl"])
def test_noise_below_what_float64_resolves_is_named(rule):
    """Copies of five rows: after five picks nothing is left but rounding."""
    generator = np.random.default_rng(0)
    pool = np.repeat(generator.standard_normal((5, 6)), 8, axis=0)
    targets = generator.standard_normal((4, 6))
    with pytest.raises(ValueError, match="The noise is so small"):
        tm.select(pool, targets, 20, rule=rule, noise_std=1e-12)
    assert len(tm.select(pool, targets, 20, rule=rule, noise_std=1e-6)) == 20
