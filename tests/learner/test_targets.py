"""Targets that are fixed, drawn, or read off the posterior."""

import numpy as np
import pytest
import torch

import oracle
import tellmost as tm
from tellmost.targets import (
    LevelSet,
    NoTargetsLeft,
    PotentialMaximizers,
    Region,
    Sampled,
    ThompsonMaximizers,
)

POOL = np.stack(np.meshgrid(np.linspace(-1, 1, 9), np.linspace(-1, 1, 9)), -1).reshape(-1, 2)


def learner_of(targets, seed=0, **more):
    arguments = {"noise_std": 0.1, **more}
    return tm.ActiveLearner(
        tm.kernels.Gaussian(0.5), pool=POOL, targets=targets, seed=seed, **arguments
    )


def is_right(points):
    return points[:, 0] > 0.5


@pytest.mark.parametrize(
    "targets",
    [
        POOL[is_right(POOL)],
        is_right(POOL),
        Region(is_right(POOL)),
        Region(POOL[is_right(POOL)]),
        Region(is_right),
        lambda known: is_right(known.points),
    ],
    ids=["points", "mask", "Region(mask)", "Region(points)", "Region(predicate)", "function"],
)
@pytest.mark.parametrize("rule", ["vtl", "itl"])
def test_the_same_region_in_any_form_is_the_same(targets, rule):
    learner, plain = learner_of(targets, rule=rule), learner_of(POOL[is_right(POOL)], rule=rule)
    for y in (0.5, -1.0, 2.0):
        np.testing.assert_array_equal(learner.target_points, POOL[is_right(POOL)])
        np.testing.assert_allclose(learner.gains(), plain.gains(), rtol=1e-6, atol=1e-12)
        assert learner.ask(2).tolist() == plain.ask(2).tolist()
        learner.tell(learner.ask(), y)
        plain.tell(plain.ask(), y)


def test_a_region_may_be_a_box_that_the_pool_does_not_touch():
    box = tm.Box([2.0, 2.0], [2.5, 3.0])
    learner = learner_of(box)
    assert box.contains(learner.target_points).all()
    assert learner.ask()[0] == 80  # the corner next to the box
    assert learner.floor() > 0.1


def test_sampled_targets_are_a_fresh_subset_each_round_and_the_same_when_asked_again():
    learner = learner_of(Sampled(POOL[:40], 5))
    rounds = []
    for _ in range(6):
        now = learner.target_points
        assert np.array_equal(now, learner.target_points) and now.shape == (5, 2)
        assert {tuple(point) for point in now} <= {tuple(point) for point in POOL[:40]}
        assert len(np.unique(now, axis=0)) == 5
        rounds.append(tuple(map(tuple, now)))
        learner.tell(learner.ask(), 0.0)
    assert len(set(rounds)) == 6


def test_seeds_decide_what_is_drawn():
    def history(seed):
        learner = learner_of(Sampled(POOL, 3), seed=seed)
        rows = []
        for _ in range(5):
            rows += learner.ask(2).tolist()
            learner.tell(rows[-2:], [0.1, 0.2])
        return rows

    assert history(1) == history(1) != history(2)


def test_sampled_targets_can_be_drawn_from_any_distribution():
    def sampler(size, generator):
        return generator.normal([0.5, 0.5], 0.1, (size, 2))

    learner = learner_of(Sampled(sampler, 50))
    assert np.abs(learner.target_points.mean(axis=0) - 0.5).max() < 0.1
    box = tm.Box([0.0, 0.0], [0.2, 0.4])
    learner = learner_of(Sampled(box, 50))
    assert box.contains(learner.target_points).all()
    assert learner.target_points.max(axis=0) == pytest.approx([0.2, 0.4], abs=0.05)


def test_the_uncertainty_of_sampled_targets_is_that_of_all_that_may_be_drawn():
    sampled, whole = learner_of(Sampled(POOL[:40], 5)), learner_of(POOL[:40])
    for learner in (sampled, whole):
        learner.tell([3, 60], [1.0, 2.0])
    assert sampled.uncertainty() == pytest.approx(whole.uncertainty())
    assert sampled.floor() == pytest.approx(whole.floor(), abs=1e-12)


def test_learning_from_few_drawn_targets_learns_about_all():
    learner = learner_of(Sampled(POOL, 4), seed=3)
    before = learner.uncertainty()
    for _ in range(60):
        learner.tell(learner.ask(), 0.0)
    assert learner.uncertainty() < 0.05 * before


@pytest.mark.parametrize("beta", [None, 1.0, 3.0])
def test_a_level_set_has_the_points_that_may_be_on_either_side(beta):
    learner = learner_of(LevelSet(0.3, beta=beta))
    learner.tell([0, 40, 80, 22], [1.0, -1.0, 0.2, 0.5])
    mean, std = learner.predict()
    expected = np.abs(mean - 0.3) <= (2.0 if beta is None else beta) * std
    np.testing.assert_array_equal(learner.target_points, POOL[expected])
    assert 0 < expected.sum() < 81


