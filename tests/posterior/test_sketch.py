"""What a sketch says beside the dense result, within the bound that it states."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

import oracle
from problems import tensor
from tellmost.kernels import Gaussian, Kernel, Linear, Matern, Sum
from tellmost.posterior import sketch as sketches
from tellmost.posterior.function_tracker import FunctionTracker
from tellmost.posterior.interpolation import InducingPoints, Interpolated, Interpolation
from tellmost.posterior.problem import Observation, Problem, TargetState
from tellmost.posterior.sketch import (
    Dense,
    Features,
    IndependentRows,
    Question,
    Seen,
    Sketch,
)
from tellmost.rows.pool import Pool
from tellmost.safebo.round_state import SEEING_TOLERANCE, SKETCH_NOISE, SKETCH_TOLERANCE

KERNELS = {"gaussian": Gaussian(1.0), "matern": Matern(2.5, 3.0)}
N = 250
NOISE = np.array([0.01, 0.04])
ROUNDING = 1e-9  # of the largest value, for sums of hundreds of terms over a small noise
NOISES = [0.01, 0.1, 1.0]
COUNTS = [0, 3, 40, 200]


@dataclass(frozen=True)
class Case:
    """Points in a cube, a ball of targets among them, and rows observed, some repeatedly."""

    kernel: Kernel
    X: torch.Tensor
    is_target: torch.Tensor
    observed: list[int]
    noise: np.ndarray  # variances

    @property
    def K(self) -> np.ndarray:
        return self.kernel.block(self.X, self.X).numpy()

    @property
    def target_rows(self) -> np.ndarray:
        return self.is_target.nonzero()[:, 0].numpy()

    def sketch(self, tolerance: float) -> Sketch:
        features = Features.of(self.kernel, self.X, tolerance, N)
        assert features is not None
        return Sketch(features, list(zip(self.observed, self.noise.tolist(), strict=True)))

    def interpolation(self, most: int) -> Interpolation:
        inducing = InducingPoints.of(self.kernel, self.X, most)
        assert inducing is not None
        return inducing.among(self.X, contexts=0)

    def interpolated(self, interpolation: Interpolation) -> Interpolated:
        everywhere = torch.ones(N, dtype=torch.bool)
        return Interpolated(interpolation, self.tracker(), everywhere)

    def tracker(self) -> FunctionTracker:
        parts = zip(self.observed, self.noise, strict=True)
        return FunctionTracker(
            Problem(
                kernel=self.kernel,
                rows=Pool.of(self.X),
                noise_variance=torch.ones(N, dtype=torch.float64),
                prior_variance=torch.ones(N, dtype=torch.float64),
                observed=tuple(Observation(self.X[i : i + 1], float(v)) for i, v in parts),
                needs=frozenset({"variance"}),
                target_noise_variance=0.0,
                columns_ahead=1,
            )
        )

    def field(
        self, maker: Sketch | Interpolated | Dense, name: str, noise: float = 0.0
    ) -> np.ndarray:
        """The field at all rows."""
        m = int(self.is_target.sum())
        ones = torch.ones(m, dtype=torch.float64)
        targets, rows = TargetState(ones, ones, ones / m), torch.arange(N)
        values = torch.empty(N, dtype=torch.float64)
        needs = frozenset({name})
        asked = Question(rows, self.is_target, targets, needs, noise)
        for piece, fields in maker.fields(asked):
            values[piece] = fields[name]
        return values.numpy()


def make_case(name: str, d: int, noise_std: float, t: int) -> Case:
    rng = np.random.default_rng([d, t])
    X = rng.uniform(0, 3, (N, d))
    far = np.linalg.norm(X - rng.uniform(0, 3, d), axis=1)
    is_target = torch.from_numpy(far <= np.quantile(far, rng.uniform(0.05, 0.6)))
    observed = rng.integers(0, N, t).tolist()
    noise = noise_std**2 * rng.uniform(0.5, 2.0, t)
    return Case(KERNELS[name], tensor(X), is_target, observed, noise)


def tolerance_for(noise_std: float) -> float:
    return min(SKETCH_TOLERANCE, SKETCH_NOISE * noise_std**2)


def deviations(case: Case, sketch: Sketch, rows: list[int], noise: np.ndarray, epsilon: float):
    """delta of the docstring, by the weights with which the sketch itself reads the data."""
    phi = sketch.features.rows.numpy()
    K = phi @ phi.T
    weights = np.linalg.solve(K[np.ix_(rows, rows)] + np.diag(noise), K[rows])
    return np.sqrt(epsilon) * (1 + np.abs(weights).sum(axis=0))


smooth_problems = [
    pytest.mark.parametrize("name", KERNELS),
    pytest.mark.parametrize("d", [1, 2, 3]),
    pytest.mark.parametrize("noise_std", NOISES),
    pytest.mark.parametrize("t", COUNTS),
]


def on_smooth_problems(test):
    for mark in smooth_problems:
        test = mark(test)
    return test


@on_smooth_problems
@pytest.mark.parametrize("most", [40, N])
def test_covariances_from_inducing_points_err_by_what_these_leave_open(
    name, d, noise_std, t, most
):
    """f is phi'w + e, and e of a point has no more variance than the prior leaves it.

    So sqrt(sum_a w_a k_D(x, a)^2) errs by the deviations of phi_x'w and e_a, e_x and phi_a'w, and
    e_x and e_a, each pair multiplied.
    """
    case = make_case(name, d, noise_std, t)
    made = case.interpolation(most)
    phi, sigma = made.features.double(), made.covariance_after(case.tracker())
    told = (phi @ sigma * phi).sum(dim=1).numpy()
    left = (1 - phi.square().sum(dim=1)).clamp(min=0).numpy()
    exact = oracle.condition(case.K, case.observed, case.noise)[:, case.target_rows]
    expected = np.sqrt(np.square(exact).mean(axis=1))
    found = np.sqrt(case.field(case.interpolated(made), "squared_covariance"))
    of_targets = np.sqrt([told[case.target_rows].mean(), left[case.target_rows].mean()])
    bound = np.sqrt(told) * of_targets[1] + np.sqrt(left) * of_targets.sum()
    assert (np.abs(found - expected) <= bound + 1e-8).all()
    if most == N:
        assert np.abs(found - expected).max() <= 1e-3 * expected.max() + 3e-7


def test_inducing_points_are_exact_about_each_other():
    case = make_case("matern", 2, 0.1, 40)
    made = case.interpolation(30)
    found = made.root @ made.covariance_after(case.tracker()) @ made.root.T
    rows = [int((z == case.X).all(dim=1).nonzero()[0]) for z in made.inducing]
    expected = oracle.condition(case.K, case.observed, case.noise)[np.ix_(rows, rows)]
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_features_are_made_anew_only_if_the_kernel_tells_contexts_apart():
    X = tensor(np.random.default_rng(0).uniform(0, 3, (60, 2)))
    under = [torch.cat([X, torch.full((60, 1), c, dtype=torch.float64)], dim=1) for c in (0, 2)]
    stationary = InducingPoints.of(Gaussian(1.0), under[0], 40)
    first, second = (stationary.among(points, contexts=1) for points in under)
    assert second.features is first.features
    assert (second.inducing[:, 2] == 2.0).all()
    growing = InducingPoints.of(Sum(Gaussian(1.0), Linear()), under[0], 40)
    first, second = (growing.among(points, contexts=1) for points in under)
    assert second.features is not first.features
    K = growing._kernel.block(under[1], under[1])
    rest = K - (second.features @ second.features.T).double()
    assert float(rest.diagonal().abs().max()) < 0.2 * float(K.max())


def test_rough_functions_have_no_inducing_points():
    assert InducingPoints.of(Matern(0.5, 0.01), make_case("matern", 2, 0.1, 0).X, 40) is None


@on_smooth_problems
def test_seeing_noisy_targets_errs_within_the_stated_bound_and_never_upwards(
    name, d, noise_std, t
):
    case, epsilon = make_case(name, d, noise_std, t), tolerance_for(noise_std)
    sketch = case.sketch(epsilon)
    rows = [*case.observed, *case.target_rows.tolist()]
    noise = np.concatenate([case.noise, np.full(len(case.target_rows), noise_std**2)])
    expected = np.diag(oracle.condition(case.K, rows, noise))
    error = expected - case.field(sketch, "variance_given_targets", noise_std**2)
    delta = deviations(case, sketch, rows, noise, epsilon)
    assert (error >= -ROUNDING).all()
    assert (error <= delta**2 + ROUNDING).all()
    assert error.max() <= 0.05 * noise_std**2  # beside which it is read


@on_smooth_problems
def test_seeing_f_at_the_targets_equals_the_dense_result_at_the_same_rank(name, d, noise_std, t):
    """To 1e-4 nats: eigenvalues on either side of the rank tolerance are what differs."""
    case = make_case(name, d, noise_std, t)
    variance = np.diag(oracle.condition(case.K, case.observed, case.noise))
    gains = [
        0.5 * np.log((variance + noise_std**2) / (left + noise_std**2))
        for left in (
            case.field(case.sketch(SEEING_TOLERANCE), "variance_given_targets"),
            case.field(Dense(case.tracker()), "variance_given_targets"),
        )
    ]
    np.testing.assert_allclose(*gains, atol=1e-4)


@pytest.mark.parametrize("within", [True, False])
def test_dense_gains_skip_the_targets_where_f_is_known(within):
    X = tensor(np.linspace(0, 20, N)[:, None])
    case = Case(Matern(2.5, 0.1), X, torch.arange(N) < (N if within else N // 2), [3, 9], NOISE)
    variance = case.field(Dense(case.tracker()), "variance_given_targets")
    expected = oracle.condition_exactly(case.K, case.target_rows)
    expected = np.diag(oracle.condition(expected, case.observed, case.noise))
    np.testing.assert_allclose(variance, expected, atol=1e-9)
    assert (variance[case.target_rows] == 0.0).all()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_seeing_independent_rows_equals_the_dense_result(share):
    X = tensor(np.random.default_rng(0).uniform(0, 8, (N, 2)))
    is_target = torch.from_numpy(np.random.default_rng(1).random(N) < share)
    case = Case(Matern(1.5, 1.0), X, is_target, [3, 9, 9, 40, 41], np.full(5, 0.01))
    independent = IndependentRows(case.kernel, X)
    assert independent.are_proven
    seen = Seen(independent, list(zip(case.observed, case.noise, strict=True)), case.tracker())
    variance = case.field(seen, "variance_given_targets")
    expected = oracle.condition_exactly(case.K, case.target_rows)
    expected = np.diag(oracle.condition(expected, case.observed, case.noise))
    np.testing.assert_allclose(variance, expected, atol=1e-9)
    dense = case.field(Dense(case.tracker()), "variance_given_targets")
    np.testing.assert_allclose(variance, dense, atol=1e-9)
    assert (variance[case.target_rows] == 0.0).all()


@pytest.mark.parametrize("why", ["rows tell each other", "the noise is lost"])
def test_targets_are_seen_densely_where_that_alone_is_sure(why):
    case = make_case("gaussian", 2, 0.1, 40)
    if why == "the noise is lost":
        told = np.flatnonzero(~case.is_target.numpy())[[0, 0, 0, 1, 1]].tolist()
        case = replace(case, kernel=Matern(0.5, 0.5), observed=told, noise=np.full(5, 1e-18))
    independent = IndependentRows(case.kernel, case.X)
    assert independent.are_proven == (why == "the noise is lost")
    observed = list(zip(case.observed, case.noise.tolist(), strict=True))
    np.testing.assert_array_equal(
        case.field(Seen(independent, observed, case.tracker()), "variance_given_targets"),
        case.field(Dense(case.tracker()), "variance_given_targets"),
    )


def test_features_leave_out_at_most_the_tolerance():
    case = make_case("matern", 2, 0.1, 0)
    for epsilon in (1e-2, 1e-4, 1e-6):
        features = Features.of(case.kernel, case.X, epsilon, N)
        rest = case.K - (features.rows @ features.rows.T).numpy()
        assert np.diag(rest).max() <= epsilon
        assert np.linalg.eigvalsh(rest).min() >= -1e-14
        assert Features.of(case.kernel, case.X, epsilon, features.rank) is not None
        assert Features.of(case.kernel, case.X, epsilon, features.rank - 1) is None


def test_pivots_among_some_rows_serve_all_rows(monkeypatch):
    """The rows that were not drawn are held to the same tolerance."""
    case = make_case("matern", 2, 0.1, 0)
    monkeypatch.setattr(sketches, "SAMPLED_ROWS", 60)
    features = Features.of(case.kernel, case.X, 1e-4, N)
    rest = case.K - (features.rows @ features.rows.T).numpy()
    assert np.diag(rest).max() <= 1e-4
    assert np.linalg.eigvalsh(rest).min() >= -1e-14
    assert Features.of(case.kernel, case.X, 1e-4, features.rank - 1) is None


def test_rough_functions_are_known_to_need_many_features_by_some_rows(monkeypatch):
    line = tensor(np.linspace(0, 20, N)[:, None])
    monkeypatch.setattr(sketches, "SAMPLED_ROWS", 100)
    monkeypatch.setattr(torch.linalg, "solve_triangular", None)  # it would read all rows
    assert Features.of(Matern(2.5, 0.1), line, SEEING_TOLERANCE, N // 4) is None


def test_moments_follow_targets_that_come_and_go():
    case = make_case("gaussian", 2, 0.1, 0)
    features = Features.of(case.kernel, case.X, SEEING_TOLERANCE, N)
    rng = np.random.default_rng(0)
    chosen = case.is_target
    for share in (0.02, 0.02, 0.9, 0.02, 0.0):
        chosen = chosen ^ torch.from_numpy(rng.random(N) < share)
        some = features.rows[chosen]
        torch.testing.assert_close(features.moments(chosen), some.T @ some, rtol=1e-12, atol=1e-10)
        unseen = features.unseen(chosen)
        largest = torch.linalg.eigvalsh(some.T @ some).max()
        assert unseen.shape[1] > 0
        assert float((some @ unseen).square().sum(dim=0).max()) <= 1.01e-10 * float(largest)
