"""The reachable safe sets of the paper and of SafeOpt."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle_safe_views
import tellmost as tm
from tellmost.safebo import baselines, constraints

KERNELS = [tm.kernels.Matern(1.5, 0.6), tm.kernels.Laplace(1.0)]


class Task:
    """A small domain with two constraints that are drawn from their priors."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.points = rng.uniform(0, 4, size=(18, 2))
        X = torch.from_numpy(self.points)
        self.Ks = [kernel.block(X, X).numpy() for kernel in KERNELS]
        self.truth = [np.linalg.cholesky(K) @ rng.normal(size=18) for K in self.Ks]
        self.limits = [
            float(np.quantile(g, q)) for g, q in zip(self.truth, (0.2, 0.8), strict=True)
        ]
        low, high = self.limits
        self.margins = [self.truth[0] - low, 2 * (high - self.truth[1])]
        self.seed = int(np.argmax(np.minimum(*self.margins)))

    def optimizer(self):
        first = tm.GP(KERNELS[0], noise_std=0.1)
        second = tm.GP(tm.kernels.Scaled(KERNELS[1], 4.0), noise_std=0.2)  # in another unit
        constraints = {
            "a": tm.Constraint(first, at_least=self.limits[0], lipschitz=1.2),
            "b": tm.Constraint(second, at_most=2 * self.limits[1], lipschitz=2.5),
        }
        opt = tm.SafeOptimizer(
            self.points,
            objective=tm.GP(KERNELS[0]),
            constraints=constraints,
            safe_seed=[self.seed],
            on_violation="continue",
        )
        opt.tell(row=self.seed, objective=0.0, constraints=self.values(self.seed))
        return opt

    def values(self, row):
        return {"a": self.truth[0][row], "b": 2 * self.truth[1][row]}

    @property
    def by_name(self):
        return self.values(slice(None))

    @property
    def start(self):
        return np.arange(18) == self.seed


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("epsilon", "beta"), [(0.0, 0.5), (0.0, 1.5), (0.1, 0.5)])
def test_by_the_models_it_is_the_definition(seed, epsilon, beta):
    task = Task(seed)
    margins = [task.margins[0], task.margins[1] / 2]  # in prior standard deviations
    noise = np.array([0.01])
    expected = oracle_safe_views.reachable_by_kernel(
        task.Ks, [task.seed], noise, margins, task.start, epsilon, beta
    )
    found = task.optimizer().reachable_safe_set(
        epsilon, beta, truth=task.by_name, start=[task.seed]
    )
    np.testing.assert_array_equal(found, expected)
    assert beta > 1 or 1 < found.sum() < 18


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_by_lipschitz_constants_it_is_safeopts(seed, epsilon):
    task = Task(seed)
    margins = [task.margins[0], task.margins[1] - epsilon]  # a prior deviation of 2
    expected = oracle_safe_views.reachable_by_lipschitz(
        task.points, margins, (1.2, 2.5), task.start, epsilon
    )
    found = task.optimizer().reachable_safe_set(
        epsilon, truth=task.by_name, by="lipschitz", start=task.start
    )
    np.testing.assert_array_equal(found, expected)
    assert epsilon > 0 or 1 < found.sum() < 18


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["kernel", "lipschitz"]), st.integers(1, 5))
def test_it_grows_with_its_start_and_shrinks_with_slack(seed, by, more):
    task = Task(seed)
    opt = task.optimizer()
    wide = {"beta": 2.0} if by == "kernel" else {}
    rows = np.random.default_rng(seed).permutation(18)

    def reach(start, epsilon=0.0, **beta):
        return opt.reachable_safe_set(epsilon, truth=task.by_name, by=by, start=start, **beta)

    small, large = reach(rows[:more], **wide), reach(rows[: 2 * more], **wide)
    assert (small <= large).all()
    np.testing.assert_array_equal(reach(large, **wide), large)  # nothing is left to reach
    assert (reach(rows[:more], 0.3, **wide) <= small).all()
    if by == "kernel":
        assert (small <= reach(rows[:more], beta=1.0)).all()


def test_without_slack_it_is_what_is_truly_safe():
    task = Task(5)
    found = task.optimizer().reachable_safe_set(0.0, 0.0, truth=task.by_name, start=[])
    np.testing.assert_array_equal(found, (task.margins[0] >= 0) & (task.margins[1] >= 0))


def test_by_default_it_starts_at_what_is_safe_and_takes_means_for_the_truth():
    opt = Task(6).optimizer()
    start = opt.safe_mask.copy()
    start[Task(6).seed] = True
    means = {name: opt.predict(name=name)[0] for name in "ab"}
    beta = 2.5758293035489004  # of confidence 0.99, shared by two limits
    expected = opt.reachable_safe_set(beta=beta, truth=means, start=start)
    np.testing.assert_array_equal(opt.reachable_safe_set(), expected)
    assert expected[start].all()


