"""Jumping past local barriers: what a kernel reaches and a Lipschitz constant cannot."""

from dataclasses import replace

import numpy as np
import pytest

import tellmost as tm
from tellmost_reproduction.safebo.tasks import barriers, third_bump


def count_regions(mask):
    return int(mask[0]) + int((np.diff(mask.astype(int)) == 1).sum())


def test_three_bumps_are_safe_and_three_regions_of_two_are_known():
    task = barriers()
    known = task.optimizer(np.random.default_rng(0)).safe_mask
    x = task.domain[:, 0]
    assert count_regions(task.is_safe) == 3
    assert count_regions(known) == 3
    np.testing.assert_array_equal(known, 0.1 * x >= 3 * np.abs(np.sin(x)))
    assert not (known & ~task.is_safe).any()
    assert not (known & third_bump(task)).any()
    assert third_bump(task).sum() > 50
    barrier = (x > x[third_bump(task)].max()) & (x < x[known].min())
    assert (task.f[barrier] < -0.9).any()


def test_no_slope_is_steeper_than_the_lipschitz_constant():
    task = barriers()
    slopes = np.abs(np.diff(task.f) / np.diff(task.domain[:, 0]))
    assert task.lipschitz[1] == pytest.approx(slopes.max(), rel=1e-3)
    assert slopes.max() <= task.lipschitz[1]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_itl_with_expanders_reaches_the_third_bump_safely(seed):
    task, rng = barriers(), np.random.default_rng(seed)
    optimizer = task.optimizer(rng, rule="itl", targets=tm.targets.PotentialExpanders())
    rows = []
    for _ in range(task.rounds):
        query = optimizer.ask()
        rows.append(query.index)
        optimizer.tell(query, **task.measure(query.index, rng))
    reached = optimizer.safe_mask
    assert task.is_safe[rows].all() and not (reached & ~task.is_safe).any()
    assert (reached & third_bump(task)).sum() > 0.9 * third_bump(task).sum()
    # most picks are where the sine is largest, not at the edge of the safe set
    assert np.mean(np.abs(np.sin(task.domain[rows, 0])) > 0.999) > 0.9


def test_a_lipschitz_constant_never_reaches_it_though_it_be_true():
    task = barriers()
    prior = task.prior
    limit = tm.Constraint(prior, at_least=0.0, lipschitz=task.lipschitz[1])
    optimizer = tm.SafeOptimizer(
        task.domain, objective=prior, constraints={"g": limit}, beta=task.beta
    )
    truth = {"g": task.g}
    by_slope = optimizer.reachable_safe_set(truth=truth, by="lipschitz")
    by_kernel = optimizer.reachable_safe_set(truth=truth, by="kernel")
    assert not (by_slope & third_bump(task)).any()
    np.testing.assert_array_equal(by_slope, task.is_safe & ~third_bump(task))
    np.testing.assert_array_equal(by_kernel, task.is_safe)


def test_a_task_with_two_functions_has_two_priors():
    task = replace(barriers(), is_shared=False)
    optimizer = task.optimizer(np.random.default_rng(0))
    assert set(task.measure(0, np.random.default_rng(0))) == {"objective", "constraints"}
    optimizer.tell(0, 1.0)  # of the objective alone
    np.testing.assert_allclose(optimizer.predict(name="g")[0], 0.1 * task.domain[:, 0])
    assert not np.allclose(optimizer.predict()[0], 0.1 * task.domain[:, 0])