def test_a_level_set_ends_when_every_point_is_classified():
    def f(points):
        return np.sin(3 * points[:, 0]) + 0.5 * points[:, 1]

    learner = learner_of(LevelSet(0.37), noise_std=0.02, rule="itl")
    while np.any(np.abs(learner.predict()[0] - 0.37) <= 2 * learner.predict()[1]):
        rows = learner.ask()
        learner.tell(rows, f(POOL[rows]))
    with pytest.raises(NoTargetsLeft, match="nothing is left to learn about"):
        learner.ask()
    mean, _ = learner.predict()
    assert 5 < len(learner) < 200
    np.testing.assert_array_equal(mean > 0.37, f(POOL) > 0.37)


def test_potential_maximizers_are_those_whose_upper_bound_reaches_the_best_lower_bound():
    learner = learner_of(PotentialMaximizers(beta=1.5))
    assert len(learner.target_points) == len(POOL)
    learner.tell([0, 40, 80, 22], [1.0, -1.0, 0.2, 2.5])
    mean, std = learner.predict()
    expected = mean + 1.5 * std >= (mean - 1.5 * std).max()
    np.testing.assert_array_equal(learner.target_points, POOL[expected])
    assert 0 < expected.sum() < 81


def test_learning_about_potential_maximizers_finds_the_maximum():
    def f(points):
        return -np.square(points - [0.5, -0.25]).sum(axis=1)

    learner = learner_of(PotentialMaximizers(), rule="itl")
    for _ in range(40):
        rows = learner.ask()
        learner.tell(rows, f(POOL[rows]))
    assert learner.predict()[0].argmax() == f(POOL).argmax()


@pytest.mark.parametrize("kernel", [tm.kernels.Gaussian(0.5), tm.kernels.Laplace(1.0)], ids=repr)
def test_functions_are_drawn_from_the_posterior(kernel):
    drawn = []

    def all_points(known):
        drawn.append(known.sample(4000))
        return np.ones(len(known.points), dtype=bool)

    pool = POOL[::4]
    learner = tm.ActiveLearner(kernel, pool=pool, targets=all_points, noise_std=0.2)
    learner.tell([0, 10, 20], [1.0, -1.0, 0.5])
    learner.ask()
    (sample,) = drawn[-1:]
    mean, std = learner.predict()
    np.testing.assert_allclose(sample.mean(axis=0), mean, atol=4.5 / np.sqrt(4000))
    np.testing.assert_allclose(sample.std(axis=0), std, rtol=0.08, atol=1e-5)
    K = kernel.block(torch.tensor(pool), torch.tensor(pool)).numpy()
    C = oracle.condition(K, [0, 10, 20], np.full(3, 0.04))
    np.testing.assert_allclose(np.cov(sample.T), C, atol=0.09)


def test_thompson_targets_are_where_drawn_functions_are_largest():
    learner = learner_of(ThompsonMaximizers(6))
    learner.tell([0, 40, 80, 22], [1.0, -1.0, 0.2, 3.0])
    points = learner.target_points
    assert 1 <= len(points) <= 6
    mean, std = learner.predict(points)
    assert (mean + 4 * std > 2.0).all()


def test_thompson_targets_refuse_a_pool_too_large_to_draw_at(monkeypatch):
    monkeypatch.setattr("tellmost.targets.potential.SAMPLED_ROWS", 50)
    with pytest.raises(ValueError, match="jointly at all points of the pool, at most 50"):
        learner_of(ThompsonMaximizers(3)).ask()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Region(None), "Region must be given"),
        (lambda: learner_of(Region(lambda x: x)), "must return a mask"),
        (lambda: learner_of(np.zeros(81, dtype=bool)), "nothing is left to learn about"),
        (
            lambda: learner_of(np.ones(80, dtype=bool)),
            r"an entry per pool row, \(81,\); got \(80,\)",
        ),
        (lambda: learner_of(np.zeros((3, 5))), "share their feature dimension"),
        (lambda: learner_of(LevelSet), "an instance, such as LevelSet"),
        (lambda: Sampled(POOL, 0), r"Sampled\(size\) must be a whole number"),
        (lambda: Sampled(POOL, 82), "at least size = 82 points"),
        (lambda: LevelSet("a"), "tau"),
        (lambda: LevelSet(None), "tau"),
        (lambda: LevelSet([0.0, 1.0]), "tau"),
        (lambda: LevelSet(0.0, beta=-1), "beta"),
        (lambda: PotentialMaximizers(beta=np.nan), "beta"),
        (lambda: ThompsonMaximizers(0), r"ThompsonMaximizers\(K\)"),
        (lambda: learner_of(None), "rule 'vtl' needs targets"),
    ],
)
def test_targets_that_are_none_say_what_is_wrong(make, message):
    with pytest.raises((ValueError, TypeError, NoTargetsLeft), match=message):
        make()


def test_a_sampler_that_returns_too_few_points_is_told_so():
    learner = learner_of(Sampled(lambda size, generator: np.zeros((2, 2)), 3))
    with pytest.raises(ValueError, match=r"must return \(size, d\) points; got float64"):
        learner.ask()
