"""The paper's synthetic tasks: their golden numbers, and short runs without a violation."""

from dataclasses import replace

import numpy as np
import pytest

import tellmost as tm
from tellmost_reproduction.safebo.methods import BY_KEY
from tellmost_reproduction.safebo.tasks import barriers, bumps, island, third_bump


def test_the_1d_task_has_its_golden_numbers():
    task = bumps()
    x, f = task.domain[:, 0], task.f
    assert task.is_safe.sum() == 367
    assert f.max() == pytest.approx(1.440856, abs=5e-7)
    assert x[f.argmax()] == pytest.approx(0.4449, abs=5e-5)
    right = np.where(x > 4, f, -np.inf)
    assert right.max() == pytest.approx(0.983085, abs=5e-7)
    assert x[right.argmax()] == pytest.approx(5.4950, abs=5e-5)
    valley = np.where((x > 1) & (x < 3), f, np.inf)
    assert valley.min() == pytest.approx(0.121687, abs=5e-7)
    assert x[valley.argmin()] == pytest.approx(2.028, abs=5e-4)
    assert task.regret(int(right.argmax())) == pytest.approx(0.4578, abs=5e-5)
    assert task.slopes["true"]["g"].constant == pytest.approx(1.685, abs=5e-4)


def test_the_2d_task_has_its_golden_numbers():
    task = island()
    assert task.is_safe.sum() == 805
    assert task.f[task.optimum] == pytest.approx(13.502401, abs=5e-7)
    np.testing.assert_allclose(task.domain[task.optimum], [1.32, 1.32])
    assert task.f.max() == pytest.approx(18.358, abs=5e-4)
    # between neighbours of the grid, just below the steepest slopes of the functions themselves
    slope = {which: slopes["g"].constant for which, slopes in task.slopes.items()}
    assert slope["true"] == pytest.approx(9.65, rel=3e-3)
    assert slope["oracle"] < slope["true"] < 9.65 < slope["estimated"]


def test_a_start_is_drawn_where_the_paper_draws_it_and_told_by_name():
    rng = np.random.default_rng(0)
    assert len(bumps().optimizer(rng).history) == 8
    (start,) = island().optimizer(rng).history
    row = start.index
    assert (np.abs(island().domain[row]) <= 0.5).all()
    assert set(island().measure(row, rng)) == {"objective", "constraints"}
    assert set(bumps().measure(0, rng)) == {"objective"}


@pytest.mark.parametrize("rule", ["vtl", "itl"])
@pytest.mark.parametrize(("make", "rounds"), [(bumps, 60), (island, 15)])
def test_short_runs_find_better_points_without_a_violation(make, rounds, rule):
    task, rng = make(), np.random.default_rng(1)
    optimizer = task.optimizer(rng, BY_KEY[rule])
    before = optimizer.safe_mask.sum()
    first = task.regret(optimizer.best.index)
    for _ in range(rounds):
        query = optimizer.ask()
        assert task.is_safe[query.index]
        assert query.lower["g"] >= 0 and query.purpose in ("explore", "expand")
        optimizer.tell(query, **task.measure(query.index, rng))
    assert optimizer.safe_mask.sum() > before
    assert (optimizer.safe_mask <= task.is_safe).all()
    assert task.regret(optimizer.best.index) <= first
    assert task.regret(optimizer.best.index) <= optimizer.regret_bound()


@pytest.mark.parametrize("make", [bumps, island])
def test_the_true_lipschitz_constants_enlarge_the_safe_set_by_safe_points_alone(make):
    task, rng = make(), np.random.default_rng(2)
    plain = task.optimizer(rng)
    gp = tm.GP(tm.kernels.Gaussian(1.0), noise_std=0.1)
    known = task.slopes["true"]["g"]
    enlarged = tm.SafeOptimizer(
        task.domain,
        objective=gp,
        constraints={"g": tm.Constraint(gp, at_least=0.0, lipschitz=known)},
        beta=task.beta,
        on_violation="continue",
        on_miscalibration="log",
        suspect_z=np.inf,
    )
    for trial in plain.history:
        enlarged.tell(row=trial.index, objective=trial.values["g"])
    assert (enlarged.safe_mask >= plain.safe_mask).all()
    assert (enlarged.safe_mask <= task.is_safe).all()


@pytest.mark.parametrize(
    ("make", "rule", "rounds", "regret"),
    [
        (bumps, "vtl", 500, 0.01),
        (bumps, "itl", 600, 0.01),
        (island, "vtl", 100, 1.6),
        (island, "itl", 100, 1.6),
    ],
)
def test_long_runs_reach_the_safe_optimum_without_a_violation(make, rule, rounds, regret):
    """In 1d beyond the saddle: whoever does not cross it stays at a regret of 0.458."""
    task, rng = make(), np.random.default_rng(0)
    optimizer = task.optimizer(rng, BY_KEY[rule])
    for _ in range(rounds):
        query = optimizer.ask()
        assert task.is_safe[query.index]
        optimizer.tell(query, **task.measure(query.index, rng))
    assert task.regret(optimizer.best.index) <= regret
    assert not any(event.kind == "violation" for event in optimizer.log)


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
    constant = task.slopes["true"]["g"].constant
    assert constant == pytest.approx(slopes.max(), rel=1e-3) and slopes.max() <= constant


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_itl_with_expanders_reaches_the_third_bump_safely(seed):
    task, rng = barriers(), np.random.default_rng(seed)
    optimizer = task.optimizer(rng, BY_KEY["itl-expanders"])
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
    prior = task.objective
    limit = tm.Constraint(prior, at_least=0.0, lipschitz=task.slopes["true"]["g"])
    optimizer = tm.SafeOptimizer(
        task.domain, objective=prior, constraints={"g": limit}, beta=task.beta
    )
    truth = {"g": task.values["g"]}
    by_slope = optimizer.reachable_safe_set(truth=truth, by="lipschitz")
    by_kernel = optimizer.reachable_safe_set(truth=truth, by="kernel")
    assert not (by_slope & third_bump(task)).any()
    np.testing.assert_array_equal(by_slope, task.is_safe & ~third_bump(task))
    np.testing.assert_array_equal(by_kernel, task.is_safe)


def test_a_task_with_two_functions_has_two_priors():
    task = barriers()
    other = tm.Constraint(replace(task.objective), at_least=0.0)
    task = replace(task, constraints={"g": other})
    optimizer = task.optimizer(np.random.default_rng(0))
    assert set(task.measure(0, np.random.default_rng(0))) == {"objective", "constraints"}
    optimizer.tell(row=0, objective=1.0)  # of the objective alone
    np.testing.assert_allclose(optimizer.predict(name="g")[0], 0.1 * task.domain[:, 0])
    assert not np.allclose(optimizer.predict()[0], 0.1 * task.domain[:, 0])
