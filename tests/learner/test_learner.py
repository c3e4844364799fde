"""Ask, tell and predict against the dense formulas."""

import numpy as np
import pytest
import torch
from adaptive_rounds import Rounds
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import tellmost as tm

RULES = ("vtl", "itl", "mm-itl", "ctl", "uncertainty", "undirected-itl", "undirected-vtl")
KERNELS = {
    "gaussian": (tm.kernels.Gaussian(0.8), lambda x, z: oracle.gaussian(x, z, 0.8)),
    "laplace": (tm.kernels.Laplace(2.0), lambda x, z: oracle.laplace(x, z, 2.0)),
    "linear": (tm.kernels.Linear(), oracle.linear),
}


def slope(x):
    return 0.3 * x[..., 0] - 0.1


def make(seed, kernel="gaussian", rule="vtl", n=12, m=3, **more):
    rng = np.random.default_rng(seed)
    pool, targets = rng.uniform(-1, 1, (n, 2)), rng.uniform(-1, 1, (m, 2))
    noise_std = rng.uniform(0.1, 0.5, n)
    ours, theirs = KERNELS[kernel]
    arguments = {"targets": targets, "noise_std": noise_std, "rule": rule, "mean": slope, **more}
    learner = tm.ActiveLearner(ours, pool=pool, **arguments)
    return learner, Rounds(theirs, pool, noise_std**2, slope), targets, rng


def best_rows(gains):
    return set(np.flatnonzero(gains >= gains.max() * (1 - 1e-7) - 1e-12))


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), kernel=st.sampled_from(sorted(KERNELS)))
def test_predictions_are_those_of_the_textbook_after_every_observation(seed, kernel):
    learner, rounds, targets, rng = make(seed, kernel)
    for _ in range(6):
        if rng.random() < 0.5:  # a row of the pool, perhaps again
            row = int(rng.integers(3))
            y = rng.normal()
            learner.tell(row, y)
            rounds.tell(rounds.pool[row], y, rounds.noise[row])
        else:  # a point that nobody asked for, with a noise of its own
            point, y, std = rng.uniform(-2, 2, 2), rng.normal(), rng.uniform(0.1, 1)
            learner.tell(point, y, noise_std=std)
            rounds.tell(point, y, std**2)
        for X in (None, targets):
            mean, std = learner.predict(X)
            expected_mean, expected_variance = rounds.predict(rounds.pool if X is None else X)
            np.testing.assert_allclose(mean, expected_mean, atol=1e-9)
            np.testing.assert_allclose(std**2, expected_variance, atol=1e-10)


@settings(max_examples=24, deadline=None)
@given(seed=st.integers(0, 10**6), rule=st.sampled_from(RULES))
def test_each_ask_is_the_best_by_the_rule_given_all_that_was_told(seed, rule):
    learner, rounds, targets, rng = make(seed, rule=rule)
    for _ in range(4):
        gains = rounds.gains(rule, targets)
        np.testing.assert_allclose(learner.gains(), gains, rtol=1e-6, atol=1e-9)
        (row,) = learner.ask()
        assert int(row) in best_rows(gains)
        for _ in range(2):  # what is asked and what is not
            y = rng.normal()
            learner.tell(row, y)
            rounds.tell(rounds.pool[row], y, rounds.noise[row])
            row = int(rng.integers(len(rounds.pool)))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), rule=st.sampled_from(("itl", "vtl", "mm-itl", "ctl", "itl-y")))
def test_targets_that_change_are_learned_about_as_if_they_had_always_been_there(seed, rule):
    def moving(known):
        return targets + 0.3 * known.mean[:3, None]

    named = tm.rules.ITL(about="y", target_noise_std=0.2) if rule == "itl-y" else rule
    _, rounds, targets, rng = make(seed, rule=named)
    moved = tm.ActiveLearner(
        KERNELS["gaussian"][0],
        pool=rounds.pool,
        targets=moving,
        noise_std=np.sqrt(rounds.noise),
        rule=named,
        mean=slope,
    )
    for _ in range(4):
        now = targets + 0.3 * rounds.predict(rounds.pool)[0][:3, None]
        gains = rounds.gains(rule, now, target_noise=0.04 if rule == "itl-y" else 0.0)
        np.testing.assert_allclose(moved.target_points, now, atol=1e-9)
        np.testing.assert_allclose(moved.gains(), gains, rtol=1e-5, atol=1e-8)
        row, y = int(rng.integers(len(rounds.pool))), rng.normal()
        moved.tell(row, y)
        rounds.tell(rounds.pool[row], y, rounds.noise[row])


