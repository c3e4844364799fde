"""Whether the verdict on a prior is right, and whether it is called wrong seldom enough."""

import dataclasses

import numpy as np
import pytest
import torch

import oracle_safe_views
import tellmost as tm
from tellmost.numerics import CALIBRATION_ERROR
from tellmost.posterior.gp import Data
from tellmost.safebo.calibration import TOO_FEW, examine, weigh
from tellmost.safebo.outputs import Output

PRIOR = tm.GP(tm.kernels.Gaussian(1.0), noise_std=0.1)


def draw(rng, n, lengthscale=1.0, noise_std=0.1, prior_std=1.0, places=None):
    """Values at n of some places on a line, each with its own noise."""
    where = rng.uniform(0, 10, size=(places or n, 1))
    X = torch.from_numpy(where[rng.integers(len(where), size=n)] if places else where)
    C = prior_std**2 * tm.kernels.Gaussian(lengthscale).block(X, X)
    y = torch.linalg.cholesky(C + noise_std**2 * torch.eye(n)) @ torch.randn(
        n, generator=torch.Generator().manual_seed(int(rng.integers(2**31))), dtype=torch.float64
    )
    return X, y


def judge(X, y, prior=PRIOR):
    output = Output(("objective",), prior, 1.0, prior.kernel)
    return examine(output, X, y, torch.full((len(y),), prior.noise_std**2, dtype=torch.float64))


def test_a_right_prior_is_called_wrong_at_most_at_the_stated_rate():
    """150 runs, each looked at three times: more than 19 wrong calls have probability 1e-4."""
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(150):
        X, y = draw(rng, 60, places=40)
        wrong += any(judge(X[:n], y[:n]).is_wrong for n in (15, 30, 60))
    assert wrong <= 19
    assert CALIBRATION_ERROR == 0.05  # of which 19 of 150 is the quantile


@pytest.mark.parametrize(
    ("truth", "verdict", "finding"),
    [
        ({"lengthscale": 0.5}, "overconfident", "shorter distances"),
        ({"lengthscale": 2.0}, "underconfident", "longer distances"),
        ({"noise_std": 0.3}, "overconfident", "scatter more"),
        ({"noise_std": 0.1 / 3}, "underconfident", "scatter less"),
        ({"prior_std": 3.0}, "overconfident", "farther from the prior mean"),
    ],
    ids=str,
)
def test_a_wrong_prior_is_usually_found_with_sixty_observations(truth, verdict, finding):
    rng = np.random.default_rng(1)
    found = [judge(*draw(rng, 60, **truth)).verdict for _ in range(20)]
    right = [word.startswith(verdict) and finding in word for word in found]
    assert sum(right) >= 16


@pytest.mark.parametrize("places", [None, 12])
def test_z_scores_are_those_of_places_left_out(places):
    rng = np.random.default_rng(2)
    X, y = draw(rng, 30, places=places)
    K, noise = PRIOR.kernel.block(X, X).numpy(), np.full(30, 0.01)
    z = judge(X, y).z
    number = np.unique(X.numpy(), return_inverse=True)[1].reshape(-1)
    for place in range(number.max() + 1):
        here = number == place
        mean, covariance = oracle_safe_views.left_out(K, noise, y.numpy(), number, place)
        missed = y.numpy()[here] - mean
        squares = missed @ np.linalg.solve(covariance, missed)
        assert np.square(z[here]).sum() == pytest.approx(squares, rel=1e-7)
        first = missed[0] / covariance[0, 0] ** 0.5  # of a place, from other places alone
        assert z[here][0] == pytest.approx(first, rel=1e-7, abs=1e-9)


def test_repeats_do_not_hide_a_wrong_prior():
    """Left out one by one, twins would predict each other well."""
    rng = np.random.default_rng(3)
    X, y = draw(rng, 30, lengthscale=0.2)
    twice = judge(
        torch.cat([X, X]), torch.cat([y, y + 0.1 * torch.from_numpy(rng.normal(size=30))])
    )
    assert twice.places == 30
    assert np.square(twice.z[:30]).mean() > 2