def test_a_smooth_model_reaches_what_a_seed_determines():
    """f is analytic, so what is seen on the left tells everything about the right."""
    x = np.linspace(0, 3, 60)
    gp = tm.GP(tm.kernels.Gaussian(1.0), noise_std=0.1)
    opt = tm.SafeOptimizer(x, objective=gp, constraints={"g": tm.Constraint(gp, at_least=0.0)})
    truth = {"g": np.where(x < 2.5, 1.0, -1.0)}
    found = opt.reachable_safe_set(0.0, 3.0, truth=truth, start=np.arange(10))
    np.testing.assert_array_equal(found, x < 2.5)
    rough = tm.GP(tm.kernels.Laplace(0.1), noise_std=0.1)
    limits = {"g": tm.Constraint(rough, at_least=0.0)}
    opt = tm.SafeOptimizer(x, objective=rough, constraints=limits)
    assert opt.reachable_safe_set(0.0, 3.0, truth=truth, start=np.arange(10)).sum() == 10


@pytest.mark.skipif(
    "config.getoption('--shapes', False)",
    reason="with shapes checked, annotations refuse bad input before the library does",
)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"beta": float("nan")}, "beta must be"),
        ({"by": "magic"}, "by must be"),
        ({"by": "lipschitz", "beta": 2.0}, "no place"),
        ({"truth": {"a": np.zeros(18)}}, "every constraint by name"),
        ({"truth": {"a": np.zeros(18), "b": np.zeros(3)}}, r"truth\['b'\]"),
        ({"start": [18]}, "row numbers below 18"),
        ({"start": [-1, 3]}, "row numbers below 18"),
        ({"start": [3, 18]}, "row numbers below 18"),
        ({"start": [0.5]}, "start must be"),
    ],
    ids=str,
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Task(0).optimizer().reachable_safe_set(**arguments)


def test_lipschitz_constants_must_be_there_and_a_box_has_no_set():
    gp = tm.GP(tm.kernels.Gaussian(1.0))
    constraints = {"g": tm.Constraint(gp, at_least=0.0)}
    opt = tm.SafeOptimizer([0.0, 1.0], objective=gp, constraints=constraints)
    with pytest.raises(ValueError, match="'g' has none"):
        opt.reachable_safe_set(by="lipschitz")
    opt = tm.SafeOptimizer(tm.Box([0.0], [1.0]), objective=gp, constraints=constraints)
    with pytest.raises(ValueError, match="finite domain"):
        opt.reachable_safe_set()


def test_the_steepest_slope_is_the_least_constant_that_holds():
    X = np.random.default_rng(0).uniform(size=(20, 2))
    f = np.sin(5 * X[:, 0]) * X[:, 1]
    for norm in (1, 2):
        pairs = [(i, j) for i in range(20) for j in range(i)]
        slow = max(abs(f[i] - f[j]) / np.linalg.norm(X[i] - X[j], norm) for i, j in pairs)
        found = baselines.steepest_slope(X, f, norm=norm)
        assert (found.constant, found.norm) == (pytest.approx(slow), norm)


def test_points_reach_and_slopes_are_measured_alike_in_small_pieces(monkeypatch):
    X = torch.from_numpy(np.random.default_rng(0).uniform(size=(20, 2)))
    margins = torch.linspace(0.0, 0.5, 20, dtype=torch.float64)[None]

    def measured():
        reaching = constraints.find_reaching([tm.safebo.Lipschitz(1.0)], X, margins, X[:7] + 0.2)
        return [*reaching.tolist(), baselines.steepest_slope(X, X[:, 0] ** 2).constant]

    whole = measured()
    assert 0 < sum(whole[:20]) < 20
    monkeypatch.setattr(constraints, "CHUNK_BYTES", 200)
    assert measured() == whole


def test_an_estimated_constant_is_that_of_drawn_functions():
    X = np.linspace(0, 10, 201)
    gp = tm.GP(tm.kernels.Scaled(tm.kernels.Gaussian(1.0), 4.0), mean=lambda x: 100 * x[:, 0])
    found = baselines.estimate_lipschitz(gp, X, draws=3, seed=1)
    assert 100 < found.constant < 110  # a slope of 2 is one standard deviation
    more = baselines.estimate_lipschitz(gp, X, draws=6, seed=1)
    assert found == baselines.estimate_lipschitz(gp, X, draws=3, seed=1) and found != more


def test_slopes_are_measured_exactly_far_from_the_origin():
    where = np.stack([np.full(60, 1e5), np.arange(60) * 1e-3], axis=1)
    found = baselines.steepest_slope(where, np.arange(60.0), norm=2)
    assert found.constant == pytest.approx(1000.0, rel=1e-6)
