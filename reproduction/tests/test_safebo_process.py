"""The 6d task: the reactor against a slow version, golden numbers, and runs inside the limits."""

import numpy as np
import oracle_reactor
import pytest
import torch

from tellmost_reproduction.safebo.methods import BY_KEY
from tellmost_reproduction.safebo.process import (
    HOTTEST,
    NOISE_STD,
    PRIORS,
    PUREST,
    SAMPLE,
    evaluate,
    fit_priors,
    process,
)
from tellmost_reproduction.safebo.reactor import RECIPES, make_batch
from tellmost_reproduction.safebo.runs import Job, run


def test_the_reactor_agrees_with_a_slow_version_of_its_equations():
    recipes = RECIPES.sobol(4, seed=5).numpy()
    batch = make_batch(recipes)
    expected = np.array([oracle_reactor.make_batch(recipe) for recipe in recipes.tolist()]).T
    np.testing.assert_allclose(batch.production, expected[0], atol=1e-3)
    np.testing.assert_allclose(batch.temperature, expected[1], atol=0.01)
    np.testing.assert_allclose(batch.purity, expected[2], atol=1e-3)


def test_no_more_is_produced_than_there_is_to_make_it_of():
    slow = np.array([[300.0, 0.5, 1.0, 1.5, 1.0, 2.5]])
    batch = make_batch(slow)
    assert 0 < batch.purity[0] < 100
    assert batch.production[0] < 120 * 2.5 / (5.0 + 2.5 + 1.0)  # no more than there is of A


def test_the_task_has_its_golden_numbers():
    task = process()
    assert task.is_safe.sum() == 324
    best = {name: values[task.optimum] for name, values in task.values.items()}
    expected = {"objective": 77.7654, "temperature": 325.0388, "purity": 91.4955}
    assert best == pytest.approx(expected, abs=5e-4)
    first = {name: values[task.starts[0]] for name, values in task.values.items()}
    expected = {"objective": 32.6608, "temperature": 313.7623, "purity": 94.9548}
    assert first == pytest.approx(expected, abs=5e-4)
    true = task.slopes["true"]
    assert true["temperature"].constant == pytest.approx(20.258, abs=5e-3)
    assert true["purity"].constant == pytest.approx(20.290, abs=5e-3)


def test_it_starts_safe_and_far_from_the_best_recipe_which_is_near_the_limits():
    task = process()
    assert task.is_safe[task.starts].all() and len(set(task.starts.tolist())) == 12
    assert min(task.regret(row) for row in task.starts.tolist()) > 30
    apart = np.linalg.norm(task.domain[task.starts] - task.domain[task.optimum], axis=1)
    assert apart.min() > 0.5
    best = {name: values[task.optimum] for name, values in task.values.items()}
    assert HOTTEST - best["temperature"] < 0.1 * np.ptp(task.values["temperature"])
    assert best["purity"] - PUREST < 0.1 * np.ptp(task.values["purity"])


def test_both_limits_are_graded_and_both_exclude_better_recipes():
    task = process()
    f, heat, purity = (task.values[name] for name in NOISE_STD)
    for values, limit in ((heat, HOTTEST), (purity, PUREST)):
        beyond = np.abs(values - limit) / values.std()
        assert len(np.unique(values.round(6))) > 2_000
        assert (beyond < 0.25).mean() > 0.1  # many are just inside or just outside
        assert np.quantile(beyond, 0.9) > 1.5
    best = f[task.optimum]
    assert f[heat <= HOTTEST].max() > best + 5
    assert f[purity >= PUREST].max() > best + 5


def test_the_priors_are_those_of_their_recipe():
    for name, gp in fit_priors().items():
        kernel, given = gp.kernel, PRIORS[name].kernel
        assert kernel.factor == pytest.approx(given.factor, rel=0.02)
        found, kept = (np.array(k.kernel.lengthscale) for k in (kernel, given))
        is_felt = kept < 100  # beyond, the output does not depend on the parameter
        np.testing.assert_allclose(found[is_felt], kept[is_felt], rtol=0.02)
        assert gp.mean == pytest.approx(PRIORS[name].mean, abs=0.06)


def test_what_the_priors_predict_is_as_far_off_as_they_say():
    task, rng = process(), np.random.default_rng(0)
    shares = rng.random((SAMPLE, 6))
    X, Z = torch.from_numpy(shares), torch.from_numpy(task.domain)
    for name, values in evaluate(shares).items():
        gp, std = PRIORS[name], NOISE_STD[name]
        y = torch.from_numpy(values + std * rng.standard_normal(SAMPLE)) - gp.mean
        C = gp.kernel.block(X, X) + std**2 * torch.eye(SAMPLE, dtype=torch.float64)
        K = gp.kernel.block(Z, X)
        mean = gp.mean + K @ torch.linalg.solve(C, y)
        variance = gp.kernel.diagonal(Z) - (K * torch.linalg.solve(C, K.T).T).sum(dim=1)
        z = (torch.from_numpy(task.values[name]) - mean) / variance.sqrt()
        assert float(z.square().mean().sqrt()) == pytest.approx(1.0, abs=0.15)
        assert float((z.abs() < 3).double().mean()) > 0.98


def test_a_measurement_is_told_by_name_with_the_noise_of_each_output():
    task, rng = process(), np.random.default_rng(0)
    told = [task.measure(7, rng) for _ in range(400)]
    heat = np.array([one["constraints"]["temperature"] for one in told])
    assert heat.std() == pytest.approx(NOISE_STD["temperature"], rel=0.15)
    assert heat.mean() == pytest.approx(task.values["temperature"][7], abs=0.1)
    assert set(told[0]) == {"objective", "constraints"}


@pytest.mark.parametrize("key", ["vtl", "heuristic-safeopt", "safeopt"])
def test_short_runs_stay_inside_the_limits(key):
    found = run(Job(process(), BY_KEY[key], seed=0, rounds=25))
    assert not found.violates.any() and not found.wrong.any() and found.refusal == ""
    if key == "safeopt":  # no start reaches another row by the steepest slopes
        assert (found.safe == 12).all()
    else:
        assert found.safe[-1] > 3 * found.safe[0]
        assert found.regret[-1] < found.regret[0] - 5


def test_a_method_that_is_not_safe_violates_the_limits():
    found = run(Job(process(), BY_KEY["eic"], seed=0, rounds=15))
    assert found.violates.sum() > 3
