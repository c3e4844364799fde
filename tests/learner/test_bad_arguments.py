"""Wrong arguments of the learner: what the errors say."""

import re

import numpy as np
import pytest

import tellmost as tm

POOL = np.random.default_rng(0).uniform(-1, 1, (10, 2))
KERNEL = tm.kernels.Gaussian(0.5)


def make(**changed):
    arguments = {"pool": POOL, "targets": POOL[:2], "noise_std": 0.1, **changed}
    return tm.ActiveLearner(arguments.pop("kernel", KERNEL), **arguments)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"noise_std": None}, "noise_std must be given with a kernel"),
        ({"noise_std": 0.0}, "noise_std must be a positive"),
        ({"noise_std": np.full(9, 0.1)}, r"one entry per pool row, \(10,\)"),
        ({"noise_std": np.zeros(10)}, "noise_std must be positive; row 0"),
        ({"noise_std": lambda points: 0.1}, r"noise_std\(points\)"),
        ({"pool": POOL[:, 0]}, "two dimensions"),
        ({"pool": np.full((3, 2), np.nan)}, "pool must be finite"),
        ({"pool": np.empty((0, 2))}, "must not be empty"),
        ({"rule": "vlt"}, "unknown rule 'vlt'"),
        ({"rule": "cosine"}, "replace=True has no meaning"),
        ({"kernel": "rbf"}, "kernel"),
        ({"mean": "zero"}, "mean, .* must be a number"),
        ({"mean": lambda x: x}, "mean must return a value per point"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": 0.5}, "seed must be a whole number"),
        ({"rule": "itl-y", "noise_std": np.full(10, 0.1)}, "target_noise_std"),
    ],
)
def test_a_learner_that_cannot_be_made_says_why(changed, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(**changed)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ((3, np.nan), "y must be finite"),
        ((3, "warm"), "y"),
        (([3, 4], [1.0]), r"y must have one entry per observation, \(2,\)"),
        ((10, 1.0), "rows of the pool, 0 to 9; got 10"),
        ((-1, 1.0), "got -1"),
        (([0.5], 1.0), "share their feature dimension"),
        ((np.ones(10, dtype=bool), np.zeros(10)), "np.flatnonzero"),
        (([[0.1, np.inf]], 1.0), "finite"),
        ((3, 1.0, 0.0), "noise_std must be a positive"),
        ((3, 1.0, [0.1, 0.2]), "noise_std"),
    ],
)
def test_what_cannot_be_taken_in_says_why_and_changes_nothing(told, message):
    learner = make()
    with pytest.raises((ValueError, TypeError), match=message):
        learner.tell(*told)
    assert len(learner) == 0


@pytest.mark.parametrize("n", [0, -1, 1.5])
def test_the_size_of_a_batch_is_a_whole_number(n):
    with pytest.raises((ValueError, TypeError), match="n must be a whole number"):
        make().ask(n)


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        (np.zeros(10, dtype=bool), "candidates must name at least one row"),
        ([3, 3], "candidates has row 3 more than once"),
        ([12], "rows of the pool, 0 to 9; got 12"),
        (lambda known: [12], "rows of the pool, 0 to 9; got 12"),
    ],
    ids=["none", "twice", "beyond", "function"],
)
def test_candidates_that_are_none_say_why(candidates, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(candidates=candidates).ask()


def test_outside_the_pool_noise_per_row_does_not_say_enough():
    learner = make(noise_std=np.full(10, 0.2))
    with pytest.raises(ValueError, match=r"tell\(points, y, noise_std=...\)"):
        learner.tell([[0.1, 0.2]], 1.0)
    learner.tell([[0.1, 0.2]], 1.0, noise_std=0.3)
    assert len(learner) == 1


def test_points_to_predict_at_share_the_dimension_of_the_pool():
    with pytest.raises(ValueError, match="pool and X must share their feature dimension"):
        make().predict(np.zeros((2, 3)))


@pytest.mark.parametrize("pool", [np.eye(5, 2), tm.Box([0.0, 0.0], [1.0, 1.0])])
def test_more_points_than_memory_holds_are_refused_with_the_number_that_fits(pool):
    learner = tm.ActiveLearner(
        tm.kernels.Gaussian(1.0), pool=pool, targets=[[0, 1]], noise_std=0.1
    )
    with pytest.raises(ValueError, match=r"Ask for at most [\d,]+ at once") as caught:
        learner.ask(10**9)
    most = int(re.search(r"at most ([\d,]+)", str(caught.value))[1].replace(",", ""))
    assert 1_000 < most < 10**7
    assert len(learner.ask(2)) == 2


def test_more_points_than_there_are_rows_are_refused_as_such():
    learner = tm.ActiveLearner(
        tm.kernels.Gaussian(1.0),
        pool=np.eye(5),
        targets=np.eye(5)[:1],
        noise_std=0.1,
        replace=False,
    )
    with pytest.raises(ValueError, match="no candidate is left to ask for"):
        learner.ask(10**9)