@pytest.mark.parametrize("rule", ["vtl", "itl", "random", "k-center", "mmr"])
def test_a_batch_is_chosen_as_if_those_before_had_been_measured(rule):
    learner, _, _, rng = make(3, rule=rule)
    learner.tell([1, 2], [0.4, -1.0])
    batch = learner.ask(5)
    before = learner.predict()
    singly = []
    for _ in range(5):
        singly += learner.ask().tolist()
        learner.tell(singly[-1], rng.normal())
    assert batch.tolist() == singly
    assert before[0].shape == (12,) and not np.allclose(before[0], learner.predict()[0])


def test_asking_changes_nothing():
    learner, *_ = make(5)
    learner.tell(0, 1.0)
    before = learner.gains(), *learner.predict(), learner.uncertainty()
    first = learner.ask(4)
    assert learner.ask(4).tolist() == first.tolist()
    assert learner.ask().tolist() == first[:1].tolist()
    after = learner.gains(), *learner.predict(), learner.uncertainty()
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("rule", ["vtl", "itl", "mm-itl", "uncertainty"])
def test_the_learner_picks_as_select_does_where_nothing_depends_on_y(rule):
    rng = np.random.default_rng(8)
    pool, targets = rng.uniform(-2, 2, (60, 2)), rng.uniform(-1, 1, (5, 2))
    kernel = tm.kernels.Matern(1.5, 1.0)
    learner = tm.ActiveLearner(kernel, pool=pool, targets=targets, noise_std=0.1, rule=rule)
    picks = []
    for _ in range(20):
        picks += learner.ask().tolist()
        learner.tell(picks[-1], rng.normal())
    chosen = tm.select(
        pool, targets, 20, rule=rule, kernel=kernel, noise_std=0.1, replace=True, floor=True
    )
    assert picks == chosen.indices.tolist()
    assert learner.uncertainty() == pytest.approx(chosen.uncertainty[-1], rel=1e-9)
    assert learner.floor() == pytest.approx(chosen.floor.mean(), rel=1e-6, abs=1e-12)


def test_without_repeats_no_row_is_asked_for_twice_and_then_there_are_none():
    learner, *_ = make(1, n=5, replace=False)
    rows = learner.ask(3).tolist()
    learner.tell(rows, [0.0, 1.0, 2.0])
    rows += learner.ask(2).tolist()
    assert sorted(rows) == [0, 1, 2, 3, 4]
    learner.tell(rows[3:], [0.0, 0.0])
    with pytest.raises(ValueError, match="no candidate is left"):
        learner.ask()


def test_sample_spaces_may_change_with_the_posterior():
    learner, *_ = make(2, candidates=lambda known: known.mean + known.std > 0.0)
    learner.tell(range(6), np.full(6, -1.0))
    mean, std = learner.predict()
    is_open = mean + std > 0.0
    assert 0 < is_open.sum() < 12
    assert is_open[learner.ask(4)].all()


def test_noise_may_be_a_function_of_the_point():
    def noise_std(points):
        return 0.1 + np.abs(points[:, 0])

    learner, rounds, *_ = make(4, noise_std=noise_std)
    rounds.noise = noise_std(rounds.pool) ** 2
    point = np.array([0.7, -0.2])
    learner.tell(3, 1.0)
    learner.tell(point, -1.0)
    rounds.tell(rounds.pool[3], 1.0, rounds.noise[3])
    rounds.tell(point, -1.0, noise_std(point[None])[0] ** 2)
    np.testing.assert_allclose(learner.predict()[1] ** 2, rounds.predict(rounds.pool)[1])