def test_coverage_counts_the_values_within_each_interval():
    one = dataclasses.replace(judge(*draw(np.random.default_rng(4), 4)), z=np.arange(4.0))
    assert one.coverage == {0.5: 0.25, 0.8: 0.5, 0.95: 0.5, 0.99: 0.75}


def make(prior=PRIOR):
    limited = tm.Constraint(tm.GP(tm.kernels.Gaussian(1.0), noise_std=0.2), at_least=-9.0)
    constraints = {"height": limited}
    domain = np.linspace(0, 10, 101)
    return tm.SafeOptimizer(domain, objective=prior, constraints=constraints, safe_seed=[50])


def test_few_observations_say_little():
    opt = make()
    assert opt.calibration()["height"].verdict == TOO_FEW
    opt.tell(row=50, objective=0.1, constraints={"height": 0.3})
    assert opt.calibration()["objective"].verdict == TOO_FEW
    assert "half the lengthscale" in opt.calibration()["objective"].advice


def test_prior_data_partial_values_and_noise_of_their_own_count():
    X, y = draw(np.random.default_rng(5), 20)
    data = Data(X, y, torch.full((20,), 0.01, dtype=torch.float64))
    opt = make(dataclasses.replace(PRIOR, data=data))
    opt.tell(row=3, objective=1.5, noise_std=0.7)
    opt.tell(row=7, constraints={"height": 0.0})
    opt.tell(row=9, failed=True)
    found = opt.calibration()
    K = PRIOR.kernel.block(*[torch.cat([X, torch.tensor([[0.3]])])] * 2).numpy()
    noise, r = np.r_[np.full(20, 0.01), 0.49], np.r_[y.numpy(), 1.5]
    places = np.arange(21)
    mean, covariance = oracle_safe_views.left_out(K, noise, r, places, 20)
    assert found["objective"].z[20] == pytest.approx((1.5 - mean[0]) / covariance[0, 0] ** 0.5)
    assert len(found["height"].z) == 1


def test_the_unit_of_an_output_changes_nothing():
    X, y = draw(np.random.default_rng(6), 40)
    kernel = tm.kernels.Scaled(PRIOR.kernel, 100.0)
    prior = tm.GP(kernel, noise_std=1.0)
    output = Output.of(("objective",), prior, X)
    large = examine(output, X, 10 * y, torch.ones(40, dtype=torch.float64))
    np.testing.assert_allclose(large.z, judge(X, y).z, rtol=1e-9)
    assert large.evidence == pytest.approx(judge(X, y).evidence)


def test_a_kernel_without_lengthscale_is_judged_by_the_rest():
    prior = tm.GP(tm.kernels.Linear(), noise_std=0.1)
    X = torch.linspace(-1, 1, 30, dtype=torch.float64)[:, None]
    y = 0.3 * X[:, 0] + 0.6 * torch.from_numpy(np.random.default_rng(7).normal(size=30))
    assert judge(X, y, prior).verdict.startswith("overconfident: values scatter more")


def test_the_table_names_every_output_once_and_says_what_to_do():
    shared = tm.Constraint(PRIOR, at_least=-9.0)
    opt = tm.SafeOptimizer(
        np.linspace(0, 10, 101), objective=PRIOR, constraints={"height": shared}, safe_seed=[50]
    )
    for row, y in zip(range(0, 100, 4), draw(np.random.default_rng(8), 25, 0.1)[1], strict=True):
        opt.tell(row=row, objective=float(y))
    found = opt.calibration()
    lines = str(found).splitlines()
    assert found["height"] is found["objective"] and found.is_wrong
    assert [line.split()[0] for line in lines] == ["output", "objective", "objective:", "A"]
    assert lines[1].endswith("overconfident")
    assert "refit()" in lines[2]


def test_without_alternatives_nothing_speaks_against_a_prior():
    assert weigh({}) == (0.0, None)