def test_what_more_observations_can_do_is_counted_not_guessed():
    learner, _, _, rng = make(6, rule="vtl")
    learner.tell(0, 1.0)
    level = 0.5 * (learner.uncertainty() + learner.floor())
    outlook = learner.outlook(level)
    assert outlook.observations > 1 and not outlook.is_done and outlook.is_reachable
    assert outlook.reducible == pytest.approx(learner.uncertainty() - learner.floor())
    for _ in range(outlook.observations):
        assert learner.uncertainty() > level
        learner.tell(learner.ask(), rng.normal())
    assert learner.uncertainty() <= level
    assert learner.outlook(level).observations == 0 and learner.outlook(level).is_done


def test_a_level_below_the_floor_is_said_to_be_out_of_reach():
    learner, *_ = make(6)
    outlook = learner.outlook(0.5 * learner.floor())
    assert outlook.observations is None and outlook.is_reachable is False
    assert "cannot be reached" in str(outlook)
    near = learner.outlook(1.000001 * learner.floor(), at_most=3)
    assert near.observations is None and "3 more observations do not reach" in str(near)


def test_observations_outside_the_candidates_lower_the_floor():
    learner, rounds, targets, _ = make(7, candidates=[0, 1, 2])
    before = learner.floor()
    learner.tell(targets[0], 0.3, noise_std=0.01)
    after = learner.floor()
    points = np.concatenate([rounds.pool[:3], targets, targets[:1]])
    K = oracle.condition(oracle.matrix(rounds.k, points, points), [6], np.array([1e-4]))
    left = np.diag(oracle.condition_exactly(K, np.arange(3)))[3:6]
    assert after == pytest.approx(left.mean(), rel=1e-6) and after < before


def test_the_posterior_of_a_learner_without_targets_is_about_the_pool():
    learner, rounds, *_ = make(9, targets=None, rule="uncertainty")
    learner.tell(2, 0.0)
    rounds.tell(rounds.pool[2], 0.0, rounds.noise[2])
    variance = rounds.predict(rounds.pool)[1]
    assert learner.uncertainty() == pytest.approx(variance.mean())
    assert learner.ask()[0] == variance.argmax() and learner.floor() == 0.0


def test_a_precomputed_kernel_takes_rows_of_its_matrix():
    rng = np.random.default_rng(0)
    K = rng.normal(size=(9, 12))
    K = K @ K.T / 12
    learner = tm.ActiveLearner(
        tm.kernels.Precomputed(K), pool=np.arange(6), targets=np.arange(6, 9), noise_std=0.3
    )
    (row,) = learner.ask()
    learner.tell(row, 1.5)
    mean, std = learner.predict(np.array([7]))
    s = K[row, row] + 0.09
    assert mean[0] == pytest.approx(1.5 * K[7, row] / s)
    assert std[0] ** 2 == pytest.approx(K[7, 7] - K[7, row] ** 2 / s)


def test_a_prior_brings_its_data_along():
    rng = np.random.default_rng(1)
    X, y = rng.uniform(-1, 1, (4, 2)), rng.normal(size=4)
    botorch = pytest.importorskip("botorch")
    model = botorch.models.SingleTaskGP(torch.tensor(X), torch.tensor(y)[:, None])
    pool = rng.uniform(-1, 1, (10, 2))
    learner = tm.ActiveLearner(model, pool=pool, targets=pool[:3])
    posterior = model.posterior(torch.tensor(pool))
    mean, std = learner.predict()
    np.testing.assert_allclose(mean, posterior.mean.detach()[:, 0], atol=1e-6)
    np.testing.assert_allclose(std**2, posterior.variance.detach()[:, 0], atol=1e-6)
    assert len(learner) == 4


@pytest.mark.parametrize("seed", range(4))
def test_with_drawn_targets_too_the_count_is_what_it_takes(seed):
    rng = np.random.default_rng(seed)
    whole = np.linspace(0, 5, 40)[:, None]
    learner = tm.ActiveLearner(
        tm.kernels.Gaussian(0.5),
        pool=rng.uniform(0, 5, (60, 1)),
        targets=tm.targets.Sampled(whole, 2),
        noise_std=0.1,
        seed=seed,
    )
    for _ in range(3):
        learner.tell(learner.ask(), 0.0)
    level = 0.4 * learner.uncertainty()
    count = learner.outlook(level).observations
    assert count > 2
    for _ in range(count):
        assert learner.uncertainty() > level
        learner.tell(learner.ask(), rng.normal())
    assert learner.uncertainty() <= level


def test_a_level_that_is_reached_already_is_done_even_at_the_floor():
    learner = tm.ActiveLearner(
        tm.kernels.Gaussian(1.0), pool=[[0.0], [1.0]], targets=[[40.0]], noise_std=0.1
    )
    outlook = learner.outlook(1.0)
    assert outlook.is_done and outlook.is_reachable and outlook.observations == 0
    assert "below" in str(outlook)


def test_a_floor_is_that_of_the_candidates_of_now():
    pool = np.linspace(0, 4, 9)[:, None]
    is_open = pool[:, 0] > 3
    learner = tm.ActiveLearner(
        tm.kernels.Gaussian(1.0),
        pool=pool,
        targets=[[2.0]],
        noise_std=0.1,
        candidates=lambda known: is_open,
    )
    far = learner.floor()
    is_open[:] = True
    assert learner.floor() < 1e-9 < 0.1 < far


@pytest.mark.parametrize("rule", ["truvar", "local-uncertainty"])
def test_rules_that_need_targets_to_ask_for_refuse_candidates_without_them(rule):
    pool = np.linspace(0, 3, 25)[:, None]
    mask = np.arange(25) < 5
    learner = tm.ActiveLearner(
        tm.kernels.Gaussian(1.0),
        pool=pool,
        targets=mask,
        noise_std=0.3,
        rule=rule,
        candidates=lambda known: ~mask if len(learner) else np.ones(25, dtype=bool),
    )
    assert mask[learner.ask()[0]]
    learner.tell(0, 1.0)
    with pytest.raises(ValueError, match="targets are no candidates"):
        learner.ask()


def test_what_the_caller_does_to_his_arrays_later_changes_nothing():
    pool, targets = np.linspace(0, 3, 25)[:, None], np.array([[1.0], [2.0]])
    learner = tm.ActiveLearner(tm.kernels.Gaussian(1.0), pool=pool, targets=targets, noise_std=0.3)
    expected = pool.copy()
    pool += 10
    targets += 10
    learner.points[:] = 99
    learner.target_points[:] = 99
    np.testing.assert_array_equal(learner.points, expected)
    np.testing.assert_array_equal(learner.target_points, [[1.0], [2.0]])
    learner.tell(0, 1.0)
    assert learner.predict(expected)[0][0] > 0.9


def test_a_row_told_by_its_coordinates_is_not_asked_for_again_without_repeats():
    pool = np.array([[0.0], [1.0], [2.0]])
    learner = tm.ActiveLearner(
        tm.kernels.Gaussian(1.0), pool=pool, targets=pool, noise_std=0.1, replace=False
    )
    rows = []
    for _ in range(3):
        rows += learner.ask().tolist()
        learner.tell(pool[rows[-1]], 0.0)
    assert sorted(rows) == [0, 1, 2]
    with pytest.raises(ValueError, match="no candidate is left"):
        learner.ask()


def test_telling_nothing_is_no_mistake():
    learner, *_ = make(1)
    learner.tell([], [])
    learner.tell(np.array([], dtype=int), np.array([]))
    assert len(learner) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a",), "level must be a number"),
        ((np.nan,), "level must be a positive finite number"),
        ((0.1, -1), "at_most must be a whole number"),
        ((0.1, 1.5), "at_most must be a whole number"),
    ],
)
def test_an_outlook_on_nonsense_says_so(arguments, message):
    learner, *_ = make(1)
    with pytest.raises((ValueError, TypeError), match=message):
        learner.outlook(*arguments)
